/* SPDX-License-Identifier: Apache-2.0 */
#include "@name@_driver.h"

#include <stddef.h>

enum {
@LIMITS@
};

static uint32_t get(const @name@_device *device, uint32_t offset)
{
    return device->read(device->context, offset);
}

static void put(const @name@_device *device, uint32_t offset, uint32_t value)
{
    device->write(device->context, offset, value);
}

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
    put(device, offset, (uint32_t)(place->address & 0xFFFFFFFFu));
    put(device, offset + 4u, (uint32_t)(place->address >> 32));
    put(device, offset + 8u, place->row_bytes);
    put(device, offset + 12u, place->rows);
    put(device, offset + 16u, place->blocks);
    put(device, offset + 20u, place->stride);
    put(device, offset + 24u, place->step);
}

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
    uint32_t number, state;

    if (status != @NAME@_OK)
        return status;
    state = get(device, @NAME@_STATUS);
    if ((state & @NAME@_STATUS_FREE_MASK) == 0u || (state & @NAME@_STATUS_STOPPING_MASK) != 0u)
        return @NAME@_E_FULL;
    number = get(device, @NAME@_SUBMITTED);
    put_job(device, job);
    put(device, @NAME@_SUBMIT, 1u);
    /* The engine refuses a job if an error has begun to end others in the meantime. */
    if (get(device, @NAME@_SUBMITTED) == number)
        return @NAME@_E_FULL;
    if (ticket != NULL)
        *ticket = number;
    return @NAME@_OK;
}

int @name@_poll(const @name@_device *device, uint32_t ticket)
{
    uint32_t finished = get(device, @NAME@_FINISHED);
    uint32_t slot = ticket % @NAME@_QUEUE_SLOTS;
    uint32_t state = get(device, @NAME@_JOB_STATUS_0 + 4u * slot);
    uint32_t ahead = get(device, @NAME@_SUBMITTED) - ticket;

    /* Numbers wrap around, so that only their distance counts. */
    if (ahead == 0u || ahead > 0x80000000u)
        return @NAME@_E_TICKET;
    if (finished == ticket || finished - ticket > 0x80000000u)
        return @NAME@_PENDING;
    if (ahead > @NAME@_QUEUE_SLOTS)
        return @NAME@_E_LOST;
    switch (state) {
    case @NAME@_JOB_DONE:
        return @NAME@_OK;
    case @NAME@_JOB_READ_ERROR:
        return @NAME@_E_READ;
    case @NAME@_JOB_WRITE_ERROR:
        return @NAME@_E_WRITE;
    case @NAME@_JOB_ABORTED:
        return @NAME@_E_ABORTED;
    case @NAME@_JOB_MISMATCH:
        return @NAME@_E_MISMATCH;
    default:
        return @NAME@_PENDING;
    }
}

int @name@_wait(const @name@_device *device, uint32_t ticket, uint32_t polls)
{
    for (;;) {
        int status = @name@_poll(device, ticket);

        if (status != @NAME@_PENDING)
            return status;
        if (polls == 0u)
            return @NAME@_E_TIMEOUT;
        polls--;
    }
}

void @name@_abort(const @name@_device *device)
{
    put(device, @NAME@_ABORT, 1u);
}

uint64_t @name@_counter(const @name@_device *device, uint32_t low)
{
    /* Reading the lower word keeps the upper one. */
    uint32_t value = get(device, low);

    return (uint64_t)get(device, low + 4u) << 32 | value;
}

const char *@name@_message(int status)
{
    switch (status) {
    case @NAME@_OK:
        return "done";
    case @NAME@_PENDING:
        return "not finished";
    case @NAME@_E_TIMEOUT:
        return "not finished in time";
    case @NAME@_E_FULL:
        return "the queue is full or jobs are being ended";
    case @NAME@_E_SIZE:
        return "a number is too wide, or the job has no results";
    case @NAME@_E_ADDRESS:
        return "beyond the address space";
    case @NAME@_E_TICKET:
        return "no such job was submitted";
    case @NAME@_E_LOST:
        return "finished, but how is not known any more";
    case @NAME@_E_DEVICE:
        return "no such engine";
    case @NAME@_E_READ:
        return "reading from memory failed";
    case @NAME@_E_WRITE:
        return "writing to memory failed";
    case @NAME@_E_ABORTED:
        return "aborted";
    case @NAME@_E_MISMATCH:
        return "the numbers of the job do not agree";
    default:
        return "unknown status";
    }
}
