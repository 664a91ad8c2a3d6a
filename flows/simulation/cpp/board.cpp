// SPDX-License-Identifier: Apache-2.0
// The Verilated design of a board, driven and read at its pins alone: an oscillator, and an adapter
// of the link that sends and receives bits at its own rate.  flows/board/simulation.py loads it, and
// writes board_pins.h.

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "Vtop.h"
#include "board_pins.h"
#include "verilated.h"
#ifdef HWGEN_UDP
#include "rgmii.h"
#endif

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

#if defined(HWGEN_UDP)

using Adapter = hwgen::Transceiver<Vtop>;

#elif defined(HWGEN_UART)

/// A serial adapter: eight data bits, no parity, one stop bit.  Times are in clock cycles.
class Adapter {
  public:
    explicit Adapter(double cycles_per_bit) : bit_(cycles_per_bit) {}

    void send(const uint8_t* data, size_t count) { queue_.insert(queue_.end(), data, data + count); }

    bool sending() const { return bits_ > 0 || !queue_.empty(); }

    /// Receive, or do not: a board sends when it likes to.
    void listen(bool) {}

    /// Drive the pins of a link without an adapter.
    static void release(Vtop& top) { set_rx(top, 1); }

    /// Drive the pins in a cycle; without a cable they are at rest.
    void drive(Vtop& top, double now, bool connected) {
        if (connected) set_rx(top, level(now));
        else release(top);
    }

    /// Look at the pins in a cycle.
    void sample(Vtop& top, double now) { sample(now, get_tx(top)); }

    std::vector<uint8_t> received;
    uint64_t broken = 0;

  private:
    int level(double now) {
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

    const double bit_;
    std::deque<uint8_t> queue_;
    int bits_ = 0, shift_ = 0x3ff;
    double next_ = 0;
    int position_ = -1, before_ = 1;
    double middle_ = 0;
    uint8_t byte_ = 0;
};

#else

/// The controller of a serial peripheral bus in mode 0.  A byte of the board comes with each byte
/// that is sent; while the adapter listens, it sends zeros.  Times are in clock cycles.
class Adapter {
  public:
    explicit Adapter(double cycles_per_bit) : half_(cycles_per_bit / 2) {}

    void send(const uint8_t* data, size_t count) { queue_.insert(queue_.end(), data, data + count); }

    bool sending() const { return !queue_.empty() || (bits_ > 0 && !filling_); }

    void listen(bool enabled) { listening_ = enabled; }

    static void release(Vtop& top) {
        set_cs(top, 1);
        set_sck(top, 0);
        set_mosi(top, 0);
    }

    /// Drive the pins in a cycle, and read a bit when the clock rises.  Without a cable the host
    /// reads ones.
    void drive(Vtop& top, double now, bool connected) {
        const bool before = clock_;
        if (now >= next_) {
            if (next_ < now - 1) next_ = now;
            step();
        }
        if (clock_ && !before) read(connected ? get_miso(top) : 1);
        if (!connected) return release(top);
        set_cs(top, !selected_);
        set_sck(top, clock_);
        set_mosi(top, (byte_ >> 7) & 1);
    }

    void sample(Vtop&, double) {}

    std::vector<uint8_t> received;
    uint64_t broken = 0;

  private:
    void step() {
        if (clock_) {  // a bit ends
            clock_ = false;
            next_ += half_;
            if (--bits_ > 0) {
                byte_ <<= 1;
            } else if (!load()) {
                ending_ = true;
            }
        } else if (ending_) {
            selected_ = ending_ = false;
            next_ += 2 * half_;
        } else if (!selected_) {
            if (!load()) return;
            selected_ = true;
            next_ += half_;
        } else {
            clock_ = true;
            next_ += half_;
        }
    }

    /// Take the next byte to send, if there is one.
    bool load() {
        filling_ = queue_.empty();
        if (filling_ && !listening_) return false;
        byte_ = filling_ ? 0 : queue_.front();
        if (!filling_) queue_.pop_front();
        bits_ = 8;
        return true;
    }

    void read(int level) {
        incoming_ = static_cast<uint8_t>(incoming_ << 1 | level);
        if (bits_ == 1) received.push_back(incoming_);
    }

    const double half_;
    std::deque<uint8_t> queue_;
    bool listening_ = false, filling_ = false, selected_ = false, ending_ = false;
    bool clock_ = false;
    int bits_ = 0;
    uint8_t byte_ = 0, incoming_ = 0;
    double next_ = 0;
};

#endif

#ifdef HWGEN_SDRAM_DOUBLE

/// Pads whose registers work at both edges of the clock, those of ECP5 by their library of
/// simulation models.  ODDRX1F has three stages of registers, and puts out D0 while the clock is
/// high, then D1.  IDDRX1F has the level at a rising edge, and at the falling edge after it, from
/// the next rising edge on.  A word that the chip drives is sampled SAMPLED edges after the one
/// that the chip's edge follows; 0: at none with certainty.
class Pads {
  public:
    Pads() {
        for (auto& stage : stages_)
            for (auto& half : stage) half = {0, 1, 1, 1, 1, 0, 0, 3, 0, 0};
        for (auto& word : words_) word = NOBODY;
    }

