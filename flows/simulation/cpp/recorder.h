// SPDX-License-Identifier: Apache-2.0
// Writes how the signals of a model switch, if it was made for that (Verilated with --trace-saif, or
// a netlist of cells, flows/power/cpp): as they are before each edge, a unit of time a cycle.
#pragma once

#include <cstdint>
#include <string>

#include "Vtop.h"
#include "verilated.h"
#if VM_TRACE_SAIF
#include "verilated_saif_c.h"
#endif

class Recorder {
  public:
#if VM_TRACE_SAIF
    Recorder(VerilatedContext& context, Vtop& top) {
        context.traceEverOn(true);
        top.trace(&saif_, LEVELS);
    }

    /// Record the cycles from now on, of which there has been none before.
    void begin(const std::string& file) { name_ = file; }

    void cycle() {
        if (name_.empty()) return;
        if (!time_) saif_.open(name_.c_str());
        saif_.dump(time_++);
    }

    void finish() {
        if (!time_) return;
        saif_.dump(time_);  // the last cycle lasts, too
        saif_.close();
        name_.clear();
        time_ = 0;
    }

  private:
    static constexpr int LEVELS = 99;
    VerilatedSaifC saif_;
    std::string name_;
    uint64_t time_ = 0;
#else
    Recorder(VerilatedContext&, Vtop&) {}
    void begin(const std::string&) {}
    void cycle() {}
    void finish() {}
#endif
};
