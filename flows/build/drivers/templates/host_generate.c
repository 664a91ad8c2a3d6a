/* SPDX-License-Identifier: Apache-2.0 */
#include "@name@_generate.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

/*% include "pieces/exact.c" %*/

enum { PIECE = 4096, COLUMNS = 256, CODE_MOST = @CODE_MOST@, MOST_BLOCK = @MOST_BLOCK@ };

/* A product: jobs of the engine, one for each group along k, and what turns sums into numbers. */
typedef struct {
    uint32_t job, jobs;  /* the first one of one row, and of how many in a layer it is one */
    uint32_t later;      /* from a job of one row to that of several */
    uint32_t groups, k, n;
    uint32_t most;       /* rows between the sums of two groups */
    uint64_t sums;       /* address in the engine's memory */
    size_t codes, row_scales, output; /* in the host's work */
    size_t scales, scales_step;       /* in its constants, and from layer to layer */
    size_t offsets, offsets_step;     /* NOTHING: there are none */
    size_t bias, bias_step;
    uint32_t shift;
} product;

typedef struct {
    uint32_t heads, kv_heads, elements, window, hadamard;
    double scale, cap;
    size_t query, key, value, output;
    size_t keys, values, key_scales, value_scales, step;
} attention;

#define NOTHING ((size_t)-1)

/* -- numbers -- */

@FUNCTIONS@
static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* -- rows -- */

static float *work_of(const @name@_host *host, size_t at)
{
    return (float *)(void *)((uint8_t *)host->work + at);
}

static int8_t *codes_of(const @name@_host *host, size_t at)
{
    return (int8_t *)host->work + at;
}

static const float *constant_of(const @name@_host *host, size_t at)
{
    return (const float *)(const void *)((const uint8_t *)host->constants + at);
}

@HELPERS@
/* A block times a Hadamard matrix of 1 and -1, by stages, neighbours first. */
static const float *turned(const float *x, size_t block, float *room)
{
    size_t distance, i;

    for (i = 0; i < block; i++)
        room[i] = x[i];
    for (distance = 1u; distance < block; distance *= 2u)
        for (i = 0; i < block; i++)
            if ((i & distance) == 0u) {
                float u = room[i], w = room[i + distance];

                room[i] = u + w;
                room[i + distance] = u - w;
            }
    return room;
}

/* Turn a row into integers, its blocks times a Hadamard matrix if there are any; return the
   scale. */
static float quantise_row(const float *x, size_t length, size_t block, int8_t *codes)
{
    size_t piece = block != 0u ? block : length, at, i;
    float room[MOST_BLOCK], most = 0.0f, scale;

    for (at = 0; at < length; at += piece) {
        const float *part = block != 0u ? turned(x + at, block, room) : x;

        for (i = 0; i < piece; i++) {
            float magnitude = part[i] < 0.0f ? -part[i] : part[i];

            most = magnitude > most ? magnitude : most;
        }
    }
    scale = most / (float)CODE_MOST;
    if (!(scale > 0.0f))
        scale = 1.0f;
    for (at = 0; at < length; at += piece) {
        const float *part = block != 0u ? turned(x + at, block, room) : x;

        for (i = 0; i < piece; i++) {
            double code = ((double)part[i] / (double)scale + ROUND) - ROUND;

            code = larger(code, -(double)CODE_MOST);
            codes[at + i] = (int8_t)(code < (double)CODE_MOST ? code : (double)CODE_MOST);
        }
    }
    return scale;
}

/* Turn rows into integers, for the host and for the engine. */
static void quantise(const @name@_host *host, uint32_t rows, size_t length, size_t block, size_t x,
                     size_t codes, size_t scales, uint64_t address)
{
    size_t row, at, all = rows * length;

    for (row = 0; row < rows; row++)
        work_of(host, scales)[row] = quantise_row(work_of(host, x) + row * length, length,
                                                  block, codes_of(host, codes) + row * length);
    for (at = 0; at < all; at += PIECE) {
        uint32_t part = (uint32_t)(all - at < (size_t)PIECE ? all - at : (size_t)PIECE);

        host->store(host->context, address + at, codes_of(host, codes) + at, part);
    }
}

/* -- products -- */

/* The sum of a row's integers of a group. */
static double sum_of(const int8_t *codes, size_t count)
{
    int64_t sum = 0;
    size_t i;

    for (i = 0; i < count; i++)
        sum += codes[i];
    return (double)sum;
}

