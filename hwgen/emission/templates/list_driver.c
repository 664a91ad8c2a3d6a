/* SPDX-License-Identifier: Apache-2.0 */
#include "@name@_driver.h"

enum {
@LIMITS@
};

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
    uint32_t value = get(device, low);

    return (uint64_t)get(device, low + 4u) << 32 | value;
}

int @name@_probe(const @name@_device *device)
{
    if (get(device, @NAME@_ID) != @NAME@_MAGIC || get(device, @NAME@_LAYOUT) != LAYOUT ||
        get(device, @NAME@_UNITS) != UNITS)
        return @NAME@_E_DEVICE;
    return @NAME@_OK;
}

int @name@_set(const @name@_device *device, uint32_t number, uint64_t value)
{
    if (number == 0u || number >= @NAME@_LIST_REGISTERS ||
        value > UINT64_MAX >> (64 - @NAME@_ADDRESS_BITS))
        return @NAME@_E_REGISTER;
    put_wide(device, @NAME@_R1_LOW + 8u * (number - 1u), value);
    return @NAME@_OK;
}

uint64_t @name@_get(const @name@_device *device, uint32_t number)
{
    if (number == 0u || number >= @NAME@_LIST_REGISTERS)
        return 0u;
    return get_wide(device, @NAME@_R1_LOW + 8u * (number - 1u));
}

int @name@_start(const @name@_device *device, const @name@_list *list)
{
    uint64_t last = UINT64_MAX >> (64 - @NAME@_ADDRESS_BITS);
    uint64_t bytes = (uint64_t)list->descriptors * @NAME@_DESCRIPTOR_BYTES;

    if (list->address % @NAME@_LIST_ALIGN_BYTES != 0u || list->descriptors == 0u ||
        list->descriptors > MOST_DESCRIPTORS || list->address > last ||
        bytes - 1u > last - list->address)
        return @NAME@_E_ADDRESS;
    if ((get(device, @NAME@_STATUS) & @NAME@_STATUS_BUSY_MASK) != 0u)
        return @NAME@_E_BUSY;
    put_wide(device, @NAME@_LIST_ADDRESS_LOW, list->address);
    put(device, @NAME@_LIST_LENGTH, list->descriptors);
    put(device, @NAME@_STEP_LIMIT, list->step_limit);
    put(device, @NAME@_INTERRUPT, 1u);
    put(device, @NAME@_START, 1u);
    return @NAME@_OK;
}

int @name@_poll(const @name@_device *device)
{
    uint32_t status = get(device, @NAME@_STATUS);

    if ((status & @NAME@_STATUS_BUSY_MASK) != 0u)
        return @NAME@_PENDING;
    switch ((status & @NAME@_STATUS_STATE_MASK) >> @NAME@_STATUS_STATE_SHIFT) {
    case @NAME@_LIST_IDLE:
        return @NAME@_E_NONE;
    case @NAME@_LIST_DONE:
        return @NAME@_OK;
@CASES@
    default:
        return @NAME@_PENDING;
    }
}

int @name@_wait(const @name@_device *device, uint32_t polls)
{
    for (;;) {
        int status = @name@_poll(device);

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

uint32_t @name@_index(const @name@_device *device)
{
    return get(device, @NAME@_INDEX);
}

uint64_t @name@_cycles(const @name@_device *device)
{
    return get_wide(device, @NAME@_CYCLES_LOW);
}

const char *@name@_message(int status)
{
    switch (status) {
    case @NAME@_OK:
        return "done";
    case @NAME@_PENDING:
        return "not finished";
    case @NAME@_E_TIMEOUT:
        return "not finished in time";
    case @NAME@_E_BUSY:
        return "another list runs";
    case @NAME@_E_ADDRESS:
        return "misaligned, empty, or beyond the address space";
    case @NAME@_E_REGISTER:
        return "no such register of lists, or a value wider than it";
    case @NAME@_E_DEVICE:
        return "no such engine";
    case @NAME@_E_NONE:
        return "no list was started";
@MESSAGES@
    default:
        return "unknown status";
    }
}
