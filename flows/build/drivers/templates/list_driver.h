/* SPDX-License-Identifier: Apache-2.0 */
/*% include "pieces/device.h" %*/

/* A command list in memory. */
typedef struct {
    uint64_t address;     /* a multiple of @NAME@_LIST_ALIGN_BYTES */
    uint32_t descriptors; /* of @NAME@_DESCRIPTOR_BYTES bytes each */
    uint32_t step_limit;  /* descriptors that are executed at most; 0: any number */
} @name@_list;

/*% include "pieces/statuses.h" %*/

/* Write register `number` of lists, 1 or more; they are kept between lists. */
int @name@_set(const @name@_device *device, uint32_t number, uint64_t value);

/* Return a register of lists; 0 of one that is not there. */
uint64_t @name@_get(const @name@_device *device, uint32_t number);

/* Start a list. */
int @name@_start(const @name@_device *device, const @name@_list *list);

/* Look how the last list is: PENDING, OK or how it has ended. */
int @name@_poll(const @name@_device *device);

/* Poll until the list has ended, at most `polls` times more than once. */
int @name@_wait(const @name@_device *device, uint32_t polls);

/* End the list and all unfinished jobs. They have ended when `@name@_wait` says so. */
void @name@_abort(const @name@_device *device);

/* Return the descriptor at which the last list ended. */
uint32_t @name@_index(const @name@_device *device);

/* Return the cycles of the last list so far. */
uint64_t @name@_cycles(const @name@_device *device);

/*% include "pieces/end.h" %*/
