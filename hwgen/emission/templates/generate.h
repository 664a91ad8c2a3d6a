/* SPDX-License-Identifier: Apache-2.0 */
#ifndef @NAME@_GENERATE_H
#define @NAME@_GENERATE_H

#include <stdint.h>

#include "@name@_driver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The compiled model: addresses and sizes in bytes. */
@FACTS@

/* An engine, and the memory that it shares with the host, which the user supplies: memory must look
 * the same to both when a function is called. */
typedef struct {
    const @name@_device *device;
    void *context;
    void (*load)(void *context, uint64_t address, void *data, uint32_t bytes);
    void (*store)(void *context, uint64_t address, const void *data, uint32_t bytes);
} @name@_host;

/* What the functions return beside the statuses of the driver. */
enum {
    @NAME@_STOPPED = 2,      /* on_token wanted no more */
    @NAME@_E_PROMPT = -100,  /* the prompt is empty, or does not fit with the tokens asked for */
    @NAME@_E_TOKEN = -101    /* a token that the model does not know */
};

/* Put image.bin and program.bin into memory, and zeros where the list works. */
void @name@_prepare(const @name@_host *host, const void *image, const void *program);

/* Continue a prompt by at most `most` tokens, a run of the list for each; `on_token` gets every
 * token, and may return 0 to end, or be NULL. A run is polled at most `polls` times more than once. It ends
 * behind the token @NAME@_MODEL_END. `made`, or NULL, gets how many there were. */
int @name@_generate(const @name@_host *host, const uint32_t *prompt, uint32_t count, uint32_t most,
                    uint32_t polls, int (*on_token)(void *context, uint32_t token),
                    uint32_t *made);

#ifdef __cplusplus
}
#endif

#endif
