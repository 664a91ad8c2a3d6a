static uint32_t get(const @name@_device *device, uint32_t offset)
{
    return device->read(device->context, offset);
}

static void put(const @name@_device *device, uint32_t offset, uint32_t value)
{
    device->write(device->context, offset, value);
}

static void put_wide(const @name@_device *device, uint32_t low, uint64_t value)
{
    put(device, low, (uint32_t)(value & 0xFFFFFFFFu));
    put(device, low + 4u, (uint32_t)(value >> 32));
}

static uint64_t get_wide(const @name@_device *device, uint32_t low)
{
    /* Reading the lower word keeps the upper one. */
    uint32_t value = get(device, low);

    return (uint64_t)get(device, low + 4u) << 32 | value;
}
