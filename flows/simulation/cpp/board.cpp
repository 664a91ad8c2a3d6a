// SPDX-License-Identifier: Apache-2.0
// The Verilated design of a board, driven and read at its pins alone: an oscillator, and a serial
// adapter that sends and receives bits at its own rate.  flows/board/simulation.py loads it.

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "Vtop.h"
#include "board_pins.h"
#include "verilated.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

/// A serial adapter: eight data bits, no parity, one stop bit.  Times are in clock cycles.
class Adapter {
  public:
    explicit Adapter(double cycles_per_bit) : bit_(cycles_per_bit) {}

    void send(const uint8_t* data, size_t count) { queue_.insert(queue_.end(), data, data + count); }

    bool sending() const { return bits_ > 0 || !queue_.empty(); }

    /// Return the level that the adapter drives in a cycle.
    int drive(double now) {
        while (bits_ > 0 && now >= next_) {
            shift_ = (shift_ >> 1) | 0x200;
            if (--bits_ > 0) next_ += bit_;
        }
        if (bits_ == 0 && !queue_.empty()) {
            shift_ = 0x200 | (queue_.front() << 1);
            queue_.pop_front();
            bits_ = 10;
            if (next_ < now - 1) next_ = now;  // after a pause; else bytes follow without one
            next_ += bit_;
        }
        return bits_ ? shift_ & 1 : 1;
    }

    /// Look at the level that the board drives in a cycle.
    void sample(double now, int level) {
        if (position_ < 0) {
            if (!level && before_) {
                position_ = 0;
                middle_ = now + 0.5 * bit_;
                byte_ = 0;
            }
        } else if (now >= middle_) {
            middle_ += bit_;
            if (position_ == 0 && level) {
                position_ = -1;
            } else if (position_ == 9) {
                if (level) received.push_back(byte_);
                else broken++;
                position_ = -1;
            } else {
                if (position_ > 0) byte_ |= level << (position_ - 1);
                position_++;
            }
        }
        before_ = level;
    }

    std::vector<uint8_t> received;
    uint64_t broken = 0;

  private:
    const double bit_;
    std::deque<uint8_t> queue_;
    int bits_ = 0, shift_ = 0x3ff;
    double next_ = 0;
    int position_ = -1, before_ = 1;
    double middle_ = 0;
    uint8_t byte_ = 0;
};

struct Board {
    Board(double cycles_per_bit, int seed) : adapter(cycles_per_bit) {
        const std::string argument = "+verilator+seed+" + std::to_string(seed);
        const char* arguments[] = {"board", "+verilator+rand+reset+2", argument.c_str()};
        context.commandArgs(3, arguments);
        top = std::make_unique<Vtop>(&context);
        top->clk = 0;
        top->rx = 1;
        press(*top, false);
        top->eval();
    }

    void cycle() {
        const double now = static_cast<double>(cycles);
        top->rx = connected ? adapter.drive(now) : 1;
        top->clk = 1;
        top->eval();
        top->clk = 0;
        top->eval();
        cycles++;
        if (connected) adapter.sample(now, top->tx);
    }

    VerilatedContext context;
    std::unique_ptr<Vtop> top;
    Adapter adapter;
    uint64_t cycles = 0;
    bool connected = true;
};

}  // namespace

EXPORT void* hwgen_board_open(double cycles_per_bit, int seed) {
    return new Board(cycles_per_bit, seed);
}

EXPORT void hwgen_board_close(void* board) { delete static_cast<Board*>(board); }

EXPORT void hwgen_board_send(void* board, const uint8_t* data, size_t count) {
    static_cast<Board*>(board)->adapter.send(data, count);
}

/// Run until `wanted` bytes have been received, at most `limit` cycles after everything was sent.
EXPORT size_t hwgen_board_run(void* pointer, size_t wanted, uint64_t limit) {
    auto* board = static_cast<Board*>(pointer);
    uint64_t idle = 0;
    while (board->adapter.received.size() < wanted && idle < limit) {
        board->cycle();
        if (!board->connected || !board->adapter.sending()) idle++;
    }
    return board->adapter.received.size();
}

/// Copy the first `count` of the bytes received, and forget them.
EXPORT void hwgen_board_receive(void* pointer, uint8_t* data, size_t count) {
    auto& received = static_cast<Board*>(pointer)->adapter.received;
    std::memcpy(data, received.data(), count);
    received.erase(received.begin(), received.begin() + static_cast<long>(count));
}

EXPORT uint64_t hwgen_board_cycles(void* board) { return static_cast<Board*>(board)->cycles; }

EXPORT uint64_t hwgen_board_broken(void* board) {
    return static_cast<Board*>(board)->adapter.broken;
}

EXPORT void hwgen_board_plug(void* board, int connected) {
    static_cast<Board*>(board)->connected = connected;
}

EXPORT void hwgen_board_press(void* board, int pressed) {
    press(*static_cast<Board*>(board)->top, pressed);
}

EXPORT int hwgen_board_lit(void* board) { return lit(*static_cast<Board*>(board)->top); }
