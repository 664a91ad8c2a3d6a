/* SPDX-License-Identifier: Apache-2.0
 * A driver of sim_tests/simulation/copy_engine.py as one for hardware is written: it knows two functions that
 * access registers, and its memory.  Below it, what stands for the hardware. */
#include <stdio.h>
#include <string.h>

#include "model.h"

static hwgen_model *model;

static void mmio_write(uint32_t offset, uint32_t value) {
    if (hwgen_write32(model, offset, value)) printf("write %u failed\n", (unsigned)offset);
}

static uint32_t mmio_read(uint32_t offset) {
    uint32_t value = 0;
    if (hwgen_read32(model, offset, &value)) printf("read %u failed\n", (unsigned)offset);
    return value;
}

static int copy(uint64_t source, uint64_t target, uint32_t bytes) {
    mmio_write(0x00, (uint32_t)source);
    mmio_write(0x04, (uint32_t)(source >> 32));
    mmio_write(0x08, (uint32_t)target);
    mmio_write(0x0c, (uint32_t)(target >> 32));
    mmio_write(0x10, bytes);
    mmio_write(0x14, 1);
    while (mmio_read(0x14) & 1) {
        if (hwgen_message(model)[0]) return -1;
    }
    mmio_write(0x18, 0);
    return mmio_read(0x14) & 2 ? 1 : 0;
}

int main(void) {
    uint8_t sent[4096], got[4096];
    struct hwgen_counters counters;
    size_t i;
    model = hwgen_open(1);
    hwgen_set(model, HWGEN_READ_STALLS, 300);
    for (i = 0; i < sizeof sent; ++i) sent[i] = (uint8_t)(i * 7 + i / 256);
    hwgen_store(model, 0x2000000000u, sent, sizeof sent);
    printf("copy %d\n", copy(0x2000000000u, 0x10008, sizeof sent));
    hwgen_load(model, 0x10008, got, sizeof got);
    printf("equal %d interrupt %d\n", !memcmp(sent, got, sizeof sent), hwgen_interrupt(model));
    hwgen_fault(model, 0x2000000000u, 1, HWGEN_DECERR);
    printf("fault %d\n", copy(0x2000000000u, 0x10008, 64));
    hwgen_count(model, &counters);
    printf("bytes %llu message '%s'\n", (unsigned long long)counters.write_bytes,
           hwgen_message(model));
    hwgen_close(model);
    return 0;
}