/* Make numbers of columns of a row's sums. */
static void columns_of(const @name@_host *host, const product *one, uint32_t layer, uint32_t row,
                       uint32_t first, uint32_t count)
{
    const int8_t *codes = codes_of(host, one->codes) + (size_t)row * one->k;
    const float *scales = constant_of(host, one->scales + layer * one->scales_step) + first;
    const double row_scale = (double)work_of(host, one->row_scales)[row];
    float *output = work_of(host, one->output) + (size_t)row * one->n + first;
    uint32_t length = one->k / one->groups, group, i;
    double found[COLUMNS];
    int32_t sums[COLUMNS];

    for (i = 0; i < count; i++)
        found[i] = 0.0;
    for (group = 0; group < one->groups; group++) {
        size_t at = (size_t)group * one->n;
        uint64_t place = ((uint64_t)group * one->most + row) * one->n + first;

        host->load(host->context, one->sums + 4u * place, sums, 4u * count);
        for (i = 0; i < count; i++)
            found[i] = found[i] + (double)sums[i] * (double)scales[at + i];
        if (one->offsets != NOTHING || one->shift != 0u) {
            double sum = sum_of(codes + (size_t)group * length, length);

            for (i = 0; i < count; i++) {
                double offset = (double)one->shift * (double)scales[at + i];

                if (one->offsets != NOTHING)
                    offset = (double)constant_of(host, one->offsets + layer * one->offsets_step)
                                 [at + first + i] + offset;
                found[i] = found[i] + sum * offset;
            }
        }
    }
    for (i = 0; i < count; i++) {
        output[i] = (float)(found[i] * row_scale);
        if (one->bias != NOTHING)
            output[i] = output[i] +
                        constant_of(host, one->bias + layer * one->bias_step)[first + i];
    }
}

static void finish(const @name@_host *host, const product *one, uint32_t layer, uint32_t rows)
{
    uint32_t row, first;

    for (row = 0; row < rows; row++)
        for (first = 0; first < one->n; first += COLUMNS)
            columns_of(host, one, layer, row, first,
                       one->n - first < COLUMNS ? one->n - first : (uint32_t)COLUMNS);
}

/*% include "pieces/submit.c" %*/

/* Do products: the host makes numbers of one while the engine multiplies for the next. */
static int products(const @name@_host *host, const product *list, uint32_t count, uint32_t layer,
                    uint32_t rows)
{
    uint32_t sent = 0, group = 0, waiting = 0, first = 0, ticket = 0, each;
    int status = @NAME@_OK;

    for (each = 0; each < count; each++) {
        const product *one = &list[each];

        for (;;) {
            status = @NAME@_OK;
            while (sent < count) {
                const product *next = &list[sent];
                uint32_t job = next->job + layer * next->jobs + group;

                if (rows > 1u)
                    job += next->later;
                status = submit(host, job, &ticket);
                if (status != @NAME@_OK)
                    break;
                if (waiting++ == 0u)
                    first = ticket;
                if (++group == next->groups) {
                    group = 0;
                    sent++;
                }
            }
            if (status != @NAME@_OK && (status != @NAME@_E_FULL || waiting == 0u))
                return status;
            if (sent > each)
                break; /* all jobs of this product are in the queue, or have ended */
            status = @name@_wait(host->device, first++, host->polls);
            if (status != @NAME@_OK)
                return status;
            waiting--;
        }
        while (waiting != 0u) {
            uint32_t behind = group, other;

            for (other = each + 1u; other < sent; other++)
                behind += list[other].groups;
            if (waiting <= behind)
                break; /* those that wait are of later products */
            status = @name@_wait(host->device, first++, host->polls);
            if (status != @NAME@_OK)
                return status;
            waiting--;
        }
        finish(host, one, layer, rows);
    }
    return @NAME@_OK;
}

/* -- attention -- */

@ATTENTION@
/* -- the network -- */

@TABLES@
static int layer_of(const @name@_host *host, uint32_t layer, uint32_t position, uint32_t rows)
{
    int status = @NAME@_OK;

    (void)position;
@LAYER@
    return status;
}

static int after_layers(const @name@_host *host, uint32_t position)
{
    const uint32_t layer = 0u, rows = 1u;
    int status = @NAME@_OK;

    (void)position;
@AFTER@
    return status;
}

/*% include "pieces/prepare.c" %*/

static int pass(const @name@_host *host, uint32_t position, const uint32_t *tokens, uint32_t rows)
{
    const size_t bytes = (size_t)@NAME@_MODEL_WIDTH * sizeof(float);
    uint32_t row, layer;
    int status = @NAME@_OK;

    for (row = 0; row < rows; row++)
        memcpy(work_of(host, @X@) + (size_t)row * @NAME@_MODEL_WIDTH,
               constant_of(host, @EMBEDDING@) + (size_t)tokens[row] * @NAME@_MODEL_WIDTH, bytes);
    for (layer = 0; layer < @NAME@_MODEL_LAYERS && status == @NAME@_OK; layer++)
        status = layer_of(host, layer, position, rows);
    return status;
}

