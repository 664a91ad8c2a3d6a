/* An engine and its host. The engine's memory is reached by functions that the user supplies: it
 * must look the same to both when one of them returns. Numbers lie in it, and in the files, with the
 * least significant byte first, as the host must have them. */
typedef struct {
/*% include "pieces/host_members.h" %*/
    const void *program;   /* program.bin, at a multiple of 4 bytes */
    const void *constants; /* host.bin, at a multiple of 8 bytes */
    void *work;            /* @NAME@_MODEL_WORK_BYTES, at a multiple of 8 bytes */
    uint32_t polls;        /* how often a job is polled at most, more than once */
} @name@_host;
