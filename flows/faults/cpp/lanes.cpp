// SPDX-License-Identifier: Apache-2.0
// Simulates a mapped netlist with 255 single faults at once, one in each bit of a word.
//
//   lanes NETLIST TRACE FAULTS OUTCOMES LIMIT
//
// NETLIST is what flows/faults/circuit.py writes: gates of two inputs, registers, SRAM macros, and the roles of ports.
// TRACE has the values of registers at the start and those of the ports in every cycle of a run without
// faults.  FAULTS has five numbers for each fault, those of `Fault` in flows/power/cpp/table.h, sorted
// by cycle.  OUTCOMES gets for each fault its outcome, the cycle in which it was known, the number of
// wrong result beats, and for each of those its index and its bits, packed into bytes.
//
// The last lane has no fault.  A lane ends when its registers and memories equal those of the last
// lane, when all its results are out, or when nothing moves any more.  With roles of streams each lane
// has sources and a sink of its own, at full rate; else the ports of a lane are only compared with
// the trace, and the lane ends as `parted` at the first difference.  If the error output of the design was 1
// at any time, a lane whose results are missing is `detected`, and one with a wrong beat is `noticed`.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "table.h"

namespace {

constexpr uint32_t LANES = 256, NONE = UINT32_MAX;
constexpr uint32_t SPACING = 32;       // cycles between two snapshots of the run without faults
constexpr uint32_t MOST_SNAPSHOTS = 256;
constexpr uint32_t LOOK = 8;           // cycles between two looks at what has become equal
constexpr uint32_t LOOK_AT_MEMORY = 64;

using Word = uint64_t __attribute__((vector_size(32)));

enum Outcome : uint32_t { SAME, WRONG, HANG, PARTED, DETECTED, NOTICED };

Word all(bool bit) {
    const uint64_t part = bit ? ~uint64_t{0} : 0;
    return Word{part, part, part, part};
}
bool get(const Word& word, uint32_t lane) { return word[lane / 64] >> lane % 64 & 1; }
void set(Word& word, uint32_t lane, bool bit) {
    const uint64_t mask = uint64_t{1} << lane % 64;
    word[lane / 64] = bit ? word[lane / 64] | mask : word[lane / 64] & ~mask;
}
bool any(const Word& word) { return word[0] | word[1] | word[2] | word[3]; }
/// What the lane without a fault has, in all lanes.
Word reference(const Word& word) { return all(word[3] >> 63); }

template <class Action>
void for_each_lane(const Word& mask, Action action) {
    for (uint32_t part = 0; part < 4; ++part) {
        for (uint64_t bits = mask[part]; bits; bits &= bits - 1) {
            action(part * 64 + static_cast<uint32_t>(__builtin_ctzll(bits)));
        }
    }
}

[[noreturn]] void fail(const std::string& message) {
    fprintf(stderr, "%s\n", message.c_str());
    exit(2);
}

struct Gate {
    uint32_t a, b, c, out;
};
struct Run {
    uint32_t code;
    std::vector<Gate> gates;
};
struct Register {
    uint32_t next, state;
};
struct Macro {
    uint32_t words, read, write;
    std::vector<uint32_t> read_address, write_address, data, result;
    std::vector<Word> bits;
    Word touched;  // lanes whose content may differ
};
/// A stream: numbers of bits among the inputs or the outputs.
struct Source {
    uint32_t valid, ready;
    std::vector<uint32_t> data;
    // Of the run without faults: its beats, the number taken before each cycle, its first cycle.
    std::vector<std::vector<uint8_t>> beats;
    std::vector<uint32_t> taken;
    uint32_t start = NONE;
    // Of the lanes.
    std::vector<uint32_t> index;
    Word off;
};
struct Sink {
    uint32_t valid, ready;
    std::vector<uint32_t> data;
    std::vector<std::vector<uint8_t>> beats;
    std::vector<uint32_t> taken;
    std::vector<uint32_t> index;
    Word off;
};
struct Group {
    uint32_t valid;
    std::vector<uint32_t> bits;
};
struct Snapshot {
    std::vector<uint8_t> states;
};
struct Patch {
    uint32_t net, lane, mode, cycle;
};
struct WrongBeat {
    uint32_t index;
    std::vector<uint8_t> bytes;
};
struct Result {
    uint32_t outcome = SAME, cycle = 0;
    std::vector<WrongBeat> beats;
};

class Simulation {
  public:
    Simulation(const char* netlist, const char* trace, uint32_t limit) : limit_(limit) {
        read_netlist(netlist);
        read_trace(trace);
        follow_trace();
    }

