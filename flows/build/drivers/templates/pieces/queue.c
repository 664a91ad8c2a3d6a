/* Whether the queue takes a job; `number` becomes the one that it would have. */
static int has_room(const @name@_device *device, uint32_t *number)
{
    uint32_t state = get(device, @NAME@_STATUS);

    *number = get(device, @NAME@_SUBMITTED);
    return (state & @NAME@_STATUS_FREE_MASK) != 0u && (state & @NAME@_STATUS_STOPPING_MASK) == 0u;
}

/* Submit the job whose registers are written. */
static int enter(const @name@_device *device, uint32_t number, uint32_t *ticket)
{
    put(device, @NAME@_SUBMIT, 1u);
    /* The engine refuses a job if an error has begun to end others in the meantime. */
    if (get(device, @NAME@_SUBMITTED) == number)
        return @NAME@_E_FULL;
    if (ticket != NULL)
        *ticket = number;
    return @NAME@_OK;
}

int @name@_poll(const @name@_device *device, uint32_t ticket)
{
    uint32_t finished = get(device, @NAME@_FINISHED);
    uint32_t slot = ticket % @NAME@_QUEUE_SLOTS;
    uint32_t state = get(device, @NAME@_JOB_STATUS_0 + 4u * slot);
    uint32_t ahead = get(device, @NAME@_SUBMITTED) - ticket;

    /* Numbers wrap around, so that only their distance counts. */
    if (ahead == 0u || ahead > 0x80000000u)
        return @NAME@_E_TICKET;
    if (finished == ticket || finished - ticket > 0x80000000u)
        return @NAME@_PENDING;
    if (ahead > @NAME@_QUEUE_SLOTS)
        return @NAME@_E_LOST;
    switch (state) {
    case @NAME@_JOB_DONE:
        return @NAME@_OK;
/*% for state, error in ends %*/
    case @NAME@_@state@:
        return @NAME@_E_@error@;
/*% endfor %*/
    default:
        return @NAME@_PENDING;
    }
}

/*% include "pieces/wait.c" %*/

uint64_t @name@_counter(const @name@_device *device, uint32_t low)
{
    return get_wide(device, low);
}
