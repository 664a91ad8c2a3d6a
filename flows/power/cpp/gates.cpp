// SPDX-License-Identifier: Apache-2.0
#include "gates.h"

#include <unistd.h>

Gates::Gates(VerilatedContext* context, const char* path) : context_(context) {
    TableReader table(path);
    const uint32_t nets = table.next();
    timed_ = table.next();
    input_delay_ = table.next();
    values_.assign(nets, 0);
    values_[1] = 1;
    for (uint32_t count = table.next(); count; --count) {  // runs of cells of one arity
        Run run;
        run.arity = table.next();
        run.begin = cells_.size();
        for (uint32_t cells = table.next(); cells; --cells) {
            Cell cell{};
            for (size_t i = 0; i < run.arity; ++i) cell.inputs[i] = table.next();
            cell.output = table.next();
            cell.table = table.next();
            cell.table |= static_cast<uint64_t>(table.next()) << 32;
            cells_.push_back(cell);
            arities_.push_back(run.arity);
            for (size_t rise = 0; rise < 2 && timed_; ++rise) {
                for (size_t i = 0; i < MOST_INPUTS; ++i) {
                    delays_.push_back(i < run.arity ? table.next() : 0);
                }
            }
        }
        run.end = cells_.size();
        runs_.push_back(run);
    }
    // Registers begin at random, as those of Verilator do without a reset.
    uint64_t random = 0x9e3779b97f4a7c15ull * (context->seed() + 1) | 1;
    for (uint32_t count = table.next(); count; --count) {
        Register one{};
        one.next = table.next();
        one.state = table.next();
        registers_.push_back(one);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        values_[one.state] = random >> 40 & 1;
    }
    states_.resize(registers_.size());
    for (uint32_t count = table.next(); count; --count) {
        Macro macro{};
        const uint32_t words = table.next();
        macro.delay = table.next();
        macro.read = table.next();
        macro.write = table.next();
        macro.read_address = table.list();
        macro.write_address = table.list();
        macro.data = table.list();
        macro.result = table.list();
        macro.words.assign(words * macro.data.size(), 0);
        macros_.push_back(macro);
    }
    for (auto* ports : {&inputs_, &outputs_}) {
        for (uint32_t count = table.next(); count; --count) {
            const uint32_t member = table.next();
            ports->push_back({member, table.list()});
        }
    }
    if (timed_) {
        readers_.resize(nets);
        for (uint32_t cell = 0; cell < cells_.size(); ++cell) {
            for (uint32_t i = 0; i < arities_[cell]; ++i) {
                readers_[cells_[cell].inputs[i]].push_back(cell * MOST_INPUTS + i);
            }
        }
        pending_.assign(nets, 0);
        coming_.assign(nets, 0);
        versions_.assign(nets, 0);
    }
    before_.assign(nets, 0);
    few_.assign(nets, 0);
    counts_.assign(nets, 0);
    if (FILE* file = fopen((std::string(path) + ".fault").c_str(), "rb")) {
        if (fread(&fault_, sizeof fault_, 1, file) != 1) exit(2);
        fclose(file);
        for (size_t run = 0; run < runs_.size(); ++run) {
            for (size_t i = runs_[run].begin; i < runs_[run].end; ++i) {
                if (cells_[i].output == fault_.net) disturbed_ = run;
            }
        }
    }
    const std::string file = std::string(path) + ".trace";
    if (access(file.c_str(), W_OK) == 0) {
        trace_ = fopen(file.c_str(), "wb");
        for (const Register& one : registers_) fputc(values_[one.state], trace_);
    }
}

Gates::~Gates() {
    if (trace_ && fclose(trace_)) exit(2);
}

void Gates::eval() {
    if (aclk && !was_high_) {
        clock();
        dirty_ = true;
    }
    const bool high = aclk;
    if (!high || !aresetn) {  // what outputs are before the next edge is looked at with a low clock
        load(!timed_ || !started_);
        settle();
        store();
    }
    was_high_ = high;
}