    /// Take snapshots of the run without faults; it must be that of the trace.
    void prepare();
    std::vector<Result> run(const Fault* faults, uint32_t count);

  private:
    void read_netlist(const char* path);
    void read_trace(const char* path);
    void follow_trace();
    const uint8_t* row(uint32_t cycle) const {
        return trace_.data() + registers_.size() +
               static_cast<size_t>(std::min(cycle, rows_ - 1)) * (inputs_.size() + outputs_.size());
    }
    bool input_at(uint32_t cycle, uint32_t bit) const { return row(cycle)[bit]; }
    bool output_at(uint32_t cycle, uint32_t bit) const { return row(cycle)[inputs_.size() + bit]; }
    template <class Action>
    void for_each_state(Action action) {
        for (const Register& one : registers_) action(values_[one.state]);
        for (Macro& macro : macros_) {
            for (const uint32_t net : macro.result) action(values_[net]);
        }
    }
    template <class Action>
    void for_each_stored(Action action) {
        for_each_state(action);
        for (Macro& macro : macros_) {
            for (Word& word : macro.bits) action(word);
        }
    }
    void restore(uint32_t cycle);
    void load(uint32_t cycle);
    void settle(uint32_t cycle);
    void apply(const std::vector<Patch>& patches, uint32_t cycle);
    void clock();
    void clock(Macro& macro);
    uint32_t address(const std::vector<uint32_t>& nets, uint32_t lane) const;
    bool same_address(const std::vector<uint32_t>& nets) const;
    void inject(const Fault* faults, uint32_t count, uint32_t cycle);
    Word stream(uint32_t cycle);
    void receive(uint32_t lane, bool in_step);
    Word parted(uint32_t cycle);
    void end(Word lanes, Outcome outcome, uint32_t cycle);
    Word differing(bool memories);

