// SPDX-License-Identifier: Apache-2.0
// Counts of changes in the place of Verilator's SAIF file; see gates.h.
#pragma once
#include <string>

#include "gates.h"

class VerilatedSaifC {
  public:
    void attach(Gates* gates) { gates_ = gates; }
    void open(const char* name) { name_ = name; }
    void dump(uint64_t) { gates_->record(); }
    void close() { gates_->write(name_.c_str()); }

  private:
    Gates* gates_ = nullptr;
    std::string name_;
};
