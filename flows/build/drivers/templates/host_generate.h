/* SPDX-License-Identifier: Apache-2.0 */
/*% include "pieces/generate.h" %*/

/* The compiled model: addresses in the engine's memory, sizes in bytes. */
@FACTS@

/*% include "pieces/host.h" %*/

/* How tokens are drawn by their probabilities. */
typedef struct {
    double temperature; /* logits are divided by it; 0: the most likely token, nothing is drawn */
    uint32_t top_k;     /* draw from so many, and those as likely as the last of them; 0: from all */
    uint64_t state;     /* of the numbers: where a run begins, a seed */
} @name@_sampling;

/*% include "pieces/generate_statuses.h" %*/

/* Put image.bin into the engine's memory. */
void @name@_prepare(const @name@_host *host, const void *image);

/* Take `count` tokens behind `position` others. `logits`, or NULL, gets where the numbers of the
 * last one are: @NAME@_MODEL_VOCABULARY of them, until the next call. */
int @name@_feed(const @name@_host *host, uint32_t position, const uint32_t *tokens, uint32_t count,
                const float **logits);

/* Return a token by its logits; `sampling` may be NULL. */
uint32_t @name@_choose(@name@_sampling *sampling, const float *logits);

/* Continue a prompt by at most `most` tokens; `on_token` gets every token, and may return 0 to end,
 * or be NULL. It ends behind the token @NAME@_MODEL_END. `made`, or NULL, gets how many there
 * were. */
int @name@_generate(const @name@_host *host, const uint32_t *prompt, uint32_t count, uint32_t most,
                    @name@_sampling *sampling, int (*on_token)(void *context, uint32_t token),
                    uint32_t *made);

/*% include "pieces/close.h" %*/
