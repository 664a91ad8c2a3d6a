// SPDX-License-Identifier: Apache-2.0
// Files of the simulations of netlists: tables of numbers, and faults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

/// Return the bytes of a file, or end the program.
inline std::vector<uint8_t> read_bytes(const char* path) {
    FILE* file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        perror(path);
        exit(2);
    }
    std::vector<uint8_t> bytes(static_cast<size_t>(ftell(file)));
    rewind(file);
    if (fread(bytes.data(), 1, bytes.size(), file) != bytes.size()) {
        perror(path);
        exit(2);
    }
    fclose(file);
    return bytes;
}

/// Reads a table of 32-bit numbers.
class TableReader {
  public:
    explicit TableReader(const char* path) {
        const auto bytes = read_bytes(path);
        words_.resize(bytes.size() / 4);
        memcpy(words_.data(), bytes.data(), words_.size() * 4);
    }
    uint32_t next() { return words_.at(position_++); }
    std::vector<uint32_t> list() {
        std::vector<uint32_t> result(next());
        for (auto& each : result) each = next();
        return result;
    }

  private:
    std::vector<uint32_t> words_;
    size_t position_ = 0;
};

/// A fault: five numbers of a file.  Cycle n follows the nth rising edge.
struct Fault {
    enum Mode : uint32_t { none, stuck_0, stuck_1, pulse, flip, memory };
    uint32_t mode = none;
    uint32_t net = 0;    // of `flip` that of the register, of `memory` the number of the macro
    uint32_t cycle = 0;  // of `stuck_0` and `stuck_1` the first one
    uint32_t word = 0, bit = 0;
};
static_assert(sizeof(Fault) == 20, "a fault is five numbers");
