// SPDX-License-Identifier: Apache-2.0
// A Verilated SoC whose bus a test reads and writes through pins: the test stands for the processor.

#include <cstdint>

#include "Vtop.h"
#include "verilated.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

VerilatedContext context;
Vtop top{&context};

void cycle() {
    top.sys_clk = 0;
    top.eval();
    top.sys_clk = 1;
    top.eval();
}

/// Do one access of Wishbone; return 0, or 1 without an answer in time, 2 for an error.
int access(uint32_t address, uint32_t value, bool write) {
    top.host_adr = address / 4;
    top.host_dat_w = value;
    top.host_we = write;
    top.host_cyc = top.host_stb = 1;
    top.eval();
    int status = 1;
    for (int n = 0; n < 10000 && status == 1; n++) {
        top.sys_clk = 0;
        top.eval();
        if (top.host_ack || top.host_err) status = top.host_err ? 2 : 0;
        const uint32_t data = top.host_dat_r;
        top.sys_clk = 1;
        top.eval();
        if (status != 1) top.host_dat_r = data;
    }
    top.host_cyc = top.host_stb = top.host_we = 0;
    return status;
}

}  // namespace

/// Reset the SoC, as power-up does.
EXPORT void soc_reset() {
    top.sys_rst = 1;
    for (int n = 0; n < 8; n++) cycle();
    top.sys_rst = 0;
}

EXPORT void soc_run(int cycles) {
    for (int n = 0; n < cycles; n++) cycle();
}

EXPORT int soc_write(uint32_t address, uint32_t value) { return access(address, value, true); }

EXPORT int soc_read(uint32_t address, uint32_t* value) {
    const int status = access(address, 0, false);
    *value = top.host_dat_r;
    return status;
}

EXPORT int soc_interrupt() { return top.host_interrupt; }
