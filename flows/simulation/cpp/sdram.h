// SPDX-License-Identifier: Apache-2.0
// A model of an SDR SDRAM of 16 bits at the pins of a simulated board, by the rules of data sheets.
// A generated header names its constants.  `error` says which rule was broken first.

#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace hwgen {

/// Geometry and times (ns) of a chip, and the period of its clock.
struct SdramTimes {
    int row_bits, column_bits;
    double clock, rcd, rp, rc, rfc, ras, ras_longest, rrd, wr, refi, start_up;
    int mrd_clocks, start_up_refreshes;
    double least_clock[4];  // by CAS latency; 0: not supported
};

/// Levels of the inputs at a rising edge of the chip's clock.
struct SdramPins {
    int cke, cs_n, ras_n, cas_n, we_n, bank, address, mask, data, driven;
};

class Sdram {
  public:
    explicit Sdram(const SdramTimes& times)
        : t_(times), count_(size_t{BANKS} << (times.row_bits + times.column_bits)) {
        power_up();
    }

    /// Bytes of the chip.
    size_t size() const { return WORD_BYTES * count_; }

    /// Set bytes of the memory without a command, or return false if they are not all in the chip.
    /// Addresses are row, bank, column from the top, then the byte.
    bool preload(uint64_t address, const uint8_t* data, size_t count) {
        if (!inside(address, count)) return false;
        for (size_t at = 0; at < count; at++) {
            uint16_t& word = words()[(address + at) / WORD_BYTES];
            const int shift = (address + at) % WORD_BYTES * 8;
            word = static_cast<uint16_t>((word & ~(0xff << shift)) | data[at] << shift);
        }
        return true;
    }

    /// Copy bytes of the memory without a command, or return false; see `preload`.
    bool inspect(uint64_t address, uint8_t* data, size_t count) {
        if (!inside(address, count)) return false;
        for (size_t at = 0; at < count; at++)
            data[at] = static_cast<uint8_t>(words()[(address + at) / WORD_BYTES] >>
                                            (address + at) % WORD_BYTES * 8);
        return true;
    }

    /// The word that the chip drives until the next edge; -1 if it drives nothing.
    int step(const SdramPins& pins) {
        edge_++;
        now_ = static_cast<double>(edge_) * t_.clock;
        masks_[2] = masks_[1];
        masks_[1] = masks_[0];
        masks_[0] = pins.mask;
        if (!pins.cke) {  // the design was reset: start-up again, and contents are lost
            if (enabled_ >= 0) power_up();
            return -1;
        }
        if (enabled_ < 0) enabled_ = now_;
        always(pins);
        const int command = pins.cs_n ? NOP : pins.ras_n << 2 | pins.cas_n << 1 | pins.we_n;
        if (command != NOP) {
            order(command, pins);
            execute(command, pins);
            commands++;
        }
        data_in(pins);
        return data_out();
    }

    std::string error;
    uint64_t commands = 0, words_moved = 0;

  private:
    enum Command { MODE, REFRESH, PRECHARGE, ACTIVATE, WRITE, READ, STOP, NOP };
    static constexpr double PAST = -1e12, NEVER = 1e300, ROUNDING = 1e-6;
    static constexpr int BANKS = 4, WORD_BYTES = 2;

    struct Bank {
        int row = -1;
        double activated = PAST, precharged = PAST, written = PAST;
    };
    struct Burst {
        int64_t start, end;
        int bank, row, column;
    };

    void power_up() {
        for (auto& bank : banks_) bank = Bank();
        enabled_ = -1;
        phase_ = 0;
        refreshes_ = 0;
        length_ = 0;
        mode_edge_ = -1000;
        activated_ = refreshed_ = PAST;
        activated_bank_ = -1;
        longest_open_ = NEVER;
        reads_.clear();
        writing_ = false;
        words_.reset();
    }

    bool inside(uint64_t address, size_t count) const {
        return address <= size() && count <= size() - address;
    }

