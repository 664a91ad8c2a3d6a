int @name@_wait(const @name@_device *device@", uint32_t ticket" if tickets else ""@, uint32_t polls)
{
    for (;;) {
        int status = @name@_poll(device@", ticket" if tickets else ""@);

        if (status != @NAME@_PENDING)
            return status;
        if (polls == 0u)
            return @NAME@_E_TIMEOUT;
        polls--;
    }
}

void @name@_abort(const @name@_device *device)
{
    put(device, @NAME@_ABORT, 1u);
}
