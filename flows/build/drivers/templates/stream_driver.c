/* SPDX-License-Identifier: Apache-2.0 */
#include "@name@_driver.h"

#include <stddef.h>

enum {
@LIMITS@
};

@include access.c@

static int check(const @name@_place *place)
{
    uint64_t last = UINT64_MAX >> (64 - @NAME@_ADDRESS_BITS);
    uint64_t rows, blocks, extent;

    if (place->row_bytes == 0u)
        return @NAME@_OK;
    if (place->row_bytes > LARGEST || place->rows == 0u || place->rows > LARGEST ||
        place->blocks == 0u || place->blocks > LARGEST)
        return @NAME@_E_SIZE;
    rows = (uint64_t)(place->rows - 1u) * place->stride;
    blocks = (uint64_t)(place->blocks - 1u) * place->step;
    extent = rows + blocks + place->row_bytes; /* below 2^57 */
    if (place->address > last || extent - 1u > last - place->address)
        return @NAME@_E_ADDRESS;
    return @NAME@_OK;
}

/* Write the registers of a port, which begin at `offset`. */
static void put_place(const @name@_device *device, uint32_t offset, const @name@_place *place)
{
    put_wide(device, offset, place->address);
    put(device, offset + 8u, place->row_bytes);
    put(device, offset + 12u, place->rows);
    put(device, offset + 16u, place->blocks);
    put(device, offset + 20u, place->stride);
    put(device, offset + 24u, place->step);
}
@PAGES@
static int check_job(const @name@_job *job)
{
@LOCALS@

@CHECKS@
    return job->@OUT@.row_bytes != 0u ? @NAME@_OK : @NAME@_E_SIZE;
}

static void put_job(const @name@_device *device, const @name@_job *job)
{
@WRITES@
    put(device, @NAME@_JOB_FLAGS, job->after ? @NAME@_JOB_FLAGS_AFTER_MASK : 0u);
}

@include queue.c@

int @name@_probe(const @name@_device *device)
{
    if (get(device, @NAME@_ID) != @NAME@_MAGIC || get(device, @NAME@_LAYOUT) != LAYOUT ||
        get(device, @NAME@_QUEUE) != @NAME@_QUEUE_SLOTS)
        return @NAME@_E_DEVICE;
    return @NAME@_OK;
}

int @name@_submit(const @name@_device *device, const @name@_job *job, uint32_t *ticket)
{
    int status = check_job(job);
    uint32_t number;

    if (status != @NAME@_OK)
        return status;
    if (!has_room(device, &number))
        return @NAME@_E_FULL;
    put_job(device, job);
    return enter(device, number, ticket);
}

@include message.c@