int @name@_feed(const @name@_host *host, uint32_t position, const uint32_t *tokens, uint32_t count,
                const float **logits)
{
    const size_t width = @NAME@_MODEL_WIDTH;
    uint32_t at, rows = 0;
    int status = @NAME@_OK;

    if (count == 0u || count > @NAME@_MODEL_CONTEXT || position > @NAME@_MODEL_CONTEXT - count)
        return @NAME@_E_PROMPT;
    for (at = 0; at < count; at++)
        if (tokens[at] >= @NAME@_MODEL_VOCABULARY)
            return @NAME@_E_TOKEN;
    for (at = 0; at < count; at += rows) {
        rows = count - at >= @NAME@_MODEL_AT_ONCE ? @NAME@_MODEL_AT_ONCE : 1u;
        status = pass(host, position + at, tokens + at, rows);
        if (status != @NAME@_OK)
            return status;
    }
    if (logits == NULL)
        return @NAME@_OK;
    if (rows > 1u)
        memcpy(work_of(host, @X@), work_of(host, @X@) + (rows - 1u) * width, width * sizeof(float));
    status = after_layers(host, position + count - 1u);
    *logits = work_of(host, @LOGITS@);
    return status;
}

/* -- the next token -- */

/* The least logit that is drawn from. */
static float least_of(const float *logits, uint32_t top_k)
{
    float bound = 0.0f;
    uint32_t taken = 0, i;

    while (taken < top_k) {
        float most = 0.0f;
        uint32_t same = 0;

        for (i = 0; i < @NAME@_MODEL_VOCABULARY; i++) {
            if (taken != 0u && logits[i] >= bound)
                continue;
            if (same == 0u || logits[i] > most) {
                most = logits[i];
                same = 1;
            } else if (logits[i] == most) {
                same++;
            }
        }
        if (same == 0u)
            break;
        bound = most;
        taken += same;
    }
    return bound;
}

/* A number in 0..1, by SplitMix64. */
static double uniform(uint64_t *state)
{
    uint64_t word;

    *state += UINT64_C(0x9E3779B97F4A7C15);
    word = *state;
    word = (word ^ word >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    word = (word ^ word >> 27) * UINT64_C(0x94D049BB133111EB);
    return (double)((word ^ word >> 31) >> 11) * (1.0 / 9007199254740992.0);
}

uint32_t @name@_choose(@name@_sampling *sampling, const float *logits)
{
    uint32_t best = 0, last = 0, i;
    double sum = 0.0, bound;
    float least;

    for (i = 1; i < @NAME@_MODEL_VOCABULARY; i++)
        if (logits[i] > logits[best])
            best = i;
    if (sampling == NULL || !(sampling->temperature > 0.0))
        return best;
    least = sampling->top_k == 0u || sampling->top_k >= @NAME@_MODEL_VOCABULARY
                ? -FLT_MAX
                : least_of(logits, sampling->top_k);
    for (i = 0; i < @NAME@_MODEL_VOCABULARY; i++)
        if (logits[i] >= least)
            sum = sum + exponential_of(((double)logits[i] - (double)logits[best]) /
                                    sampling->temperature);
    bound = uniform(&sampling->state) * sum;
    sum = 0.0;
    for (i = 0; i < @NAME@_MODEL_VOCABULARY; i++) {
        if (!(logits[i] >= least))
            continue;
        sum = sum + exponential_of(((double)logits[i] - (double)logits[best]) / sampling->temperature);
        if (sum > bound)
            return i;
        last = i;
    }
    return last;
}

int @name@_generate(const @name@_host *host, const uint32_t *prompt, uint32_t count, uint32_t most,
                    @name@_sampling *sampling, int (*on_token)(void *context, uint32_t token),
                    uint32_t *made)
{
    uint32_t position = 0, length = count, number, token = 0;
    const uint32_t *next = prompt;
    const float *logits;

    if (made != NULL)
        *made = 0;
    if (count == 0u || count > @NAME@_MODEL_CONTEXT || most > @NAME@_MODEL_CONTEXT + 1u - count)
        return @NAME@_E_PROMPT;
    for (number = 1; number <= most; number++) {
        int status = @name@_feed(host, position, next, length, &logits);

        if (status != @NAME@_OK)
            return status;
        position += length;
        token = @name@_choose(sampling, logits);
        if (made != NULL)
            *made = number;
        if (on_token != NULL && on_token(host->context, token) == 0)
            return @NAME@_STOPPED;
        if (token == @NAME@_MODEL_END)
            break;
        next = &token;
        length = 1;
    }
    return @NAME@_OK;
}