void Gates::load(bool now) {
    for (const Port& port : inputs_) {
        const auto* bytes = static_cast<const uint8_t*>(ports_[port.member]);
        for (size_t i = 0; i < port.nets.size(); ++i) {
            const uint8_t bit = bytes[i / 8] >> i % 8 & 1;
            if (now) {
                values_[port.nets[i]] = bit;
            } else if (values_[port.nets[i]] != bit) {
                change(port.nets[i], bit, input_delay_);
            }
        }
    }
    if (fault_.mode && disturbed_ == SIZE_MAX) disturb();
}

/// Write what the ports have in this cycle, a bit a byte.
void Gates::trace() {
    for (const auto* ports : {&inputs_, &outputs_}) {
        for (const Port& port : *ports) {
            for (const uint32_t net : port.nets) fputc(values_[net], trace_);
        }
    }
}

/// Change what is stored, after an edge.
void Gates::inject() {
    if (edges_ != fault_.cycle) return;
    if (fault_.mode == Fault::flip) values_[fault_.net] ^= 1;
    if (fault_.mode == Fault::memory) {
        Macro& macro = macros_[fault_.net];
        macro.words[fault_.word * macro.data.size() + fault_.bit] ^= 1;
    }
}

/// Change the net of the fault, once it has got its value.
void Gates::disturb() {
    uint8_t& value = values_[fault_.net];
    if (fault_.mode == Fault::pulse) value ^= edges_ == fault_.cycle;
    if (edges_ < fault_.cycle) return;
    if (fault_.mode == Fault::stuck_0) value = 0;
    if (fault_.mode == Fault::stuck_1) value = 1;
}

void Gates::store() {
    for (const Port& port : outputs_) {
        auto* bytes = static_cast<uint8_t*>(ports_[port.member]);
        for (size_t i = 0; i < port.nets.size(); i += 8) {
            uint8_t byte = 0;
            for (size_t j = i; j < port.nets.size() && j < i + 8; ++j) {
                byte |= static_cast<uint8_t>(values_[port.nets[j]] << (j - i));
            }
            bytes[i / 8] = byte;
        }
    }
}

size_t Gates::address(const std::vector<uint32_t>& nets) const {
    size_t result = 0;
    for (size_t i = 0; i < nets.size(); ++i) result |= static_cast<size_t>(values_[nets[i]]) << i;
    return result;
}

void Gates::clock() {
    if (trace_) trace();
    ++edges_;
    const bool later = timed_ && started_;
    for (size_t i = 0; i < registers_.size(); ++i) states_[i] = values_[registers_[i].next];
    for (Macro& macro : macros_) {
        const size_t bits = macro.data.size();
        const bool writes = values_[macro.write];
        // A read has what the word was before.
        if (values_[macro.read]) {
            macro.reads += cycles_ > 0;
            const size_t word = address(macro.read_address) * bits;
            for (size_t i = 0; i < bits && word + bits <= macro.words.size(); ++i) {
                if (later) {
                    change(macro.result[i], macro.words[word + i], macro.delay);
                } else {
                    values_[macro.result[i]] = macro.words[word + i];
                }
            }
        }
        if (writes) {
            macro.writes += cycles_ > 0;
            const size_t word = address(macro.write_address) * bits;
            for (size_t i = 0; i < bits && word + bits <= macro.words.size(); ++i) {
                macro.words[word + i] = values_[macro.data[i]];
            }
        }
    }
    for (size_t i = 0; i < registers_.size(); ++i) {
        const uint32_t net = registers_[i].state;
        if (!later) {
            values_[net] = states_[i];
        } else if (values_[net] != states_[i]) {
            change(net, states_[i], 0);
        }
    }
    if (fault_.mode) inject();
}

