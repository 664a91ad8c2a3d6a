/* SPDX-License-Identifier: Apache-2.0 */
#include "@name@_generate.h"

#include <stddef.h>

enum { PIECE = 4096 };

static void copy(const @name@_host *host, uint64_t address, const uint8_t *data, uint64_t bytes)
{
    while (bytes != 0u) {
        uint32_t part = bytes < PIECE ? (uint32_t)bytes : (uint32_t)PIECE;

        host->store(host->context, address, data, part);
        address += part;
        data += part;
        bytes -= part;
    }
}

void @name@_prepare(const @name@_host *host, const void *image, const void *program)
{
    static const uint8_t zeros[PIECE] = {0};
    uint64_t address = @NAME@_MODEL_BASE + @NAME@_MODEL_IMAGE_BYTES;
    uint64_t end = @NAME@_MODEL_BASE + @NAME@_MODEL_BYTES;

    copy(host, @NAME@_MODEL_BASE, (const uint8_t *)image, @NAME@_MODEL_IMAGE_BYTES);
    while (address < end) {
        uint64_t part = end - address < PIECE ? end - address : (uint64_t)PIECE;

        copy(host, address, zeros, part);
        address += part;
    }
    copy(host, @NAME@_MODEL_LIST, (const uint8_t *)program,
         (uint64_t)@NAME@_MODEL_DESCRIPTORS * @NAME@_DESCRIPTOR_BYTES);
}

static void put_token(const @name@_host *host, uint32_t place, uint32_t token)
{
    uint8_t bytes[4];
    uint32_t i;

    for (i = 0u; i < 4u; i++)
        bytes[i] = (uint8_t)(token >> (8u * i) & 0xFFu);
    host->store(host->context, @NAME@_MODEL_TOKENS + 4u * (uint64_t)place, bytes, 4u);
}

static uint32_t get_token(const @name@_host *host, uint32_t place)
{
    uint8_t bytes[4];

    host->load(host->context, @NAME@_MODEL_TOKENS + 4u * (uint64_t)place, bytes, 4u);
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

/* Take the tokens from `position` on, of `there`, and append one. */
static int step(const @name@_host *host, uint32_t position, uint32_t there, uint32_t polls)
{
    @name@_list list;
    int status = @name@_set(host->device, @NAME@_MODEL_R_POSITION, position);

    if (status == @NAME@_OK)
        status = @name@_set(host->device, @NAME@_MODEL_R_PROMPT, there);
    if (status == @NAME@_OK)
        status = @name@_set(host->device, @NAME@_MODEL_R_STOP, there);
    if (status == @NAME@_OK)
        status = @name@_set(host->device, @NAME@_MODEL_R_END, @NAME@_MODEL_END);
    list.address = @NAME@_MODEL_LIST;
    list.descriptors = @NAME@_MODEL_DESCRIPTORS;
    list.step_limit = 0u;
    if (status == @NAME@_OK)
        status = @name@_start(host->device, &list);
    return status == @NAME@_OK ? @name@_wait(host->device, polls) : status;
}

int @name@_generate(const @name@_host *host, const uint32_t *prompt, uint32_t count, uint32_t most,
                    uint32_t polls, int (*on_token)(void *context, uint32_t token),
                    uint32_t *made)
{
    uint32_t position = 0u, there = count, number;
    int status;

    if (made != NULL)
        *made = 0u;
    if (count == 0u || count > @NAME@_MODEL_CONTEXT || most > @NAME@_MODEL_CONTEXT + 1u - count)
        return @NAME@_E_PROMPT;
    for (number = 0u; number < count; number++)
        if (prompt[number] >= @NAME@_MODEL_VOCABULARY)
            return @NAME@_E_TOKEN;
    for (number = 0u; number < count; number++)
        put_token(host, number, prompt[number]);
    for (number = 1u; number <= most; number++) {
        uint32_t token;

        status = step(host, position, there, polls);
        if (status != @NAME@_OK)
            return status;
        token = get_token(host, there);
        if (made != NULL)
            *made = number;
        if (on_token != NULL && on_token(host->context, token) == 0)
            return @NAME@_STOPPED;
        if (token == @NAME@_MODEL_END)
            break;
        position = there++;
    }
    return @NAME@_OK;
}