    uint32_t limit_, rows_ = 0;
    bool closed_ = false;
    std::vector<Word> values_;
    std::vector<Run> runs_;
    std::vector<uint32_t> run_of_;  // of a net: the run that gives it its value
    std::vector<Register> registers_;
    std::vector<Word> states_;
    std::vector<Macro> macros_;
    std::vector<uint32_t> inputs_, outputs_;
    std::vector<Source> sources_;
    Sink sink_{};
    std::vector<Group> groups_;
    uint32_t error_ = NONE;  // the output that says that a fault was noticed
    std::vector<uint8_t> trace_;
    std::vector<Snapshot> snapshots_;
    uint32_t spacing_ = SPACING;
    // Of a batch
    std::vector<std::vector<Patch>> patches_;  // by run; the last ones are those of inputs
    std::vector<Result> results_;
    Word live_, moved_, detected_;
};

void Simulation::read_netlist(const char* path) {
    TableReader reader(path);
    values_.assign(reader.next(), all(false));
    values_[1] = all(true);
    run_of_.assign(values_.size(), NONE);
    runs_.resize(reader.next());
    for (Run& run : runs_) {
        run.code = reader.next();
        run.gates.resize(reader.next());
        for (Gate& gate : run.gates) {
            gate = {reader.next(), reader.next(), reader.next(), reader.next()};
            run_of_[gate.out] = static_cast<uint32_t>(&run - runs_.data());
        }
    }
    registers_.resize(reader.next());
    for (Register& one : registers_) one = {reader.next(), reader.next()};
    states_.resize(registers_.size());
    for (uint32_t count = reader.next(); count; --count) {
        Macro macro{};
        macro.words = reader.next();
        reader.next();  // delay
        macro.read = reader.next();
        macro.write = reader.next();
        macro.read_address = reader.list();
        macro.write_address = reader.list();
        macro.data = reader.list();
        macro.result = reader.list();
        macro.bits.assign(size_t{macro.words} * macro.data.size(), all(false));
        macro.touched = all(false);
        macros_.push_back(macro);
    }
    inputs_ = reader.list();
    outputs_ = reader.list();
    closed_ = reader.next();
    for (uint32_t count = reader.next(); count; --count) {
        Source source{};
        source.valid = reader.next();
        source.ready = reader.next();
        source.data = reader.list();
        sources_.push_back(source);
    }
    if (closed_) {
        sink_.valid = reader.next();
        sink_.ready = reader.next();
        sink_.data = reader.list();
    }
    for (uint32_t count = reader.next(); count; --count) {
        const uint32_t valid = reader.next();
        groups_.push_back({valid, reader.list()});
    }
    error_ = reader.next();
}

void Simulation::read_trace(const char* path) {
    trace_ = read_bytes(path);
    const size_t width = inputs_.size() + outputs_.size();
    if (trace_.size() < registers_.size() + width) fail("the trace is too short");
    rows_ = static_cast<uint32_t>((trace_.size() - registers_.size()) / width);
    spacing_ = std::max(SPACING, (rows_ + MOST_SNAPSHOTS - 1) / MOST_SNAPSHOTS);
}

/// Find the beats of the streams in the trace.
void Simulation::follow_trace() {
    for (Source& source : sources_) {
        for (uint32_t cycle = 0; cycle < rows_; ++cycle) {
            source.taken.push_back(static_cast<uint32_t>(source.beats.size()));
            if (!input_at(cycle, source.valid)) continue;
            if (source.start == NONE) source.start = cycle;
            if (!output_at(cycle, source.ready)) continue;
            std::vector<uint8_t> beat;
            for (const uint32_t bit : source.data) beat.push_back(input_at(cycle, bit));
            source.beats.push_back(beat);
        }
        source.taken.push_back(static_cast<uint32_t>(source.beats.size()));
    }
    if (!closed_) return;
    for (uint32_t cycle = 0; cycle < rows_; ++cycle) {
        sink_.taken.push_back(static_cast<uint32_t>(sink_.beats.size()));
        if (!output_at(cycle, sink_.valid) || !input_at(cycle, sink_.ready)) continue;
        std::vector<uint8_t> beat;
        for (const uint32_t bit : sink_.data) beat.push_back(output_at(cycle, bit));
        sink_.beats.push_back(beat);
    }
    sink_.taken.push_back(static_cast<uint32_t>(sink_.beats.size()));
}

void Simulation::prepare() {
    for (size_t i = 0; i < registers_.size(); ++i) values_[registers_[i].state] = all(trace_[i]);
    patches_.assign(runs_.size() + 1, {});
    for (uint32_t cycle = 0; cycle < rows_; ++cycle) {
        if (cycle % spacing_ == 0) {
            Snapshot snapshot;
            for_each_stored([&](const Word& word) { snapshot.states.push_back(get(word, 0)); });
            snapshots_.push_back(std::move(snapshot));
        }
        for (size_t i = 0; i < inputs_.size(); ++i) {
            values_[inputs_[i]] = all(input_at(cycle, static_cast<uint32_t>(i)));
        }
        settle(cycle);
        for (size_t i = 0; i < outputs_.size(); ++i) {
            if (get(values_[outputs_[i]], 0) != output_at(cycle, static_cast<uint32_t>(i))) {
                fail("the netlist without faults differs from the trace in cycle " +
                     std::to_string(cycle));
            }
        }
        clock();
    }
}

void Simulation::restore(uint32_t cycle) {
    const auto& states = snapshots_[cycle / spacing_].states;
    size_t position = 0;
    for_each_stored([&](Word& word) { word = all(states[position++]); });
    for (Macro& macro : macros_) macro.touched = all(false);
}

void Simulation::load(uint32_t cycle) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
        values_[inputs_[i]] = all(input_at(cycle, static_cast<uint32_t>(i)));
    }
    for (Source& source : sources_) {
        if (cycle < source.start) continue;
        if (cycle >= rows_) values_[inputs_[source.valid]] = all(false);
        for_each_lane(source.off & live_, [&](uint32_t lane) {
            const size_t count = source.beats.size(), index = source.index[lane];
            set(values_[inputs_[source.valid]], lane, index < count);
            // After the last beat its data stays.
            const auto& beat = source.beats[std::min(index, count - 1)];
            for (size_t i = 0; i < source.data.size(); ++i) {
                set(values_[inputs_[source.data[i]]], lane, beat[i]);
            }
        });
    }
    apply(patches_.back(), cycle);
}

