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

/* Post-processing: contents of the fields of POST_..., see @name@_registers.md. */
typedef struct {
@POST_MEMBERS@
} @name@_post;

/* C = post(A W): A of m x k, W of k x n, C of m x n elements, each row by row. */
typedef struct {
    uint64_t a_address; /* bytes, of the first element; any alignment */
    uint64_t w_address; /* of the matrix, or of its packed image if @NAME@_W_IS_IMAGE */
    uint64_t c_address;
    uint64_t p_address; /* column records, if post.columns */
    uint32_t a_stride;  /* bytes from one row to the next */
    uint32_t w_stride;  /* of W, or of its image, which has a row for each tile of k */
    uint32_t c_stride;
    uint32_t m;
    uint32_t k;
    uint32_t n;
    int after;         /* begin when all earlier jobs have finished */
    int least_traffic; /* blocks may take all of a buffer: fewer bytes, more cycles */
    @name@_post post;
} @name@_job;

/* How a product is cut into blocks. */
typedef struct {
    uint32_t m;  /* rows, a multiple of @NAME@_TILE_M */
    uint32_t k;  /* terms, a multiple of @NAME@_TILE_K */
    uint32_t n;  /* columns, a multiple of @NAME@_TILE_N */
    int m_inner; /* the loop over blocks of rows is the inner one */
    int a_whole; /* a block of A takes all of its buffer, not half */
    int w_whole;
} @name@_blocks;

/* What the functions return: 0, or one of these; negative is an error. */
enum {
    @NAME@_OK = 0,
    @NAME@_PENDING = 1,       /* the job is not finished */
    @NAME@_E_TIMEOUT = -1,    /* not finished after so many polls */
    @NAME@_E_FULL = -2,       /* the queue has no room, or jobs are being ended */
    @NAME@_E_SIZE = -3,       /* m, k or n is 0 or too large */
    @NAME@_E_BLOCK = -4,      /* a block is no multiple of the tile, or too large for the buffers */
    @NAME@_E_STRIDE = -5,     /* rows of C overlap */
    @NAME@_E_ADDRESS = -6,    /* something ends beyond the address space */
    @NAME@_E_POST = -7,       /* post-processing that this engine does not have */
    @NAME@_E_TICKET = -8,     /* no such job was submitted */
    @NAME@_E_LOST = -9,       /* finished, but later jobs have taken its place */
    @NAME@_E_DEVICE = -10,    /* there is no such engine */
    @NAME@_E_READ = -11,      /* ended: a read from memory failed */
    @NAME@_E_WRITE = -12,     /* ended: a write to memory failed */
    @NAME@_E_ABORTED = -13    /* ended by @name@_abort */
};

/* Look whether the engine that this driver was generated for is there. */
int @name@_probe(const @name@_device *device);

/* Put a job into the queue, cut as @name@_plan says; `ticket` is its number, or NULL. Nothing is
 * written if it is refused. */
int @name@_submit(const @name@_device *device, const @name@_job *job, uint32_t *ticket);

/* Find the blocks that move the fewest bytes. They depend on m, k, n, least_traffic, post.columns
 * and post.size alone, so that jobs of one kind need it once. It compares all pairs of block sizes that fit the
 * buffers, some thousands for buffers of 64 KiB; large products take the longest. */
int @name@_plan(const @name@_job *job, @name@_blocks *blocks);

/* The same as @name@_submit with blocks that are known. */
int @name@_submit_blocks(const @name@_device *device, const @name@_job *job,
                         const @name@_blocks *blocks, uint32_t *ticket);

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
