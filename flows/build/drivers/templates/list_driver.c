/* SPDX-License-Identifier: Apache-2.0 */
#include "@name@_driver.h"

enum {
/*% for limit, value in limits.items() %*/
    @limit@ = @value@@"," if not loop.last else ""@
/*% endfor %*/
};

/*% include "pieces/access.c" %*/

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
/*% for state, error in ends %*/
    case @NAME@_@state@:
        return @NAME@_E_@error@;
/*% endfor %*/
    default:
        return @NAME@_PENDING;
    }
}

/*% include "pieces/wait.c" %*/

uint32_t @name@_index(const @name@_device *device)
{
    return get(device, @NAME@_INDEX);
}

uint64_t @name@_cycles(const @name@_device *device)
{
    return get_wide(device, @NAME@_CYCLES_LOW);
}

/*% include "pieces/message.c" %*/
