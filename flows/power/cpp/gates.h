// SPDX-License-Identifier: Apache-2.0
// Simulates the cells of a mapped netlist, behind the interface of a Verilated model.
//
// The netlist is a table that flows/power/gate_tables.py writes: cells as truth tables, sorted by
// level, registers, and SRAM macros.  `Vtop`, which flows/power/gate_simulator.py writes for each
// design, has the ports of the design and calls `bind` for each.
//
// Without delays every cell is evaluated once a cycle, in the order of the levels.  With delays a
// change passes from cell to cell, each after its time; a pulse shorter than the delay of the cell
// that would make it vanishes.  Between `record` and the next one each net's changes are counted.
//
// Without delays a fault may be injected, which the file TABLE.fault describes (`Fault` in table.h), and the values of
// ports be written into TABLE.trace; see `trace`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <queue>
#include <string>
#include <vector>

#include "table.h"

using CData = uint8_t;
using SData = uint16_t;
using IData = uint32_t;
using QData = uint64_t;

template <size_t Words>
struct VlWide {
    uint32_t words[Words];
};

class VerilatedContext {
  public:
    void randReset(int) {}
    void randSeed(int seed) { seed_ = static_cast<uint64_t>(seed); }
    void traceEverOn(bool) {}
    uint64_t seed() const { return seed_; }

  private:
    uint64_t seed_ = 1;
};

class Gates {
  public:
    Gates(VerilatedContext* context, const char* table);
    virtual ~Gates();

    void eval();

    /// Begin or end a cycle whose changes are counted, when everything has settled.
    void record();
    /// Write cycles and changes: 64-bit numbers, first the cycles, then for each net, then for each
    /// macro its reads and its writes.
    void write(const char* path) const;

    CData aclk = 0, aresetn = 0;

  protected:
    template <class T>
    void bind(T& port) {
        ports_.push_back(&port);
    }

  private:
    static constexpr size_t MOST_INPUTS = 6;

    struct Cell {
        uint32_t inputs[MOST_INPUTS];
        uint32_t output;
        uint64_t table;
    };
    struct Run {
        uint32_t arity;
        size_t begin, end;
    };
    struct Register {
        uint32_t next, state;
    };
    struct Port {
        size_t member;
        std::vector<uint32_t> nets;
    };
    struct Macro {
        uint32_t read, write, delay;
        std::vector<uint32_t> read_address, write_address, data, result;
        std::vector<uint8_t> words;
        uint64_t reads, writes;
    };
    struct Event {
        uint32_t time, net, version;
        uint64_t number;
        bool operator>(const Event& other) const {
            return time != other.time ? time > other.time : number > other.number;
        }
    };

    template <size_t Arity>
    void evaluate(const Run& run);
    uint8_t output_of(const Cell& cell, uint32_t arity) const;
    void load(bool now);
    void store();
    void clock();
    void inject();
    void disturb();
    void trace();
    void settle();
    void settle_without_delays();
    void change(uint32_t net, uint8_t value, uint32_t time);
    void propagate();
    size_t address(const std::vector<uint32_t>& nets) const;

    VerilatedContext* context_;
    bool timed_, started_ = false, dirty_ = true, was_high_ = false;
    uint32_t input_delay_;
    std::vector<uint8_t> values_;
    std::vector<Cell> cells_;
    std::vector<Run> runs_;
    std::vector<uint32_t> arities_, delays_;  // of a cell: MOST_INPUTS rises, as many falls
    std::vector<Register> registers_;
    std::vector<uint8_t> states_;
    std::vector<Macro> macros_;
    std::vector<Port> inputs_, outputs_;
    std::vector<void*> ports_;
    // Faults and traces
    Fault fault_;
    size_t disturbed_ = SIZE_MAX;  // the run whose output has the fault
    uint32_t edges_ = 0;
    FILE* trace_ = nullptr;
    // Counting
    uint64_t cycles_ = 0;
    std::vector<uint8_t> before_, few_;
    std::vector<uint64_t> counts_;
    uint32_t since_ = 0;
    // Events
    std::vector<std::vector<uint32_t>> readers_;  // of a net: cell and input
    std::vector<uint8_t> pending_, coming_;
    std::vector<uint32_t> versions_;
    std::priority_queue<Event, std::vector<Event>, std::greater<Event>> events_;
    uint64_t number_ = 0;
};

class VerilatedSaifC;