void Simulation::apply(const std::vector<Patch>& patches, uint32_t cycle) {
    for (const Patch& patch : patches) {
        Word& word = values_[patch.net];
        if (patch.mode == Fault::pulse) {
            if (cycle == patch.cycle) set(word, patch.lane, !get(word, patch.lane));
        } else if (cycle >= patch.cycle) {
            set(word, patch.lane, patch.mode == Fault::stuck_1);
        }
    }
}

template <class Function>
void each(Word* values, const std::vector<Gate>& gates, Function function) {
    for (const Gate& gate : gates) {
        values[gate.out] = function(values[gate.a], values[gate.b], values[gate.c]);
    }
}

#define RUN(code, expression)                                                         \
    case code:                                                                        \
        each(values, run.gates, [](const Word& a, const Word& b, const Word& c) {     \
            static_cast<void>(a), static_cast<void>(b), static_cast<void>(c);         \
            return expression;                                                        \
        });                                                                           \
        break

void Simulation::settle(uint32_t cycle) {
    Word* const values = values_.data();
    for (size_t index = 0; index < runs_.size(); ++index) {
        const Run& run = runs_[index];
        switch (run.code) {
            RUN(1, ~(a | b));
            RUN(2, a & ~b);
            RUN(4, ~a & b);
            RUN(6, a ^ b);
            RUN(7, ~(a & b));
            RUN(8, a & b);
            RUN(9, ~(a ^ b));
            RUN(11, a | ~b);
            RUN(13, ~a | b);
            RUN(14, a | b);
            RUN(16, ~a);
            RUN(17, a);
            RUN(18, (b & c) | (a & ~c));
            default: fail("an unknown gate");
        }
        if (!patches_[index].empty()) apply(patches_[index], cycle);
    }
}

uint32_t Simulation::address(const std::vector<uint32_t>& nets, uint32_t lane) const {
    uint32_t result = 0;
    for (size_t i = 0; i < nets.size(); ++i) {
        result |= static_cast<uint32_t>(get(values_[nets[i]], lane)) << i;
    }
    return result;
}

bool Simulation::same_address(const std::vector<uint32_t>& nets) const {
    Word difference = all(false);
    for (const uint32_t net : nets) difference |= values_[net] ^ reference(values_[net]);
    return !any(difference);
}

