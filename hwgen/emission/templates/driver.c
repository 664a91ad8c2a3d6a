/* SPDX-License-Identifier: Apache-2.0 */
#include "@name@_driver.h"

#include <stddef.h>

/* What the buffers hold, and which codes of post-processing there are, one bit each. */
enum {
@LIMITS@
};

/* The ports of the cores: beats for each tile, and whether they go over tiles of m, k and n. */
static const struct {
    uint32_t beats, m, k, n;
} ports[] = {
@PORTS@
};

/* A product or a block of it in tiles. */
typedef struct {
    uint32_t m, k, n;
} tiles;

/* Bytes of A, W, C and the column records. */
typedef struct {
    uint64_t a, w, c, p;
} amounts;

/* Blocks along the axes, and how often A and W are read. */
typedef struct {
    uint32_t m, k, n, a, w;
} counts;

/* The best plan so far; `near` says that `least` is known, and plans near it are compared. */
typedef struct {
    @name@_blocks blocks;
    uint64_t least, traffic, cost;
    int near;
} choice;

#define LARGEST 0xFFFFFFu /* m, k, n */

static uint32_t get(const @name@_device *device, uint32_t offset)
{
    return device->read(device->context, offset);
}

static void put(const @name@_device *device, uint32_t offset, uint32_t value)
{
    device->write(device->context, offset, value);
}

static void put_wide(const @name@_device *device, uint32_t low, uint64_t value)
{
    put(device, low, (uint32_t)(value & 0xFFFFFFFFu));
    put(device, low + 4u, (uint32_t)(value >> 32));
}

static uint32_t ceil_div(uint32_t value, uint32_t by)
{
    return value / by + (value % by != 0u);
}

static uint32_t offers(uint32_t codes, uint32_t code)
{
    return code < 32u && (codes >> code & 1u) != 0u;
}

