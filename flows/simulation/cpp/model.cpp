// SPDX-License-Identifier: Apache-2.0
// The functions of model.h around the Verilated model; flows/simulation/engine_program.py writes design.h, which says
// where the ports are.
#include "model.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "Vtop.h"
#include "axi.h"
#include "ddr4.h"
#include "design.h"
#include "recorder.h"
#include "verilated.h"

namespace {

constexpr uint64_t ACCESS_LIMIT = 10000;
constexpr uint64_t RESET_CYCLES = 4;

}  // namespace

struct hwgen_model {
    hwgen_model(uint32_t seed, std::shared_ptr<Memory> shared) : memory(std::move(shared)) {
        context.randReset(2);
        context.randSeed(static_cast<int>(seed % 0x7fffffff) + 1);
        top = std::make_unique<Vtop>(&context);
        recorder = std::make_unique<Recorder>(context, *top);
        Ports ports;
        connect(*top, ports);
        for (const Axi4& port : ports.memories) {
            memories.push_back(std::make_unique<AxiMemory>(
                port, *memory, behaviour, seed + static_cast<uint32_t>(memories.size())));
        }
        for (const AxiLite& port : ports.controls) {
            control = std::make_unique<AxiLiteMaster>(port, behaviour, seed);
        }
        interrupt = ports.interrupt;
        top->aclk = 0;
        top->aresetn = 0;
        reset(RESET_CYCLES);
    }

    bool interrupted() const { return interrupt.at && interrupt.get(); }

    /// Let a clock cycle pass; false once something was wrong.
    bool cycle() {
        if (!message.empty()) return false;
        top->eval();
        recorder->cycle();
        for (auto& port : memories) port->sample(cycles, message);
        if (control) control->sample(message);
        interrupt_seen = interrupted();
        edge();
        for (auto& port : memories) port->drive(cycles);
        if (control) control->drive();
        return message.empty();
    }

    int reset(uint64_t count) {
        if (!message.empty()) return HWGEN_VIOLATION;
        top->aresetn = 0;
        for (auto& port : memories) port->reset();
        if (control) control->reset();
        for (uint64_t i = 0; i < count || !i; ++i) {
            top->eval();
            edge();
        }
        for (auto& port : memories) {
            if (port->requests()) message = "a valid is high in reset";
        }
        top->aresetn = 1;
        settle();
        return message.empty() ? HWGEN_OK : HWGEN_VIOLATION;
    }

    /// Run until the access of a register has ended.
    int access(uint32_t* value) {
        control->drive();
        for (uint64_t i = 0; control->busy(); ++i) {
            if (i == ACCESS_LIMIT) message = "an access of a register is not answered";
            if (!cycle()) return HWGEN_VIOLATION;
        }
        settle();
        if (value) *value = control->value();
        return control->response();
    }

    void set_ddr4(const hwgen_ddr4& times, double clocks, bool log) {
        ddr4 = std::make_unique<Ddr4>(times, clocks, log);
        for (auto& port : memories) port->ddr4 = ddr4.get();
    }

    /// Show outputs as they are between edges.
    void settle() { top->eval(); }

    VerilatedContext context;
    std::shared_ptr<Memory> memory;
    Behaviour behaviour;
    std::unique_ptr<Vtop> top;
    std::unique_ptr<Recorder> recorder;
    std::vector<std::unique_ptr<AxiMemory>> memories;
    std::unique_ptr<Ddr4> ddr4;
    std::unique_ptr<AxiLiteMaster> control;
    Wire interrupt;
    bool interrupt_seen = false;  // in the last cycle
    uint64_t cycles = 0;
    std::string message;

  private:
    void edge() {
        top->aclk = 1;
        top->eval();
        top->aclk = 0;
        ++cycles;
    }
};