void Simulation::clock(Macro& macro) {
    const size_t bits = macro.data.size();
    const Word read = values_[macro.read], write = values_[macro.write];
    // A read has what the word was before.
    if (any(read)) {
        if (same_address(macro.read_address)) {
            const uint32_t word = address(macro.read_address, LANES - 1);
            for (size_t i = 0; i < bits && word < macro.words; ++i) {
                Word& result = values_[macro.result[i]];
                result = (macro.bits[word * bits + i] & read) | (result & ~read);
            }
        } else {
            for_each_lane(read, [&](uint32_t lane) {
                const uint32_t word = address(macro.read_address, lane);
                for (size_t i = 0; i < bits && word < macro.words; ++i) {
                    set(values_[macro.result[i]], lane, get(macro.bits[word * bits + i], lane));
                }
            });
        }
    }
    if (!any(write)) return;
    const bool together = same_address(macro.write_address);
    macro.touched |= write ^ reference(write);
    for (const uint32_t net : macro.data) {
        macro.touched |= write & (values_[net] ^ reference(values_[net]));
    }
    if (together) {
        const uint32_t word = address(macro.write_address, LANES - 1);
        for (size_t i = 0; i < bits && word < macro.words; ++i) {
            Word& stored = macro.bits[word * bits + i];
            stored = (values_[macro.data[i]] & write) | (stored & ~write);
        }
        return;
    }
    for (const uint32_t net : macro.write_address) {
        macro.touched |= values_[net] ^ reference(values_[net]);
    }
    for_each_lane(write, [&](uint32_t lane) {
        const uint32_t word = address(macro.write_address, lane);
        for (size_t i = 0; i < bits && word < macro.words; ++i) {
            set(macro.bits[word * bits + i], lane, get(values_[macro.data[i]], lane));
        }
    });
}

void Simulation::clock() {
    for (size_t i = 0; i < registers_.size(); ++i) states_[i] = values_[registers_[i].next];
    for (Macro& macro : macros_) clock(macro);
    for (size_t i = 0; i < registers_.size(); ++i) values_[registers_[i].state] = states_[i];
}

void Simulation::inject(const Fault* faults, uint32_t count, uint32_t cycle) {
    for (uint32_t lane = 0; lane < count; ++lane) {
        const Fault& fault = faults[lane];
        if (fault.cycle != cycle) continue;
        if (fault.mode == Fault::flip) {
            Word& word = values_[fault.net];
            set(word, lane, !get(word, lane));
        } else if (fault.mode == Fault::memory) {
            Macro& macro = macros_[fault.net];
            Word& word = macro.bits[size_t{fault.word} * macro.data.size() + fault.bit];
            set(word, lane, !get(word, lane));
            set(macro.touched, lane, true);
        }
    }
}

/// Take a result beat of a lane.
void Simulation::receive(uint32_t lane, bool in_step) {
    const uint32_t index = sink_.index[lane];
    std::vector<uint8_t> bytes((sink_.data.size() + 7) / 8);
    bool wrong = index >= sink_.beats.size();
    for (size_t i = 0; i < sink_.data.size(); ++i) {
        const bool bit = get(values_[outputs_[sink_.data[i]]], lane);
        bytes[i / 8] = static_cast<uint8_t>(bytes[i / 8] | bit << i % 8);
        wrong |= !wrong && bit != sink_.beats[index][i];
    }
    if (wrong) results_[lane].beats.push_back({index, std::move(bytes)});
    if (!in_step) ++sink_.index[lane];
}