/* Whether rows of `bytes` end within the address space. */
static int reachable(uint64_t address, uint32_t rows, uint32_t stride, uint64_t bytes)
{
    uint64_t extent = (uint64_t)(rows - 1u) * stride + bytes;
    uint64_t last = UINT64_MAX >> (64 - @NAME@_ADDRESS_BITS);

    return address <= last && extent - 1u <= last - address;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint64_t smaller_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Sums and products that stop at the largest number. */
static uint64_t plus(uint64_t a, uint64_t b)
{
    return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    if ((a | b) >> 32 == 0u)
        return a * b;
    return b != 0u && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static tiles tiles_of(const @name@_job *job)
{
    tiles all;

    all.m = ceil_div(job->m, @NAME@_TILE_M);
    all.k = ceil_div(job->k, @NAME@_TILE_K);
    all.n = ceil_div(job->n, @NAME@_TILE_N);
    return all;
}

static uint32_t w_rows_of(const @name@_job *job)
{
    return @NAME@_W_IS_IMAGE ? tiles_of(job).k : job->k;
}

/* Bytes of a row. */
static amounts row_of(const @name@_job *job)
{
    amounts row;

    row.a = (uint64_t)job->k * @NAME@_A_ELEMENT_BYTES;
    row.w = (uint64_t)job->n * @NAME@_W_ELEMENT_BYTES;
    if (@NAME@_W_IS_IMAGE)
        row.w = (uint64_t)tiles_of(job).n * @NAME@_W_TILE_BYTES;
    row.c = (uint64_t)job->n << job->post.size;
    row.p = job->post.columns != 0u ? (uint64_t)job->n * RECORD_BYTES : 0u;
    return row;
}

@PLAN@
/* Checks. */

static int check_blocks(const @name@_job *job, const @name@_blocks *blocks)
{
    uint32_t m = blocks->m / @NAME@_TILE_M;
    uint32_t k = blocks->k / @NAME@_TILE_K;
    uint32_t n = blocks->n / @NAME@_TILE_N;

    if (blocks->m % @NAME@_TILE_M != 0u || blocks->k % @NAME@_TILE_K != 0u ||
        blocks->n % @NAME@_TILE_N != 0u || m == 0u || k == 0u || n == 0u)
        return @NAME@_E_BLOCK;
    if (m > MOST_M || n > most_columns(job) || (uint64_t)blocks->m * n > OUT_DEPTH ||
        k > longest(blocks, m, n))
        return @NAME@_E_BLOCK;
    return @NAME@_OK;
}

/* What a plan depends on. */
static int check_product(const @name@_job *job)
{
    const @name@_post *post = &job->post;

    if (job->m == 0u || job->k == 0u || job->n == 0u || job->m > LARGEST || job->k > LARGEST ||
        job->n > LARGEST || job->k > @NAME@_MAX_K)
        return @NAME@_E_SIZE;
    if (!offers(POST_KINDS, post->kind) || !offers(POST_ACTIVATIONS, post->activation) ||
        !offers(POST_ROUNDINGS, post->rounding) || post->size > 3u ||
        post->columns > POST_COLUMNS)
        return @NAME@_E_POST;
    return @NAME@_OK;
}

static int check_memory(const @name@_job *job)
{
    amounts row = row_of(job);

    if (job->m > 1u && job->c_stride < row.c)
        return @NAME@_E_STRIDE;
    if (!reachable(job->a_address, job->m, job->a_stride, row.a) ||
        !reachable(job->w_address, w_rows_of(job), job->w_stride, row.w) ||
        !reachable(job->c_address, job->m, job->c_stride, row.c))
        return @NAME@_E_ADDRESS;
    if (job->post.columns != 0u && !reachable(job->p_address, 1u, 0u, row.p))
        return @NAME@_E_ADDRESS;
    return @NAME@_OK;
}

static void put_job(const @name@_device *device, const @name@_job *job,
                    const @name@_blocks *blocks)
{
    const @name@_post *post = &job->post;
    tiles all = tiles_of(job);
    uint32_t kbt = blocks->k / @NAME@_TILE_K;
    uint32_t w_rows = @NAME@_W_IS_IMAGE ? kbt : blocks->k;

    put_wide(device, @NAME@_A_ADDRESS_LOW, job->a_address);
    put_wide(device, @NAME@_W_ADDRESS_LOW, job->w_address);
    put_wide(device, @NAME@_C_ADDRESS_LOW, job->c_address);
    put_wide(device, @NAME@_P_ADDRESS_LOW, job->p_address);
    put_wide(device, @NAME@_A_M_STEP_LOW, (uint64_t)blocks->m * job->a_stride);
    put_wide(device, @NAME@_W_K_STEP_LOW, (uint64_t)w_rows * job->w_stride);
    put_wide(device, @NAME@_C_M_STEP_LOW, (uint64_t)blocks->m * job->c_stride);
    put(device, @NAME@_A_STRIDE, job->a_stride);
    put(device, @NAME@_W_STRIDE, job->w_stride);
    put(device, @NAME@_C_STRIDE, job->c_stride);
    put(device, @NAME@_M, job->m);
    put(device, @NAME@_MT, all.m);
    put(device, @NAME@_MB, blocks->m);
    put(device, @NAME@_MBT, blocks->m / @NAME@_TILE_M);
    put(device, @NAME@_K, job->k);
    put(device, @NAME@_KT, all.k);
    put(device, @NAME@_KB, blocks->k);
    put(device, @NAME@_KBT, kbt);
    put(device, @NAME@_N, job->n);
    put(device, @NAME@_NT, all.n);
    put(device, @NAME@_NB, blocks->n);
    put(device, @NAME@_NBT, blocks->n / @NAME@_TILE_N);
    put(device, @NAME@_JOB_FLAGS,
        (blocks->m_inner ? @NAME@_JOB_FLAGS_M_INNER_MASK : 0u) |
            (job->after ? @NAME@_JOB_FLAGS_AFTER_MASK : 0u) |
            (blocks->a_whole ? @NAME@_JOB_FLAGS_A_WHOLE_MASK : 0u) |
            (blocks->w_whole ? @NAME@_JOB_FLAGS_W_WHOLE_MASK : 0u));
@POST_WRITES@
}

int @name@_probe(const @name@_device *device)
{
    if (get(device, @NAME@_ID) != @NAME@_MAGIC || get(device, @NAME@_LAYOUT) != LAYOUT ||
        get(device, @NAME@_QUEUE) != @NAME@_QUEUE_SLOTS ||
        get(device, @NAME@_M_LANES) != @NAME@_TILE_M ||
        get(device, @NAME@_K_LANES) != @NAME@_TILE_K ||
        get(device, @NAME@_N_LANES) != @NAME@_TILE_N)
        return @NAME@_E_DEVICE;
    return @NAME@_OK;
}

int @name@_plan(const @name@_job *job, @name@_blocks *blocks)
{
    int status = check_product(job);

    if (status == @NAME@_OK)
        choose(job, blocks);
    return status;
}

int @name@_submit(const @name@_device *device, const @name@_job *job, uint32_t *ticket)
{
    @name@_blocks blocks;
    int status = @name@_plan(job, &blocks);

    return status == @NAME@_OK ? @name@_submit_blocks(device, job, &blocks, ticket) : status;
}

int @name@_submit_blocks(const @name@_device *device, const @name@_job *job,
                         const @name@_blocks *blocks, uint32_t *ticket)
{
    int status = check_product(job);
    uint32_t number, state;

    if (status == @NAME@_OK)
        status = check_blocks(job, blocks);
    if (status == @NAME@_OK)
        status = check_memory(job);
    if (status != @NAME@_OK)
        return status;
    state = get(device, @NAME@_STATUS);
    if ((state & @NAME@_STATUS_FREE_MASK) == 0u || (state & @NAME@_STATUS_STOPPING_MASK) != 0u)
        return @NAME@_E_FULL;
    number = get(device, @NAME@_SUBMITTED);
    put_job(device, job, blocks);
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
        return "m, k or n is 0 or too large";
    case @NAME@_E_BLOCK:
        return "the block is no multiple of the tile or too large for the buffers";
    case @NAME@_E_STRIDE:
        return "rows of C overlap";
    case @NAME@_E_ADDRESS:
        return "beyond the address space";
    case @NAME@_E_POST:
        return "post-processing that the engine does not have";
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
    default:
        return "unknown status";
    }
}
