/* Put a job of the program into the queue, if there is room. */
static int submit(const @name@_host *host, uint32_t job, uint32_t *ticket)
{
    const @name@_device *device = host->device;
    const uint32_t *words = (const uint32_t *)host->program + (size_t)job * @NAME@_MODEL_JOB_WORDS;
    uint32_t state = device->read(device->context, @NAME@_STATUS), number, i;

    if ((state & @NAME@_STATUS_FREE_MASK) == 0u || (state & @NAME@_STATUS_STOPPING_MASK) != 0u)
        return @NAME@_E_FULL;
    number = device->read(device->context, @NAME@_SUBMITTED);
    for (i = 0; i < @NAME@_MODEL_JOB_WORDS; i++)
        device->write(device->context, @NAME@_MODEL_JOB_WINDOW + 4u * i, words[i]);
    device->write(device->context, @NAME@_SUBMIT, 1u);
    if (device->read(device->context, @NAME@_SUBMITTED) == number)
        return @NAME@_E_FULL;
    *ticket = number;
    return @NAME@_OK;
}