/// Let beats pass that are taken in a cycle; return the lanes whose results are complete.
Word Simulation::stream(uint32_t cycle) {
    const bool within = cycle < rows_;
    const bool expected = within && output_at(cycle, sink_.valid) && input_at(cycle, sink_.ready);
    const Word valid = values_[outputs_[sink_.valid]] & values_[inputs_[sink_.ready]];
    const Word in_step = live_ & ~sink_.off & ~(valid ^ all(expected));
    if (expected) {
        Word wrong = all(false);
        for (const uint32_t bit : sink_.data) {
            wrong |= values_[outputs_[bit]] ^ all(output_at(cycle, bit));
        }
        for_each_lane(wrong & in_step, [&](uint32_t lane) {
            sink_.index[lane] = sink_.taken[cycle];
            receive(lane, true);
        });
    }
    const uint32_t after = sink_.taken[std::min(cycle + 1, rows_)];
    const Word others = live_ & ~in_step;
    for_each_lane(others & ~sink_.off, [&](uint32_t lane) {
        sink_.index[lane] = sink_.taken[std::min(cycle, rows_)];
    });
    for_each_lane(others & valid, [&](uint32_t lane) { receive(lane, false); });
    sink_.off = all(false);
    for_each_lane(others, [&](uint32_t lane) { set(sink_.off, lane, sink_.index[lane] != after); });
    moved_ |= valid;
    for (Source& source : sources_) {
        const Word taken = values_[inputs_[source.valid]] & values_[outputs_[source.ready]];
        const bool took = within && input_at(cycle, source.valid) && output_at(cycle, source.ready);
        const uint32_t before = source.taken[std::min(cycle, rows_)];
        const uint32_t next = source.taken[std::min(cycle + 1, rows_)];
        const Word odd = live_ & (source.off | (taken ^ all(took)));
        for_each_lane(odd & ~source.off, [&](uint32_t lane) { source.index[lane] = before; });
        for_each_lane(odd & taken, [&](uint32_t lane) {
            if (source.index[lane] < source.beats.size()) ++source.index[lane];
        });
        source.off = all(false);
        for_each_lane(odd, [&](uint32_t lane) { set(source.off, lane, source.index[lane] != next); });
        moved_ |= taken;
    }
    if (cycle + 1 < rows_) return all(false);
    Word complete = live_ & ~sink_.off;
    for_each_lane(live_ & sink_.off, [&](uint32_t lane) {
        set(complete, lane, sink_.index[lane] >= sink_.beats.size());
    });
    return complete;
}

/// Return the lanes whose outputs differ from the trace where it matters.
Word Simulation::parted(uint32_t cycle) {
    Word result = all(false);
    for (const Group& group : groups_) {
        Word difference = all(false);
        for (const uint32_t bit : group.bits) {
            difference |= values_[outputs_[bit]] ^ all(output_at(cycle, bit));
        }
        if (group.valid != NONE) {
            const Word valid = values_[outputs_[group.valid]];
            difference &= valid | all(output_at(cycle, group.valid));
            difference |= valid ^ all(output_at(cycle, group.valid));
        }
        result |= difference;
    }
    return result & live_;
}

void Simulation::end(Word lanes, Outcome outcome, uint32_t cycle) {
    lanes &= live_;
    for_each_lane(lanes, [&](uint32_t lane) {
        Result& result = results_[lane];
        result.cycle = cycle;
        result.outcome = outcome == SAME && !result.beats.empty() ? WRONG : outcome;
        if (!get(detected_, lane)) return;
        if (result.outcome == HANG) result.outcome = DETECTED;
        if (result.outcome == WRONG) result.outcome = NOTICED;
    });
    live_ &= ~lanes;
}

/// Return the lanes that do not store what the lane without a fault does.
Word Simulation::differing(bool memories) {
    Word result = all(false);
    for_each_state([&](const Word& word) { result |= word ^ reference(word); });
    for (Macro& macro : macros_) {
        if (!any(macro.touched & live_ & ~result)) {
            result |= macro.touched;
            continue;
        }
        if (memories) {
            macro.touched = all(false);
            for (const Word& word : macro.bits) macro.touched |= word ^ reference(word);
        }
        result |= macro.touched;
    }
    return result;
}

