/* SPDX-License-Identifier: Apache-2.0 */
/*% include "pieces/generate.h" %*/

/* The compiled model: addresses and sizes in bytes. */
@FACTS@

/* An engine, and the memory that it shares with the host, which the user supplies: memory must look
 * the same to both when a function is called. */
typedef struct {
/*% include "pieces/host_members.h" %*/
} @name@_host;

/*% include "pieces/generate_statuses.h" %*/

/* Put image.bin and program.bin into memory, and zeros where the list works. */
void @name@_prepare(const @name@_host *host, const void *image, const void *program);

/* Continue a prompt by at most `most` tokens, a run of the list for each; `on_token` gets every
 * token, and may return 0 to end, or be NULL. A run is polled at most `polls` times more than once. It ends
 * behind the token @NAME@_MODEL_END. `made`, or NULL, gets how many there were. */
int @name@_generate(const @name@_host *host, const uint32_t *prompt, uint32_t count, uint32_t most,
                    uint32_t polls, int (*on_token)(void *context, uint32_t token),
                    uint32_t *made);

/*% include "pieces/close.h" %*/