    /// The words of the chip, zeros at first: pages that nothing writes are not allocated.
    uint16_t* words() {
        if (!words_) words_.reset(static_cast<uint16_t*>(std::calloc(count_, WORD_BYTES)));
        return words_.get();
    }

    /// Find the time at which the first of the open rows has to be closed.
    void find_longest_open() {
        longest_open_ = NEVER;
        for (const auto& bank : banks_)
            if (bank.row >= 0)
                longest_open_ = std::min(longest_open_, bank.activated + t_.ras_longest);
    }

    void require(bool holds, const char* rule, const char* text) {
        if (holds || !error.empty()) return;
        char line[200];
        std::snprintf(line, sizeof line, "%s: %s, at %g ns", rule, text, now_);
        error = line;
    }

    void since(double event, double least, const char* rule, const char* text) {
        require(now_ - event >= least - ROUNDING, rule, text);
    }

    void always(const SdramPins& pins) {
        if (length_ && refreshes_ >= t_.start_up_refreshes)
            require(now_ - refreshed_ <= t_.refi + ROUNDING, "tREFI", "no refresh for too long");
        require(now_ <= longest_open_ + ROUNDING, "tRAS maximum", "row open for too long");
        if (pins.driven)
            for (const auto& burst : reads_)
                require(edge_ < burst.start || edge_ > burst.end, "DQ",
                        "the controller drives while the chip does");
    }

    void order(int command, const SdramPins& pins) {
        require(edge_ - mode_edge_ >= t_.mrd_clocks, "tMRD", "command after the mode register");
        if (command != STOP) since(refreshed_, t_.rfc, "tRFC", "command after a refresh");
        if (phase_ == 0) {
            since(enabled_, t_.start_up, "start-up", "command before the pause has ended");
            require(command == PRECHARGE && (pins.address >> 10 & 1), "start-up",
                    "command before every bank is precharged");
            phase_ = 1;
        } else if (phase_ == 1 && command > PRECHARGE) {
            require(refreshes_ >= t_.start_up_refreshes, "start-up", "too few refreshes");
            require(length_ != 0, "start-up", "no mode");
            phase_ = 2;
        }
    }

    void idle(const char* text) {
        for (const auto& bank : banks_) {
            require(bank.row < 0, "state", text);
            since(bank.precharged, t_.rp, "tRP", text);
        }
    }

    void execute(int command, const SdramPins& pins) {
        switch (command) {
            case MODE: return mode(pins);
            case REFRESH: return refresh();
            case PRECHARGE: return precharge(pins);
            case ACTIVATE: return activate(pins);
            case WRITE:
            case READ: return column(command == WRITE, pins);
            default: require(false, "command", "burst stop is not expected");
        }
    }

    void mode(const SdramPins& pins) {
        idle("mode while a bank is open or being precharged");
        const int code = pins.address & 7, cas = pins.address >> 4 & 7;
        require(code <= 3 && !(pins.address >> 3 & 1), "mode", "bursts of that order or length");
        require(!(pins.address >> 7) && !pins.bank, "mode", "reserved bits");
        const double least = cas < 4 ? t_.least_clock[cas] : 0;
        require(least > 0 && t_.clock >= least - ROUNDING, "mode", "CAS latency");
        length_ = 1 << (code & 3);
        cas_ = cas;
        mode_edge_ = edge_;
    }

    void refresh() {
        idle("refresh while a bank is open or being precharged");
        for (const auto& bank : banks_)
            since(bank.activated, t_.rc, "tRC", "refresh after an activation");
        refreshed_ = now_;
        refreshes_++;
    }

    void activate(const SdramPins& pins) {
        Bank& bank = banks_[pins.bank];
        require(bank.row < 0, "state", "activation of an open bank");
        require(!(pins.address >> t_.row_bits), "state", "no such row");
        since(bank.precharged, t_.rp, "tRP", "activation after a precharge");
        since(bank.activated, t_.rc, "tRC", "activation of the same bank");
        if (activated_bank_ != pins.bank)
            since(activated_, t_.rrd, "tRRD", "activation of another bank");
        bank.row = pins.address;
        bank.activated = activated_ = now_;
        activated_bank_ = pins.bank;
        find_longest_open();
    }