extern "C" {

hwgen_model* hwgen_open(uint32_t seed) { return new hwgen_model(seed, std::make_shared<Memory>()); }

hwgen_model* hwgen_open_beside(const hwgen_model* other, uint32_t seed) {
    return new hwgen_model(seed, other->memory);
}

void hwgen_close(hwgen_model* model) { delete model; }

int hwgen_set(hwgen_model* model, int what, uint32_t value) {
    Behaviour& b = model->behaviour;
    struct {
        uint32_t* place;
        uint32_t least, most;
    } const settings[] = {
        {&b.read_latency, 1, UINT32_MAX}, {&b.write_latency, 1, UINT32_MAX},
        {&b.outstanding, 1, UINT32_MAX},  {&b.longest_burst, 1, 256},
        {&b.read_stalls, 0, 999},         {&b.write_stalls, 0, 999},
        {&b.control_stalls, 0, 999},
    };
    if (what < 0 || what >= static_cast<int>(sizeof settings / sizeof *settings)) return HWGEN_LIMIT;
    const auto& setting = settings[what];
    if (value < setting.least || value > setting.most) return HWGEN_LIMIT;
    *setting.place = value;
    return HWGEN_OK;
}

int hwgen_write32(hwgen_model* model, uint64_t address, uint32_t value) {
    if (!model->control) return HWGEN_DECERR;
    model->control->start_write(address, value);
    return model->access(nullptr);
}

int hwgen_read32(hwgen_model* model, uint64_t address, uint32_t* value) {
    if (!model->control) return HWGEN_DECERR;
    model->control->start_read(address);
    return model->access(value);
}

int hwgen_wait(hwgen_model* model, uint64_t limit) {
    if (!model->message.empty()) return HWGEN_VIOLATION;
    bool seen = model->interrupted();
    for (uint64_t i = 0; i < limit && !seen; ++i) {
        if (!model->cycle()) return HWGEN_VIOLATION;
        seen = model->interrupt_seen;
    }
    model->settle();
    return seen ? HWGEN_OK : HWGEN_LIMIT;
}

int hwgen_interrupt(const hwgen_model* model) { return model->interrupted(); }

int hwgen_run(hwgen_model* model, uint64_t cycles) {
    for (uint64_t i = 0; i < cycles; ++i) {
        if (!model->cycle()) return HWGEN_VIOLATION;
    }
    model->settle();
    return model->message.empty() ? HWGEN_OK : HWGEN_VIOLATION;
}

int hwgen_reset(hwgen_model* model, uint64_t cycles) { return model->reset(cycles); }

void hwgen_record(hwgen_model* model, const char* file) {
    if (file) {
        model->recorder->begin(file);
    } else {
        model->recorder->finish();
    }
}

void hwgen_store(hwgen_model* model, uint64_t address, const void* data, size_t bytes) {
    model->memory->store(address, data, bytes);
}

void hwgen_load(hwgen_model* model, uint64_t address, void* data, size_t bytes) {
    model->memory->load(address, data, bytes);
}

void hwgen_map(hwgen_model* model, uint64_t address, uint64_t bytes) {
    model->memory->map(address, bytes);
}

void hwgen_fault(hwgen_model* model, uint64_t address, uint64_t bytes, int response) {
    model->memory->fault(address, bytes, response);
}

void hwgen_count(const hwgen_model* model, struct hwgen_counters* counters) {
    *counters = {};
    counters->cycles = model->cycles;
    for (const auto& port : model->memories) {
        counters->read_bursts += port->traffic.read_bursts;
        counters->read_beats += port->traffic.read_beats;
        counters->write_bursts += port->traffic.write_bursts;
        counters->write_beats += port->traffic.write_beats;
        counters->write_bytes += port->traffic.write_bytes;
    }
}

void hwgen_set_ddr4(hwgen_model* model, const struct hwgen_ddr4* ddr4, double clocks, int log) {
    model->set_ddr4(*ddr4, clocks, log);
}

void hwgen_count_ddr4(const hwgen_model* model, struct hwgen_ddr4_counters* counters) {
    *counters = model->ddr4 ? model->ddr4->counters : hwgen_ddr4_counters{};
}

size_t hwgen_ddr4_commands(const hwgen_model* model, struct hwgen_ddr4_command* commands,
                           size_t most) {
    if (!model->ddr4) return 0;
    const auto& all = model->ddr4->commands;
    std::copy_n(all.begin(), std::min(most, all.size()), commands);
    return all.size();
}

const char* hwgen_message(const hwgen_model* model) { return model->message.c_str(); }

}  // extern "C"
