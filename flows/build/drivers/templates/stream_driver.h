/* SPDX-License-Identifier: Apache-2.0 */
/*% include "pieces/device.h" %*/

/* Rows in memory: those of a block one behind the other, block after block. */
typedef struct {
    uint64_t address;   /* bytes, of the first row; any alignment */
    uint32_t row_bytes; /* 0: the job does not use the port */
    uint32_t rows;
    uint32_t blocks;
    uint32_t stride; /* bytes from one row to the next; 0: the same row again */
    uint32_t step;   /* bytes from one block to the next */
} @name@_place;
/*% if tables %*/

/* The same, or pages: of these `place` has where entries count from, their bytes, and in `blocks`
 * how many there are. */
typedef struct {
    @name@_place place;
    uint64_t table; /* address of 32 bits for each page: beats behind `address`; 0: no pages */
    uint32_t skip;  /* bytes that are skipped of the first page */
    uint32_t last;  /* bytes of the last page up to which it is read */
} @name@_pages;
/*% endif %*/

/* What a job takes, and where its results go. */
typedef struct {
/*% for port, words, text in commands %*/
    uint32_t @port@[@words@]; /* @text@ */
/*% endfor %*/
/*% for port in places %*/
    @name@_@port.type@ @port.name@; /* @port.text@ */
/*% endfor %*/
/*% if tail_bytes %*/
    @name@_place tail; /* what follows each row of results; as many rows */
/*% endif %*/
    int after; /* begin when all earlier jobs have finished */
} @name@_job;

/*% include "pieces/statuses.h" %*/

/* Put a job into the queue; `ticket` is its number, or NULL. Nothing is written if it is refused. */
int @name@_submit(const @name@_device *device, const @name@_job *job, uint32_t *ticket);

/*% include "pieces/queue.h" %*/

/*% include "pieces/end.h" %*/
