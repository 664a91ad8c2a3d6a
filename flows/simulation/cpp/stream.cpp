// SPDX-License-Identifier: Apache-2.0
// Runs the Verilated model of a stream core at full rate.
//
//   PROGRAM OUTPUT BEATS LIMIT EXPECTED SEED FD...
//
// Beats of each input port come from the open file FD, in the order of `connect` in design.h, which
// flows/simulation/stream_program.py writes for the design.  A file is a sequence of batches: the number of chunks
// (u32), for each chunk its beats (u32) and whether tlast is set on the final one (u32), and then
// the bytes of all those beats.  OUTPUT receives the bytes of BEATS result beats.  LIMIT bounds the
// cycles, EXPECTED and SEED are for progress lines and registers without a reset.  Lines on
// standard output: "PROGRESS cycles expected" now and then; at the end "CYCLES cycles expected",
// from the first input beat to the last result beat, or "MISSING beats cycles".  If it was made for
// that, it writes how signals switched in these cycles into OUTPUT.saif; see recorder.h.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <unistd.h>

#include "Vtop.h"
#include "recorder.h"
#include "verilated.h"

namespace {

constexpr size_t BUFFER_BYTES = 1 << 18;
constexpr int CYCLES_AFTER = 4;
constexpr auto REPORT = std::chrono::milliseconds(250);

/// Signals of a stream port.
struct Port {
    void* data;      // little-endian, as all the model's values are on the machines it runs on
    size_t bytes;    // of a beat
    CData* last;     // nullptr if the port has none
    CData* valid;
    CData* ready;
};

/// Read exactly `count` bytes; false at the end of the file.
bool take(int file, void* target, size_t count) {
    auto* bytes = static_cast<uint8_t*>(target);
    while (count) {
        const ssize_t got = read(file, bytes, count);
        if (got <= 0) return false;
        bytes += got;
        count -= static_cast<size_t>(got);
    }
    return true;
}

/// Keeps an input port supplied: valid from the first beat to the last.
class Feeder {
  public:
    Feeder(const Port& port, int file)
        : port_(port), file_(file), buffer_(beats_of_buffer() * port.bytes) {}

    void start() {
        *port_.valid = 1;
        next();
    }

    /// Look at the coming clock edge; say whether a beat is taken.
    bool taken() const { return *port_.valid && *port_.ready; }

    /// Present the next beat.
    void next() {
        while (!chunk_left_) {
            if (!next_chunk()) {
                *port_.valid = 0;
                return;
            }
        }
        if (position_ == end_ && !fill()) {
            *port_.valid = 0;
            return;
        }
        memcpy(port_.data, position_, port_.bytes);
        position_ += port_.bytes;
        --chunk_left_;
        if (port_.last) *port_.last = last_ && !chunk_left_;
    }

  private:
    struct Chunk {
        uint32_t beats, last;
    };

    size_t beats_of_buffer() const {
        return port_.bytes < BUFFER_BYTES ? BUFFER_BYTES / port_.bytes : 1;
    }

    bool next_chunk() {
        if (chunk_ == chunks_.size()) {
            uint32_t count;
            if (!take(file_, &count, sizeof count)) return false;
            chunks_.resize(count);
            if (!take(file_, chunks_.data(), count * sizeof(Chunk))) return false;
            chunk_ = 0;
            batch_left_ = 0;
            for (const Chunk& chunk : chunks_) batch_left_ += chunk.beats;
            if (!count) return true;
        }
        chunk_left_ = chunks_[chunk_].beats;
        last_ = chunks_[chunk_].last;
        ++chunk_;
        return true;
    }

    /// Read beats, but not beyond those of the batch.
    bool fill() {
        const uint64_t room = beats_of_buffer();
        const size_t beats = static_cast<size_t>(batch_left_ < room ? batch_left_ : room);
        if (!take(file_, buffer_.data(), beats * port_.bytes)) return false;
        batch_left_ -= beats;
        position_ = buffer_.data();
        end_ = position_ + beats * port_.bytes;
        return true;
    }

    Port port_;
    int file_;
    std::vector<uint8_t> buffer_;
    const uint8_t *position_ = nullptr, *end_ = nullptr;
    std::vector<Chunk> chunks_;
    size_t chunk_ = 0;
    uint64_t batch_left_ = 0;
    uint32_t chunk_left_ = 0;
    bool last_ = false;
};

#include "design.h"

void edge(Vtop& top) {
    top.aclk = 1;
    top.eval();
    top.aclk = 0;
}

void tell(const char* kind, uint64_t a, uint64_t b) {
    printf("%s %llu %llu\n", kind, static_cast<unsigned long long>(a),
           static_cast<unsigned long long>(b));
    fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
    std::vector<Port> inputs;
    Port output{};
    if (argc < 6) return 2;
    uint64_t remaining = strtoull(argv[2], nullptr, 10);
    const uint64_t limit = strtoull(argv[3], nullptr, 10);
    const uint64_t expected = strtoull(argv[4], nullptr, 10);

    VerilatedContext context;
    context.randReset(2);
    context.randSeed(atoi(argv[5]));
    Vtop top{&context};
    Recorder recorder{context, top};
    recorder.begin(std::string(argv[1]) + ".saif");
    connect(top, inputs, output);
    if (static_cast<size_t>(argc) != 6 + inputs.size()) return 2;
    FILE* file = fopen(argv[1], "wb");
    if (!file) {
        perror(argv[1]);
        return 2;
    }

    std::vector<Feeder> feeders;
    feeders.reserve(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
        *inputs[i].valid = 0;
        feeders.emplace_back(inputs[i], atoi(argv[6 + i]));
    }
    top.aclk = 0;
    top.aresetn = 0;
    *output.ready = 0;
    for (int cycle = 0; cycle < 4; ++cycle) {
        top.eval();
        edge(top);
        if (cycle == 2) top.aresetn = *output.ready = 1;
    }
    for (Feeder& feeder : feeders) feeder.start();

    uint64_t cycles = 0, first = 0;
    auto report = std::chrono::steady_clock::now() + REPORT;
    while (remaining) {
        top.eval();  // what the inputs change, with the clock low
        ++cycles;
        // Everything is looked at before the edge and changed after it.
        uint32_t taken = 0;
        for (size_t i = 0; i < feeders.size(); ++i) {
            taken |= static_cast<uint32_t>(feeders[i].taken()) << i;
        }
        if (taken && !first) first = cycles;
        if (first) recorder.cycle();
        if (*output.valid) {
            if (fwrite(output.data, output.bytes, 1, file) != 1) break;
            --remaining;
        }
        edge(top);
        for (size_t i = 0; i < feeders.size(); ++i) {
            if (taken >> i & 1) feeders[i].next();
        }
        if (cycles % 1024 == 0 && std::chrono::steady_clock::now() > report) {
            report = std::chrono::steady_clock::now() + REPORT;
            tell("PROGRESS", cycles, expected);
        }
        if (cycles >= limit && remaining) {
            tell("MISSING", remaining, cycles);
            break;
        }
    }
    recorder.finish();
    for (int cycle = 0; cycle < CYCLES_AFTER; ++cycle) {  // for an error that is reported later
        top.eval();
        edge(top);
    }
    if (ferror(file) | fclose(file)) {
        perror(argv[1]);
        return 2;
    }
    if (!remaining) tell("CYCLES", cycles - first + 1, expected);
    return 0;
}