    void precharge(const SdramPins& pins) {
        const bool every = pins.address >> 10 & 1;
        for (int index = 0; index < BANKS; index++) {
            if (!every && index != pins.bank) continue;
            Bank& bank = banks_[index];
            if (bank.row >= 0) since(bank.activated, t_.ras, "tRAS", "precharge after an activation");
            since(bank.written, t_.wr, "tWR", "precharge after a word was written");
            require(!writing_ || write_.bank != index || edge_ >= write_.end, "tWR",
                    "precharge during a write");
            for (auto& burst : reads_)
                if (burst.bank == index && burst.end > edge_ + cas_) burst.end = edge_ + cas_;
            bank.row = -1;
            bank.precharged = now_;
        }
        find_longest_open();
    }

    void column(bool write, const SdramPins& pins) {
        Bank& bank = banks_[pins.bank];
        require(bank.row >= 0, "state", "read or write of a closed bank");
        since(bank.activated, t_.rcd, "tRCD", "read or write after an activation");
        require(!(pins.address >> 10 & 1), "state", "automatic precharge is not expected");
        const int column = pins.address & ((1 << t_.column_bits) - 1);
        const int64_t start = write ? edge_ : edge_ + cas_;
        for (auto& burst : reads_)
            if (burst.end > start) burst.end = start;
        const Burst burst = {start, start + length_, pins.bank, bank.row, column};
        writing_ = write;
        if (write) write_ = burst;
        else reads_.push_back(burst);
    }

    /// The word of a burst at an edge; columns wrap within the length of a burst.
    uint16_t& word(const Burst& burst, int64_t edge) {
        const auto offset = static_cast<int>((burst.column + edge - burst.start) & (length_ - 1));
        const int column = (burst.column & -length_) | offset;
        const auto row = static_cast<size_t>(burst.row * BANKS + burst.bank);
        return words()[(row << t_.column_bits | static_cast<size_t>(column)) & (count_ - 1)];
    }

    void data_in(const SdramPins& pins) {
        if (!writing_ || edge_ >= write_.end) return;
        banks_[write_.bank].written = now_;
        if (pins.mask == 3) return;
        words_moved++;
        require(pins.driven, "DQ", "a word is written that the controller does not drive");
        uint16_t& stored = word(write_, edge_);
        const int select = (pins.mask & 1 ? 0 : 0xff) | (pins.mask & 2 ? 0 : 0xff00);
        stored = static_cast<uint16_t>((stored & ~select) | (pins.data & select));
    }

    int data_out() {
        if (reads_.empty()) return -1;
        const int64_t edge = edge_ + 1;
        const auto over = [edge](const Burst& burst) { return burst.end < edge; };
        reads_.erase(std::remove_if(reads_.begin(), reads_.end(), over), reads_.end());
        for (const auto& burst : reads_) {
            if (edge < burst.start || edge >= burst.end) continue;
            const int hidden = (masks_[1] & 1 ? 0xff : 0) | (masks_[1] & 2 ? 0xff00 : 0);
            words_moved++;
            return word(burst, edge) ^ hidden;
        }
        return -1;
    }

    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };

    const SdramTimes t_;
    const size_t count_;  // words, a power of two
    Bank banks_[BANKS];
    int64_t edge_ = -1, mode_edge_ = -1000;
    double now_ = 0, enabled_ = -1, activated_ = PAST, refreshed_ = PAST;
    double longest_open_ = NEVER;
    int phase_ = 0, refreshes_ = 0, length_ = 0, cas_ = 0, activated_bank_ = -1;
    std::vector<Burst> reads_;
    Burst write_ = {};
    bool writing_ = false;
    int masks_[3] = {3, 3, 3};
    std::unique_ptr<uint16_t[], Free> words_;
};

}  // namespace hwgen
