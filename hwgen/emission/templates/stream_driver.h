/* SPDX-License-Identifier: Apache-2.0 */
#ifndef @NAME@_DRIVER_H
#define @NAME@_DRIVER_H

#include <stdint.h>

#include "@name@_regs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Access to the registers, which the user supplies. An offset is in bytes, a multiple of 4. Memory
 * that the engine reads must be visible to it before a job is submitted: the driver knows nothing
 * of caches. Calls for one engine must not overlap. */
typedef struct {
    void *context;
    uint32_t (*read)(void *context, uint32_t offset);
    void (*write)(void *context, uint32_t offset, uint32_t value);
} @name@_device;

/* Rows in memory: those of a block one behind the other, block after block. */
typedef struct {
    uint64_t address;   /* bytes, of the first row; any alignment */
    uint32_t row_bytes; /* 0: the job does not use the port */
    uint32_t rows;
    uint32_t blocks;
    uint32_t stride; /* bytes from one row to the next; 0: the same row again */
    uint32_t step;   /* bytes from one block to the next */
} @name@_place;

/* What a job takes, and where its results go. */
typedef struct {
@MEMBERS@
    int after; /* begin when all earlier jobs have finished */
} @name@_job;

/* What the functions return: 0, or one of these; negative is an error. */
enum {
    @NAME@_OK = 0,
    @NAME@_PENDING = 1,       /* the job is not finished */
    @NAME@_E_TIMEOUT = -1,    /* not finished after so many polls */
    @NAME@_E_FULL = -2,       /* the queue has no room, or jobs are being ended */
    @NAME@_E_SIZE = -3,       /* a number is wider than its register, or a job has no results */
    @NAME@_E_ADDRESS = -4,    /* rows end beyond the address space */
    @NAME@_E_TICKET = -5,     /* no such job was submitted */
    @NAME@_E_LOST = -6,       /* finished, but later jobs have taken its place */
    @NAME@_E_DEVICE = -7,     /* there is no such engine */
    @NAME@_E_READ = -8,       /* ended: a read from memory failed */
    @NAME@_E_WRITE = -9,      /* ended: a write to memory failed */
    @NAME@_E_ABORTED = -10,   /* ended by @name@_abort */
    @NAME@_E_MISMATCH = -11   /* ended: the numbers of the job do not agree */
};

/* Look whether the engine that this driver was generated for is there. */
int @name@_probe(const @name@_device *device);

/* Put a job into the queue; `ticket` is its number, or NULL. Nothing is written if it is refused. */
int @name@_submit(const @name@_device *device, const @name@_job *job, uint32_t *ticket);

/* Look how a job is: PENDING, OK or how it has ended. Jobs finish in the order of submission. */
int @name@_poll(const @name@_device *device, uint32_t ticket);

/* Poll until the job has ended, at most `polls` times more than once. */
int @name@_wait(const @name@_device *device, uint32_t ticket, uint32_t polls);

/* End all unfinished jobs. They have ended when `@name@_wait` says so. */
void @name@_abort(const @name@_device *device);

/* Return a counter; `low` is the offset of its lower word, for example @NAME@_BUSY_LOW. */
uint64_t @name@_counter(const @name@_device *device, uint32_t low);

/* Return a status in words. */
const char *@name@_message(int status);

#ifdef __cplusplus
}
#endif

#endif
