// SPDX-License-Identifier: Apache-2.0
// A transceiver of Ethernet at 1 Gbit/s, seen from an FPGA: pins of RGMII, four bits at each edge of
// a clock in each direction.  It has the clock that is received; the design sends its own with data.

#pragma once

#include <cstdint>
#include <deque>
#include <vector>

namespace hwgen {

/// Sends and receives whole frames, from the preamble to the checksum, which it does not look at.
/// Times are in cycles of the design's clock.
template <class Top> class Transceiver {
  public:
    explicit Transceiver(double cycles_per_clock) : half_(cycles_per_clock / 2) {}

    /// Send a frame when those before it have gone.
    void send(const uint8_t* data, size_t count) { queue_.emplace_back(data, data + count); }

    bool sending() const { return !queue_.empty() || gap_ > 0; }

    /// Receive, or do not: a board sends when it likes to.
    void listen(bool) {}

    static void release(Top& top) {
        set_rxc(top, 0);
        put(top, 0, 0);
    }

    /// Let the transceiver's clock have its edges up to a time.  Without a cable nothing comes.
    void advance(Top& top, double until, bool connected) {
        for (; next_ <= until; next_ += half_) {
            clock_ = !clock_;
            if (clock_) {
                load();
                if (!connected && at_ > 0) at_ = 0, queue_.pop_front();
            }
            const bool valid = at_ > 0;
            const int byte = valid ? queue_.front()[at_ - 1] : 0;
            put(top, valid, clock_ ? byte & 15 : byte >> 4);
            top.eval();  // the data are there before the edge
            set_rxc(top, clock_);
            top.eval();
            if (get_rst_n(top)) sample(top, connected);
        }
    }

    /// Length of each frame, in two bytes, and its bytes.
    std::vector<uint8_t> received;

    /// Levels of the clock that the design sends that are not those of its data.
    uint64_t broken = 0;

  private:
    static constexpr int GAP = 12;  // clocks between frames at least

    static void put(Top& top, int valid, int nibble) {
        set_rx_ctl(top, valid);
        set_rxd0(top, nibble & 1);
        set_rxd1(top, nibble >> 1 & 1);
        set_rxd2(top, nibble >> 2 & 1);
        set_rxd3(top, nibble >> 3 & 1);
    }

    /// Choose the byte of the next clock.
    void load() {
        if (at_ > 0 && ++at_ > queue_.front().size()) {
            queue_.pop_front();
            at_ = 0;
            gap_ = GAP;
        }
        if (at_ > 0) return;
        if (gap_ > 0) gap_--;
        else if (!queue_.empty()) at_ = 1;
    }

    void sample(Top& top, bool connected) {
        const int nibble = get_txd0(top) | get_txd1(top) << 1 | get_txd2(top) << 2 | get_txd3(top) << 3;
        const bool valid = get_tx_ctl(top);
        if ((valid || !frame_.empty()) && get_txc(top) != clock_) broken++;
        if (clock_) {
            first_ = nibble;
            begun_ = valid;
            if (!valid && !frame_.empty()) {
                if (connected) {
                    received.push_back(static_cast<uint8_t>(frame_.size()));
                    received.push_back(static_cast<uint8_t>(frame_.size() >> 8));
                    received.insert(received.end(), frame_.begin(), frame_.end());
                }
                frame_.clear();
            }
        } else if (begun_) {
            frame_.push_back(static_cast<uint8_t>(nibble << 4 | first_));
            if (!valid) broken++;  // an error of transmission
        }
    }

    const double half_;
    std::deque<std::vector<uint8_t>> queue_;
    size_t at_ = 0;  // one more than the byte that is sent; 0: none
    int gap_ = 0;
    double next_ = 0;
    bool clock_ = false;
    int first_ = 0;
    bool begun_ = false;
    std::vector<uint8_t> frame_;
};

}  // namespace hwgen