void Gates::settle() {
    if (!timed_ || !started_) {
        settle_without_delays();
        started_ = true;
    } else {
        propagate();
    }
    dirty_ = false;
}

template <size_t Arity>
void Gates::evaluate(const Run& run) {
    uint8_t* const values = values_.data();
    for (size_t i = run.begin; i < run.end; ++i) {
        const Cell& cell = cells_[i];
        uint32_t index = 0;
        for (size_t j = 0; j < Arity; ++j) index |= static_cast<uint32_t>(values[cell.inputs[j]]) << j;
        values[cell.output] = cell.table >> index & 1;
    }
}

void Gates::settle_without_delays() {
    for (size_t index = 0; index < runs_.size(); ++index) {
        const Run& run = runs_[index];
        switch (run.arity) {
            case 0: evaluate<0>(run); break;
            case 1: evaluate<1>(run); break;
            case 2: evaluate<2>(run); break;
            case 3: evaluate<3>(run); break;
            case 4: evaluate<4>(run); break;
            case 5: evaluate<5>(run); break;
            default: evaluate<6>(run); break;
        }
        if (index == disturbed_) disturb();
    }
}

uint8_t Gates::output_of(const Cell& cell, uint32_t arity) const {
    uint32_t index = 0;
    for (uint32_t j = 0; j < arity; ++j) index |= static_cast<uint32_t>(values_[cell.inputs[j]]) << j;
    return cell.table >> index & 1;
}

/// Let a net have a value after a time, unless what is under way makes it so.
void Gates::change(uint32_t net, uint8_t value, uint32_t time) {
    const uint8_t last = pending_[net] ? coming_[net] : values_[net];
    if (value == last) return;
    ++versions_[net];
    pending_[net] = value != values_[net];  // else a pulse that is too short
    if (!pending_[net]) return;
    coming_[net] = value;
    events_.push({time, net, versions_[net], number_++});
}

void Gates::propagate() {
    while (!events_.empty()) {
        const Event event = events_.top();
        events_.pop();
        if (!pending_[event.net] || event.version != versions_[event.net]) continue;
        pending_[event.net] = 0;
        values_[event.net] = coming_[event.net];
        ++counts_[event.net];
        for (const uint32_t reader : readers_[event.net]) {
            const uint32_t index = reader / MOST_INPUTS, input = reader % MOST_INPUTS;
            const Cell& cell = cells_[index];
            const uint8_t value = output_of(cell, arities_[index]);
            const uint32_t delay = delays_[(index * 2 + !value) * MOST_INPUTS + input];
            change(cell.output, value, event.time + delay);
        }
    }
}

void Gates::record() {
    if (dirty_) {  // the edge that ends the last cycle
        settle();
    }
    if (!cycles_++) {
        before_ = values_;
        counts_.assign(counts_.size(), 0);
        return;
    }
    if (timed_) return;
    const size_t nets = values_.size();
    for (size_t i = 0; i < nets; ++i) few_[i] = static_cast<uint8_t>(few_[i] + (before_[i] ^ values_[i]));
    before_ = values_;
    if (++since_ == 255) {
        for (size_t i = 0; i < nets; ++i) counts_[i] += few_[i];
        few_.assign(nets, 0);
        since_ = 0;
    }
}

void Gates::write(const char* path) const {
    FILE* file = fopen(path, "wb");
    if (!file) {
        perror(path);
        exit(2);
    }
    std::vector<uint64_t> numbers{cycles_ ? cycles_ - 1 : 0};
    for (size_t i = 0; i < counts_.size(); ++i) numbers.push_back(counts_[i] + few_[i]);
    for (const Macro& macro : macros_) {
        numbers.push_back(macro.reads);
        numbers.push_back(macro.writes);
    }
    if (fwrite(numbers.data(), sizeof numbers[0], numbers.size(), file) != numbers.size() ||
        fclose(file)) {
        perror(path);
        exit(2);
    }
}
