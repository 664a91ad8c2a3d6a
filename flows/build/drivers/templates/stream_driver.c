/* SPDX-License-Identifier: Apache-2.0 */
#include "@name@_driver.h"

#include <stddef.h>

enum {
/*% for limit, value in limits.items() %*/
    @limit@ = @value@@"," if not loop.last else ""@
/*% endfor %*/
};

/*% include "pieces/access.c" %*/

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
/*% if tables %*/

static int check_pages(const @name@_pages *pages)
{
    const @name@_place *place = &pages->place;
    uint64_t last = UINT64_MAX >> (64 - @NAME@_ADDRESS_BITS);
    uint32_t begins = place->blocks == 1u ? pages->skip : 0u;

    if (pages->table == 0u || place->row_bytes == 0u)
        return check(place);
    if (place->row_bytes > LARGEST || place->blocks == 0u || place->blocks > MOST_PAGES ||
        pages->skip >= place->row_bytes || pages->last > place->row_bytes ||
        pages->last <= begins)
        return @NAME@_E_SIZE;
    if (place->address > last || pages->table % ENTRY != 0u || pages->table > last ||
        ENTRY * place->blocks - 1u > last - pages->table)
        return @NAME@_E_ADDRESS;
    return @NAME@_OK;
}

/* Write the registers of a port whose rows may lie in pages. */
static void put_pages(const @name@_device *device, uint32_t offset, const @name@_pages *pages)
{
    @name@_place place = pages->place;
    int paged = pages->table != 0u;

    if (paged)
        place.rows = 1u; /* a page is a row */
    put_place(device, offset, &place);
    put_wide(device, offset + 28u, pages->table);
    put(device, offset + 36u, paged ? pages->skip : 0u);
    put(device, offset + 40u, paged ? pages->last : 0u);
}
/*% endif %*/

static int check_job(const @name@_job *job)
{
/*% if tail_bytes %*/
    @name@_place tail;
/*% endif %*/
    int status;

/*% for port in places %*/
    status = check@"_pages" if port.type == "pages" else ""@(&job->@port.name@);
    if (status != @NAME@_OK)
        return status;
/*% endfor %*/
/*% if tail_bytes %*/
    if (job->tail.row_bytes > @tail_bytes@u)
        return @NAME@_E_SIZE;
    tail = job->tail;
    tail.rows = job->@results@.rows;
    tail.blocks = job->@results@.blocks;
    status = check(&tail);
    if (status != @NAME@_OK)
        return status;
/*% endif %*/
    return job->@results@.row_bytes != 0u ? @NAME@_OK : @NAME@_E_SIZE;
}

static void put_job(const @name@_device *device, const @name@_job *job)
{
/*% for port, words, text in commands %*/
/*% for word in range(words) %*/
    put(device, @NAME@_@port|upper@_@word@, job->@port@[@word@]);
/*% endfor %*/
/*% endfor %*/
/*% for port in places %*/
    put_@port.type@(device, @NAME@_@port.name|upper@_ADDRESS_LOW, &job->@port.name@);
/*% endfor %*/
/*% if tail_bytes %*/
    put(device, @NAME@_TAIL_ADDRESS_LOW, (uint32_t)job->tail.address);
    put(device, @NAME@_TAIL_ADDRESS_HIGH, (uint32_t)(job->tail.address >> 32));
    put(device, @NAME@_TAIL_BYTES, job->tail.row_bytes);
    put(device, @NAME@_TAIL_STRIDE, job->tail.stride);
    put(device, @NAME@_TAIL_STEP, job->tail.step);
/*% endif %*/
    put(device, @NAME@_JOB_FLAGS, job->after ? @NAME@_JOB_FLAGS_AFTER_MASK : 0u);
}

/*% include "pieces/queue.c" %*/

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

/*% include "pieces/message.c" %*/
