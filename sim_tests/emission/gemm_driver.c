/* SPDX-License-Identifier: Apache-2.0
 * The generated driver of an engine at work.  On hardware, `engine_read` and `engine_write` access
 * registers, and matrices lie in memory that both see; here both are the simulation's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eng_driver.h"
#include "model.h"

enum { M = 22, K = 37, N = 18, JOBS = 9 };
enum { A = 0x1003, W = 0x11007, C = 0x20000, C_PITCH = 0x1000, STRIDE = 101 };

static hwgen_model *model;

static uint32_t engine_read(void *context, uint32_t offset)
{
    uint32_t value = 0;
    (void)context;
    if (hwgen_read32(model, offset, &value)) printf("read %#x failed\n", (unsigned)offset);
    return value;
}

static void engine_write(void *context, uint32_t offset, uint32_t value)
{
    (void)context;
    if (hwgen_write32(model, offset, value)) printf("write %#x failed\n", (unsigned)offset);
}

static const eng_device device = {NULL, engine_read, engine_write};
static int8_t a[M][K], w[K][N];

static eng_job job(uint32_t number)
{
    eng_job found;
    memset(&found, 0, sizeof found);
    found.a_address = A;
    found.w_address = W;
    found.c_address = C + C_PITCH * (uint64_t)number;
    found.a_stride = found.w_stride = found.c_stride = STRIDE;
    found.m = M, found.k = K, found.n = N;
    found.post.size = 2; /* raw: 32 bits */
    return found;
}

/* Every third job is cut as the driver plans it, the others in many ways. */
static int submit(uint32_t number, uint32_t *ticket)
{
    eng_job one = job(number);
    eng_blocks blocks;
    blocks.m = ENG_TILE_M * (1 + number);
    blocks.k = ENG_TILE_K * (1 + number % 3);
    blocks.n = ENG_TILE_N * (1 + number % 4);
    blocks.m_inner = (int)(number & 1);
    blocks.a_whole = (int)(number >> 1 & 1);
    blocks.w_whole = (int)(number >> 2 & 1);
    return number % 3 ? eng_submit_blocks(&device, &one, &blocks, ticket)
                      : eng_submit(&device, &one, ticket);
}

static int equal(uint32_t number)
{
    int m, k, n;
    for (m = 0; m < M; ++m) {
        int32_t row[N];
        hwgen_load(model, C + C_PITCH * (uint64_t)number + STRIDE * (uint64_t)m, row, sizeof row);
        for (n = 0; n < N; ++n) {
            int32_t sum = 0;
            for (k = 0; k < K; ++k) sum += a[m][k] * w[k][n];
            if (row[n] != sum) return 0;
        }
    }
    return 1;
}

int main(void)
{
    uint32_t tickets[JOBS], next = 0, done = 0, i;
    int status, full = 0, good = 0;
    eng_job one;

    model = hwgen_open(1);
    hwgen_set(model, HWGEN_READ_STALLS, 200);
    for (i = 0; i < M * K; ++i) a[i / K][i % K] = (int8_t)(i * 37 + i / 11);
    for (i = 0; i < K * N; ++i) w[i / N][i % N] = (int8_t)(i * 53 + i / 7);
    for (i = 0; i < M; ++i) hwgen_store(model, A + STRIDE * (uint64_t)i, a[i], K);
    for (i = 0; i < K; ++i) hwgen_store(model, W + STRIDE * (uint64_t)i, w[i], N);

    printf("probe: %s\n", eng_message(eng_probe(&device)));
    while (done < JOBS) {
        if (next < JOBS) {
            status = submit(next, &tickets[next]);
            if (status == ENG_OK) {
                ++next;
                continue;
            }
            full += status == ENG_E_FULL;
        }
        status = eng_wait(&device, tickets[done], 100000);
        if (status != ENG_OK) printf("job %u: %s\n", (unsigned)done, eng_message(status));
        good += equal(done++);
    }
    printf("%d of %d products are right\n", good, JOBS);
    printf("the queue was %s\n", full ? "full" : "never full");
    printf("counted: %d\n", eng_counter(&device, ENG_READS_LOW) > 0);

    hwgen_fault(model, A + STRIDE * 5, 1, HWGEN_SLVERR);
    one = job(0);
    status = eng_submit(&device, &one, &next);
    printf("fault: %s\n", eng_message(status ? status : eng_wait(&device, next, 100000)));
    one.a_address = W; /* of other numbers, which can be read */
    for (i = 0; i < 3; ++i) status = eng_submit(&device, &one, &next);
    eng_abort(&device);
    printf("abort: %s\n", eng_message(status ? status : eng_wait(&device, next, 100000)));
    printf("lost: %s\n", eng_message(eng_poll(&device, tickets[0])));
    status = eng_submit(&device, &one, &next);
    printf("after: %s\n", eng_message(status ? status : eng_wait(&device, next, 100000)));
    printf("bus: '%s'\n", hwgen_message(model));
    hwgen_close(model);
    return 0;
}