    /// Look at the outputs of the design before a rising edge.
    void sample(const Vtop& top) {
        for (int half = 0; half < 2; half++) stages_[at_][half] = read_sdram(top, half);
        at_ = (at_ + 1) % STAGES;  // the oldest is at the pins now
    }

    /// Let the chip see its two edges, and return the inputs of the design after that edge.
    uint32_t step(hwgen::Sdram& chip) {
        const uint32_t inputs = words_[0] | static_cast<uint32_t>(words_[1]) << 16;
        for (const auto& pins : stages_[at_]) {
            const int word = chip.step(pins);
            for (int at = 1; at < LATE; at++) words_[at - 1] = words_[at];
            words_[LATE - 1] = static_cast<uint16_t>(word < 0 || !SAMPLED ? NOBODY : word);
        }
        return inputs;
    }

  private:
    static constexpr int STAGES = 3, SAMPLED = HWGEN_SDRAM_DOUBLE, LATE = SAMPLED + 2;
    static constexpr uint16_t NOBODY = 0xdead;

    hwgen::SdramPins stages_[STAGES][2];
    uint16_t words_[LATE];
    int at_ = 0;
};

#endif

struct Board {
    Board(double cycles_per_bit, int seed) : adapter(cycles_per_bit) {
        const std::string argument = "+verilator+seed+" + std::to_string(seed);
        const char* arguments[] = {"board", "+verilator+rand+reset+2", argument.c_str()};
        context.commandArgs(3, arguments);
        top = std::make_unique<Vtop>(&context);
        set_clk(*top, 0);
        Adapter::release(*top);
        press(*top, false);
        top->eval();
    }

    void cycle() {
        const double now = static_cast<double>(cycles);
#ifdef HWGEN_UDP
        adapter.advance(*top, now, connected);
#else
        adapter.drive(*top, now, connected);
#endif
#ifdef HWGEN_SDRAM_DOUBLE
        pads.sample(*top);
#endif
        set_clk(*top, 1);
        top->eval();
#ifdef HWGEN_UDP
        adapter.advance(*top, now + 0.5, connected);
#endif
        set_clk(*top, 0);
        top->eval();
#ifdef HWGEN_SDRAM_DOUBLE
        top->sdram_dq_i = pads.step(sdram);
#elif defined(HWGEN_SDRAM)
        // The chip has the inverted clock.  Nobody drives the pins where it returns no word.  The
        // word is evaluated with the next edge, where Verilator settles inputs before registers.
        const int word = sdram.step(read_sdram(*top));
        top->sdram_dq_i = static_cast<uint16_t>(word < 0 ? 0xdead : word);
#endif
        cycles++;
#ifndef HWGEN_UDP
        if (connected) adapter.sample(*top, now);
#endif
    }

    VerilatedContext context;
    std::unique_ptr<Vtop> top;
    Adapter adapter;
#ifdef HWGEN_SDRAM
    hwgen::Sdram sdram{SDRAM_TIMES};
#endif
#ifdef HWGEN_SDRAM_DOUBLE
    Pads pads;
#endif
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
    board->adapter.listen(true);
    while (board->adapter.received.size() < wanted && idle < limit) {
        board->cycle();
        if (!board->connected || !board->adapter.sending()) idle++;
    }
    board->adapter.listen(false);
    return board->adapter.received.size();
}

/// Run a number of cycles, and on until everything was sent, without asking for bytes.
EXPORT void hwgen_board_wait(void* pointer, uint64_t count) {
    auto* board = static_cast<Board*>(pointer);
    for (uint64_t idle = 0; idle < count;) {
        board->cycle();
        if (!board->connected || !board->adapter.sending()) idle++;
    }
}

/// Copy the first `count` of the bytes received, and forget them.
EXPORT void hwgen_board_receive(void* pointer, uint8_t* data, size_t count) {
    auto& received = static_cast<Board*>(pointer)->adapter.received;
    std::memcpy(data, received.data(), count);
    received.erase(received.begin(), received.begin() + static_cast<long>(count));
}

/// The first rule of the SDRAM that was broken; empty if there is none.
EXPORT const char* hwgen_board_memory_error(void* board) {
#ifdef HWGEN_SDRAM
    return static_cast<Board*>(board)->sdram.error.c_str();
#else
    (void)board;
    return "";
#endif
}

/// Set bytes of the SDRAM without its pins; 0 if it does not have them all, or there is none.
EXPORT int hwgen_board_preload(void* board, uint64_t address, const uint8_t* data, size_t count) {
#ifdef HWGEN_SDRAM
    return static_cast<Board*>(board)->sdram.preload(address, data, count);
#else
    (void)board, (void)address, (void)data, (void)count;
    return 0;
#endif
}

/// Copy bytes of the SDRAM without its pins; 0 if it does not have them all, or there is none.
EXPORT int hwgen_board_inspect(void* board, uint64_t address, uint8_t* data, size_t count) {
#ifdef HWGEN_SDRAM
    return static_cast<Board*>(board)->sdram.inspect(address, data, count);
#else
    (void)board, (void)address, (void)data, (void)count;
    return 0;
#endif
}

/// Words that have gone over the data pins of the SDRAM.
EXPORT uint64_t hwgen_board_words_moved(void* board) {
#ifdef HWGEN_SDRAM
    return static_cast<Board*>(board)->sdram.words_moved;
#else
    (void)board;
    return 0;
#endif
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
