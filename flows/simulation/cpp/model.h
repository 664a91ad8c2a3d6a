/* SPDX-License-Identifier: Apache-2.0
 *
 * The simulation of a memory engine for programs: registers, an interrupt and memory.
 *
 * The library that flows/simulation/engine_program.py makes of an engine offers these functions, to C, C++ and, by
 * ctypes, to Python.  Nothing waits for ever: what waits has a limit in cycles.  The clock runs only
 * within the functions that wait.
 *
 * All memory lies behind the engine's AXI4 ports; addresses have 64 bits and pages appear when they
 * are touched, filled with zeros.  Once a range is mapped, only mapped ranges exist and other
 * accesses of the engine are answered with DECERR.
 *
 * The ports are watched.  The first violation of AXI ends the simulation: all functions that run
 * the clock return HWGEN_VIOLATION from then on and hwgen_message says what happened.
 */
#ifndef HWGEN_MODEL_H
#define HWGEN_MODEL_H

#include <stddef.h>
#include <stdint.h>

#define HWGEN_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

enum {
    HWGEN_OK = 0,
    HWGEN_LIMIT = 1,  /* it did not happen within the limit */
    HWGEN_SLVERR = 2, /* answer of the bus */
    HWGEN_DECERR = 3,
    HWGEN_VIOLATION = -1 /* of the protocol; see hwgen_message */
};

/* How the memory behaves, by hwgen_set. */
enum {
    HWGEN_READ_LATENCY = 0,  /* cycles from an address to its first beat, at least 1; 4 */
    HWGEN_WRITE_LATENCY = 1, /* cycles from the last beat to the response, at least 1; 4 */
    HWGEN_OUTSTANDING = 2,   /* bursts that wait for data or a response, each way; 64 */
    HWGEN_LONGEST_BURST = 3, /* beats that a burst may have, 1..256; 256 */
    HWGEN_READ_STALLS = 4,   /* of 1000 cycles, how many a channel idles at random; 0 */
    HWGEN_WRITE_STALLS = 5,
    HWGEN_CONTROL_STALLS = 6 /* the same for the register bus */
};

/* DDR4 SDRAMs with one bus, in one rank: sizes, of `columns` words in a row, and times in clocks of the
 * memory by their names in JESD79-4, the t left out; tCCD_S is 4, the length of a burst. */
struct hwgen_ddr4 {
    uint32_t bus_bytes, bank_groups, banks, rows, columns; /* banks of a group */
    uint32_t cl, cwl, rcd, rp, ras, rtp, wr, wtr_s, wtr_l, ccd_s, ccd_l, rrd_s, rrd_l, faw, rfc, refi;
};

struct hwgen_ddr4_counters {
    uint64_t reads, writes; /* bursts of 8 words each */
    uint64_t activations, refreshes;
};

enum {
    HWGEN_DDR4_ACTIVATE = 0,
    HWGEN_DDR4_READ = 1,
    HWGEN_DDR4_WRITE = 2,
    HWGEN_DDR4_PRECHARGE = 3,
    HWGEN_DDR4_REFRESH = 4
};

/* A command: the clock of the memory, and a row or the number of a burst in its row; bank number
 * `group * banks + bank`. */
struct hwgen_ddr4_command {
    int64_t clock;
    int32_t code;
    uint32_t bank, value;
};

struct hwgen_counters {
    uint64_t cycles; /* since hwgen_open, the reset included */
    uint64_t read_bursts, read_beats;
    uint64_t write_bursts, write_beats, write_bytes;
};

typedef struct hwgen_model hwgen_model;

/* The engine after its reset; `seed` is that of stalls and of registers without a reset. */
HWGEN_API hwgen_model *hwgen_open(uint32_t seed);

/* Another engine of the same kind on the same memory, with time of its own. */
HWGEN_API hwgen_model *hwgen_open_beside(const hwgen_model *other, uint32_t seed);
HWGEN_API void hwgen_close(hwgen_model *model);

/* Returns HWGEN_LIMIT, and changes nothing, if the value is not allowed. */
HWGEN_API int hwgen_set(hwgen_model *model, int what, uint32_t value);

/* One access of a 32-bit register: HWGEN_OK, HWGEN_SLVERR or HWGEN_DECERR as the engine answers; it
 * is a violation if that takes more than 10000 cycles. */
HWGEN_API int hwgen_write32(hwgen_model *model, uint64_t address, uint32_t value);
HWGEN_API int hwgen_read32(hwgen_model *model, uint64_t address, uint32_t *value);

/* Run until the output `interrupt` is high, at most `limit` cycles: HWGEN_OK or HWGEN_LIMIT. */
HWGEN_API int hwgen_wait(hwgen_model *model, uint64_t limit);
/* The output `interrupt`. */
HWGEN_API int hwgen_interrupt(const hwgen_model *model);
/* Run so many cycles. */
HWGEN_API int hwgen_run(hwgen_model *model, uint64_t cycles);
/* Hold the reset for so many cycles, at least 1; bursts that were under way are forgotten. */
HWGEN_API int hwgen_reset(hwgen_model *model, uint64_t cycles);

/* Write how signals switch from now on into a file, complete once `file` is NULL, if the model was
 * made for that. */
HWGEN_API void hwgen_record(hwgen_model *model, const char *file);

/* Memory, as the program sees it. */
HWGEN_API void hwgen_store(hwgen_model *model, uint64_t address, const void *data, size_t bytes);
HWGEN_API void hwgen_load(hwgen_model *model, uint64_t address, void *data, size_t bytes);
/* Let the pages of 4 KiB that a range touches exist. */
HWGEN_API void hwgen_map(hwgen_model *model, uint64_t address, uint64_t bytes);
/* Answer accesses of the engine to a range with HWGEN_SLVERR or HWGEN_DECERR, or, with HWGEN_OK,
 * as usual again; what is written there is dropped. */
HWGEN_API void hwgen_fault(hwgen_model *model, uint64_t address, uint64_t bytes, int response);

HWGEN_API void hwgen_count(const hwgen_model *model, struct hwgen_counters *counters);
/* Let the memory take the time of DDR4, of which `clocks` pass in a cycle of the engine, beside the
 * latencies, which are those of the way to it; with `log` commands are recorded. */
HWGEN_API void hwgen_set_ddr4(hwgen_model *model, const struct hwgen_ddr4 *ddr4, double clocks,
                              int log);
/* Counters of DDR4, zeros if there is none. */
HWGEN_API void hwgen_count_ddr4(const hwgen_model *model, struct hwgen_ddr4_counters *counters);
/* Copy at most `most` of the recorded commands, and return how many there are. */
HWGEN_API size_t hwgen_ddr4_commands(const hwgen_model *model, struct hwgen_ddr4_command *commands,
                                     size_t most);
/* What was wrong, empty if nothing; valid until the model is closed. */
HWGEN_API const char *hwgen_message(const hwgen_model *model);

#ifdef __cplusplus
}
#endif
#endif
