// SPDX-License-Identifier: Apache-2.0
// Times of accesses to DDR4 SDRAMs behind a controller that serves them in order.
//
// Chips in parallel, in one rank, have one bus of data. The controller leaves rows open, and opens
// the row of an access while earlier accesses use the bus. What an access takes follows from
// earlier accesses alone, so it is computed when the access arrives. Times are clocks of the memory;
// addresses are row, bank, column, bank group, byte of a burst, from the top.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "model.h"

class Ddr4 {
  public:
    /// `clock` is the period of the engine's clock, in periods of the memory's.
    Ddr4(const hwgen_ddr4& times, double clock, bool logs)
        : t_(times),
          clock_(clock),
          logs_(logs),
          banks_(times.bank_groups * times.banks),
          groups_(times.bank_groups),
          due_(times.refi) {}

    /// Bytes of a burst of the memory.
    uint64_t line_bytes() const { return BURST * t_.bus_bytes; }

    /// Access the line of an address that is asked for in a cycle of the engine, and return the
    /// first cycle after its last word has gone over the bus.
    uint64_t access(uint64_t address, bool write, uint64_t cycle) {
        const auto arrival = static_cast<int64_t>(static_cast<double>(cycle) * clock_) + 1;
        while (due_ <= std::max(arrival, last_)) refresh();
        prune(arrival);
        uint64_t rest = address / line_bytes();
        const auto part = [&rest](uint64_t size) {
            const uint64_t value = rest % size;
            rest /= size;
            return static_cast<uint32_t>(value);
        };
        const uint32_t group = part(t_.bank_groups), column = part(t_.columns / BURST);
        const uint32_t number = group * t_.banks + part(t_.banks);
        open(number, static_cast<int64_t>(rest % t_.rows), arrival);
        const int64_t at = transfer(number, column, write, arrival);
        const int64_t end = at + (write ? t_.cwl : t_.cl) + HALF;
        return static_cast<uint64_t>(static_cast<double>(end) / clock_) + 1;
    }

    hwgen_ddr4_counters counters{};
    std::vector<hwgen_ddr4_command> commands;  // only if they are logged

  private:
    static constexpr uint32_t BURST = 8;
    static constexpr int64_t HALF = BURST / 2;  // clocks of a burst
    static constexpr int64_t TURN = 2;  // clocks between words of a read and of a write after it
    static constexpr int64_t PAST = -1000000;

    struct Bank {
        int64_t row = -1, activate = PAST, precharge = PAST, column = PAST;  // earliest commands
    };

    /// Last commands within a bank group, or of all.
    struct Recent {
        int64_t activate = PAST, read = PAST, write = PAST;
    };

    /// Give a command the first free slot of the command bus, and return it.
    int64_t issue(int32_t code, uint32_t bank, uint32_t value, int64_t earliest) {
        while (!slots_.insert(earliest).second) ++earliest;
        if (logs_) commands.push_back({earliest, code, bank, value});
        last_ = std::max(last_, earliest);
        return earliest;
    }

    /// Forget slots in which no command can be put any more.
    void prune(int64_t now) {
        slots_.erase(slots_.begin(), slots_.lower_bound(now));
    }

    void open(uint32_t number, int64_t row, int64_t arrival) {
        Bank& bank = banks_[number];
        if (bank.row == row) return;
        if (bank.row >= 0) close(bank, number, arrival);
        Recent& group = groups_[number / t_.banks];
        int64_t at = std::max({arrival, bank.activate, all_.activate + t_.rrd_s, group.activate + t_.rrd_l});
        if (window_.size() == 4) {
            at = std::max(at, window_.front() + t_.faw);
            window_.pop_front();
        }
        at = issue(HWGEN_DDR4_ACTIVATE, number, static_cast<uint32_t>(row), at);
        window_.push_back(at);
        all_.activate = group.activate = at;
        bank.row = row;
        bank.column = at + t_.rcd;
        bank.precharge = at + t_.ras;
        ++counters.activations;
    }

    void close(Bank& bank, uint32_t number, int64_t earliest) {
        const int64_t at = issue(HWGEN_DDR4_PRECHARGE, number, 0, std::max(earliest, bank.precharge));
        bank.row = -1;
        bank.activate = at + t_.rp;
    }

    int64_t transfer(uint32_t number, uint32_t column, bool write, int64_t arrival) {
        Bank& bank = banks_[number];
        Recent& group = groups_[number / t_.banks];
        int64_t at = std::max(arrival, bank.column);
        if (write) {
            at = std::max({at, all_.write + t_.ccd_s, group.write + t_.ccd_l,
                           all_.read + t_.cl + HALF + TURN - t_.cwl});
        } else {
            at = std::max({at, all_.read + t_.ccd_s, group.read + t_.ccd_l,
                           all_.write + t_.cwl + HALF + t_.wtr_s,
                           group.write + t_.cwl + HALF + t_.wtr_l});
        }
        at = issue(write ? HWGEN_DDR4_WRITE : HWGEN_DDR4_READ, number, column, at);
        (write ? all_.write : all_.read) = at;
        (write ? group.write : group.read) = at;
        bank.precharge = std::max(bank.precharge, write ? at + t_.cwl + HALF + t_.wr : at + t_.rtp);
        ++(write ? counters.writes : counters.reads);
        return at;
    }

    /// Close all rows and refresh, behind all that has been issued.
    void refresh() {
        const int64_t begin = std::max(due_, last_ + 1);
        int64_t at = begin;
        for (uint32_t number = 0; number < banks_.size(); ++number) {
            Bank& bank = banks_[number];
            if (bank.row >= 0) close(bank, number, begin);
            at = std::max(at, bank.activate);
        }
        at = issue(HWGEN_DDR4_REFRESH, 0, 0, std::max(at, last_ + 1));
        for (Bank& bank : banks_) bank.activate = at + t_.rfc;
        due_ += t_.refi;
        ++counters.refreshes;
    }

    hwgen_ddr4 t_;
    double clock_;
    bool logs_;
    std::vector<Bank> banks_;
    std::vector<Recent> groups_;
    Recent all_;
    std::deque<int64_t> window_;  // last four activations
    std::set<int64_t> slots_;     // of the command bus that are taken
    int64_t due_, last_ = 0;
};
