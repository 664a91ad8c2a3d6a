/* SPDX-License-Identifier: Apache-2.0 */
#ifndef @NAME@_DRIVER_H
#define @NAME@_DRIVER_H

#include <stdint.h>

#include "@name@_regs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Access to the registers, which the user supplies. An offset is in bytes, a multiple of 4. Memory
 * that the engine reads must be visible to it before a list is started: the driver knows nothing of
 * caches. Calls for one engine must not overlap. */
typedef struct {
    void *context;
    uint32_t (*read)(void *context, uint32_t offset);
    void (*write)(void *context, uint32_t offset, uint32_t value);
} @name@_device;

/* A command list in memory. */
typedef struct {
    uint64_t address;     /* a multiple of @NAME@_LIST_ALIGN_BYTES */
    uint32_t descriptors; /* of @NAME@_DESCRIPTOR_BYTES bytes each */
    uint32_t step_limit;  /* descriptors that are executed at most; 0: any number */
} @name@_list;

/* What the functions return: 0, or one of these; negative is an error. */
enum {
    @NAME@_OK = 0,
    @NAME@_PENDING = 1,      /* the list runs */
    @NAME@_E_TIMEOUT = -1,   /* it still runs after so many polls */
    @NAME@_E_BUSY = -2,      /* another list runs */
    @NAME@_E_ADDRESS = -3,   /* misaligned, empty, or beyond the address space */
    @NAME@_E_REGISTER = -4,  /* no such register of lists, or a value wider than it */
    @NAME@_E_DEVICE = -5,    /* there is no such engine */
    @NAME@_E_NONE = -6,      /* no list was started */
    /* How the list ended: see @name@_registers.md. */
@ERRORS@
};

/* Look whether the engine that this driver was generated for is there. */
int @name@_probe(const @name@_device *device);

/* Write register `number` of lists, 1 or more; they are kept between lists. */
int @name@_set(const @name@_device *device, uint32_t number, uint64_t value);

/* Return a register of lists; 0 of one that is not there. */
uint64_t @name@_get(const @name@_device *device, uint32_t number);

/* Start a list. */
int @name@_start(const @name@_device *device, const @name@_list *list);

/* Look how the last list is: PENDING, OK or how it has ended. */
int @name@_poll(const @name@_device *device);

/* Poll until the list has ended, at most `polls` times more than once. */
int @name@_wait(const @name@_device *device, uint32_t polls);

/* End the list and all unfinished jobs. They have ended when `@name@_wait` says so. */
void @name@_abort(const @name@_device *device);

/* Return the descriptor at which the last list ended. */
uint32_t @name@_index(const @name@_device *device);

/* Return the cycles of the last list so far. */
uint64_t @name@_cycles(const @name@_device *device);

/* Return a status in words. */
const char *@name@_message(int status);

#ifdef __cplusplus
}
#endif

#endif
