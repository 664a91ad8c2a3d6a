/* SPDX-License-Identifier: Apache-2.0 */
/*% include "pieces/device.h" %*/

/* Post-processing: contents of the fields of POST_..., see @name@_registers.md. */
typedef struct {
/*% for register in post %*/
/*% for field in register.fields %*/
    @"int32_t" if field.signed else "uint32_t"@ @field.name@; /* @field.text@ */
/*% endfor %*/
/*% endfor %*/
} @name@_post;

/* C = post(A W): A of m x k, W of k x n, C of m x n elements, each row by row. */
typedef struct {
    uint64_t a_address; /* bytes, of the first element; any alignment */
    uint64_t w_address; /* of the matrix, or of its packed image if @NAME@_W_IS_IMAGE */
    uint64_t c_address;
    uint64_t p_address; /* column records, if post.columns */
    uint32_t a_stride;  /* bytes from one row to the next */
    uint32_t w_stride;  /* of W, or of its image, which has a row for each tile of k */
    uint32_t c_stride;
    uint32_t m;
    uint32_t k;
    uint32_t n;
/*% if formats|length > 1 %*/
    uint32_t format;   /* of A and W, @NAME@_FORMAT_... */
/*% endif %*/
    int after;         /* begin when all earlier jobs have finished */
    int least_traffic; /* blocks may take all of a buffer: fewer bytes, more cycles */
    @name@_post post;
} @name@_job;

/* How a product is cut into blocks. */
typedef struct {
    uint32_t m;  /* rows, a multiple of @NAME@_TILE_M */
    uint32_t k;  /* terms, a multiple of @NAME@_TILE_K */
    uint32_t n;  /* columns, a multiple of @NAME@_TILE_N */
    int m_inner; /* the loop over blocks of rows is the inner one */
    int a_whole; /* a block of A takes all of its buffer, not half */
    int w_whole;
} @name@_blocks;

/*% include "pieces/statuses.h" %*/

/* Put a job into the queue, cut as @name@_plan says; `ticket` is its number, or NULL. Nothing is
 * written if it is refused. */
int @name@_submit(const @name@_device *device, const @name@_job *job, uint32_t *ticket);

/* Find the blocks that move the fewest bytes. They depend on m, k, n, least_traffic, post.columns
 * and post.size alone, so that jobs of one kind need it once. It compares all pairs of block sizes that fit the
 * buffers, hundreds to thousands; large products and buffers take the longest. */
int @name@_plan(const @name@_job *job, @name@_blocks *blocks);

/* The same as @name@_submit with blocks that are known. */
int @name@_submit_blocks(const @name@_device *device, const @name@_job *job,
                         const @name@_blocks *blocks, uint32_t *ticket);

/*% include "pieces/queue.h" %*/

/*% include "pieces/end.h" %*/
