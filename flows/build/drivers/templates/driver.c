/* SPDX-License-Identifier: Apache-2.0 */
#include "@name@_driver.h"

#include <stddef.h>

/* What the buffers hold, and which codes of post-processing there are, one bit each. */
enum {
/*% for limit, value in limits.items() %*/
    @limit@ = @value@@"," if not loop.last else ""@
/*% endfor %*/
};

/* A port of the cores: beats for each tile, and whether they go over tiles of m, k and n. */
typedef struct {
    uint32_t beats, m, k, n;
} port;

/* What depends on the format of A and W: words of buffers and rows in memory. */
typedef struct {
    uint32_t act_beats, wgt_beats; /* of a word */
    uint32_t k_beats, weight_rows; /* beats of a tile */
    uint32_t a_tile, w_tile;       /* bytes of a tile in a row */
    uint32_t max_k;
    port ports[3];
} format;

static const format formats[] = {
/*% for facts, ports in formats %*/
    {@facts|join(", ")@,
     {@ports|join(", ")@}}@"," if not loop.last else ""@
/*% endfor %*/
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

/*% include "pieces/access.c" %*/

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

static const format *format_of(const @name@_job *job)
{
/*% if formats|length > 1 %*/
    return &formats[job->format];
/*% else %*/
    (void)job;
    return formats;
/*% endif %*/
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
    if (WEIGHT_COLUMNS)
        return job->n;
    return @NAME@_W_IS_IMAGE ? tiles_of(job).k : job->k;
}

/* Bytes of a row. */
static amounts row_of(const @name@_job *job)
{
    amounts row;

    row.a = (uint64_t)job->k * @NAME@_A_ELEMENT_BYTES;
    if (WHOLE_K != 0) /* rows are filled up to whole tiles */
        row.a = (uint64_t)tiles_of(job).k * format_of(job)->a_tile;
    row.w = (uint64_t)job->n * @NAME@_W_ELEMENT_BYTES;
    if (WEIGHT_COLUMNS)
        row.w = (uint64_t)tiles_of(job).k * format_of(job)->w_tile;
    if (@NAME@_W_IS_IMAGE)
        row.w = (uint64_t)tiles_of(job).n * @NAME@_W_TILE_BYTES;
    row.c = (uint64_t)job->n << job->post.size;
    row.p = job->post.columns != 0u ? (uint64_t)job->n * RECORD_BYTES : 0u;
    return row;
}

/*% include "pieces/plan.c" %*/

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
        k > longest(job, blocks, m, n) || (whole_k(m, n) && k < tiles_of(job).k))
        return @NAME@_E_BLOCK;
    return @NAME@_OK;
}

/* What a plan depends on. */
static int check_product(const @name@_job *job)
{
    const @name@_post *post = &job->post;

/*% if formats|length > 1 %*/
    if (job->format >= sizeof formats / sizeof formats[0])
        return @NAME@_E_FORMAT;
/*% endif %*/
    if (job->m == 0u || job->k == 0u || job->n == 0u || job->m > LARGEST || job->k > LARGEST ||
        job->n > LARGEST || job->k > format_of(job)->max_k)
        return @NAME@_E_SIZE;
    if (!offers(POST_KINDS, post->kind) || !offers(POST_ACTIVATIONS, post->activation) ||
        !offers(POST_ROUNDINGS, post->rounding) || post->size > 3u ||
        post->columns > POST_COLUMNS)
        return @NAME@_E_POST;
    return @NAME@_OK;
}

/* Where it lies, and that elements of results are as large as their kind has them. */
static int check_memory(const @name@_job *job)
{
    amounts row = row_of(job);

    if (!offers(POST_SIZES, 4u * job->post.kind + job->post.size))
        return @NAME@_E_POST;
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
    uint32_t w_rows = WEIGHT_COLUMNS ? blocks->n : @NAME@_W_IS_IMAGE ? kbt : blocks->k;

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
            (blocks->w_whole ? @NAME@_JOB_FLAGS_W_WHOLE_MASK : 0u)
/*%- if formats|length > 1 %*/ |
            job->format << @NAME@_JOB_FLAGS_FORMAT_SHIFT
/*%- endif %*/);
/*% for register, terms in post_terms %*/
    put(device, @NAME@_@register@,
        @terms|join(" |\n            ")@);
/*% endfor %*/
}

/*% include "pieces/queue.c" %*/

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
    uint32_t number;

    if (status == @NAME@_OK)
        status = check_blocks(job, blocks);
    if (status == @NAME@_OK)
        status = check_memory(job);
    if (status != @NAME@_OK)
        return status;
    if (!has_room(device, &number))
        return @NAME@_E_FULL;
    put_job(device, job, blocks);
    return enter(device, number, ticket);
}

/*% include "pieces/message.c" %*/