std::vector<Result> Simulation::run(const Fault* faults, uint32_t count) {
    patches_.assign(runs_.size() + 1, {});
    results_.assign(LANES, {});
    live_ = all(false);
    detected_ = all(false);
    Word transient = all(false);
    uint32_t begin = NONE, latest = 0;
    for (uint32_t lane = 0; lane < count; ++lane) {
        const Fault& fault = faults[lane];
        set(live_, lane, true);
        set(transient, lane, fault.mode != Fault::stuck_0 && fault.mode != Fault::stuck_1);
        begin = std::min(begin, fault.cycle);
        latest = std::max(latest, fault.cycle);
        if (fault.mode == Fault::flip || fault.mode == Fault::memory) continue;
        const uint32_t run = run_of_[fault.net];
        auto& patches = run == NONE ? patches_.back() : patches_[run];
        patches.push_back({fault.net, lane, fault.mode, fault.cycle});
    }
    begin = std::min(begin, rows_ - 1);
    const uint32_t first = begin;
    restore(begin);
    begin -= begin % spacing_;
    for (Source& source : sources_) {
        source.index.assign(LANES, 0);
        source.off = all(false);
    }
    sink_.index.assign(LANES, 0);
    sink_.off = all(false);
    std::vector<Word> before;
    for (uint32_t cycle = begin; any(live_); ++cycle) {
        if (cycle >= limit_) {
            end(live_, HANG, cycle);
            break;
        }
        if (cycle <= latest) inject(faults, count, cycle);
        load(cycle);
        settle(cycle);
        moved_ = all(false);
        if (error_ != NONE && cycle >= first) detected_ |= values_[outputs_[error_]];
        if (closed_) {
            end(stream(cycle), SAME, cycle);
        } else {
            end(parted(cycle), PARTED, cycle);
            if (cycle + 1 >= rows_) end(live_, SAME, cycle);
        }
        const bool late = cycle >= rows_;
        if (late && cycle % LOOK == 0) {
            before.clear();
            for_each_state([&](const Word& word) { before.push_back(word); });
        }
        clock();
        if (late && cycle % LOOK == 0) {
            Word difference = moved_;
            size_t position = 0;
            for_each_state([&](const Word& word) { difference |= word ^ before[position++]; });
            end(live_ & ~difference, HANG, cycle);
        }
        if (!late && cycle % LOOK == 0) {
            Word past = all(false);
            for (uint32_t lane = 0; lane < count; ++lane) set(past, lane, faults[lane].cycle < cycle);
            Word off = sink_.off;
            for (const Source& source : sources_) off |= source.off;
            end(transient & past & ~off & ~differing(cycle % LOOK_AT_MEMORY == 0), SAME, cycle);
        }
    }
    return {results_.begin(), results_.begin() + count};
}

void write(FILE* file, const void* data, size_t bytes) {
    if (bytes && fwrite(data, bytes, 1, file) != 1) fail("the outcomes cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 6) return 2;
    Simulation simulation(argv[1], argv[2], static_cast<uint32_t>(strtoul(argv[5], nullptr, 10)));
    simulation.prepare();
    const auto bytes = read_bytes(argv[3]);
    std::vector<Fault> faults(bytes.size() / sizeof(Fault));
    memcpy(faults.data(), bytes.data(), faults.size() * sizeof(Fault));
    FILE* file = fopen(argv[4], "wb");
    if (!file) fail("the outcomes cannot be written");
    for (size_t first = 0; first < faults.size(); first += LANES - 1) {
        const auto count = static_cast<uint32_t>(std::min<size_t>(LANES - 1, faults.size() - first));
        for (const Result& result : simulation.run(faults.data() + first, count)) {
            const uint32_t numbers[] = {result.outcome, result.cycle,
                                        static_cast<uint32_t>(result.beats.size())};
            write(file, numbers, sizeof numbers);
            for (const WrongBeat& beat : result.beats) {
                write(file, &beat.index, sizeof beat.index);
                write(file, beat.bytes.data(), beat.bytes.size());
            }
        }
        printf("PROGRESS %zu\n", first + count);
        fflush(stdout);
    }
    if (fclose(file)) fail("the outcomes cannot be written");
    return 0;
}
