#ifndef @NAME@_DRIVER_H
#define @NAME@_DRIVER_H

#include <stdint.h>

#include "@name@_regs.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Access to the registers, which the user supplies. An offset is in bytes, a multiple of 4. Memory
 * that the engine reads must be visible to it before it is told to begin: the driver knows nothing
 * of caches. Calls for one engine must not overlap. */
typedef struct {
    void *context;
    uint32_t (*read)(void *context, uint32_t offset);
    void (*write)(void *context, uint32_t offset, uint32_t value);
} @name@_device;
