/* SPDX-License-Identifier: Apache-2.0 */
@include device.h@

/* Rows in memory: those of a block one behind the other, block after block. */
typedef struct {
    uint64_t address;   /* bytes, of the first row; any alignment */
    uint32_t row_bytes; /* 0: the job does not use the port */
    uint32_t rows;
    uint32_t blocks;
    uint32_t stride; /* bytes from one row to the next; 0: the same row again */
    uint32_t step;   /* bytes from one block to the next */
} @name@_place;
@PAGES@
/* What a job takes, and where its results go. */
typedef struct {
@MEMBERS@
    int after; /* begin when all earlier jobs have finished */
} @name@_job;

@include statuses.h@

/* Put a job into the queue; `ticket` is its number, or NULL. Nothing is written if it is refused. */
int @name@_submit(const @name@_device *device, const @name@_job *job, uint32_t *ticket);

@include queue.h@

@include end.h@
