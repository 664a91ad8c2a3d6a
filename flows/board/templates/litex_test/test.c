/* SPDX-License-Identifier: Apache-2.0 */
/* Test of the engine by the processor of its SoC: jobs on operands in memory, each byte of memory
 * compared with the golden model's. */
#include <generated/csr.h>
#include <irq.h>

#include "@name@_litex.h"
#include "test_data.h"

static void put(char c)
{
    while (uart_txfull_read())
        ;
    uart_rxtx_write(c);
}

static void print(const char *text)
{
    for (; *text; text++)
        put(*text);
}

static void print_number(uint32_t value)
{
    char digits[10];
    int count = 0;

    do {
        digits[count++] = (char)('0' + value % 10u);
        value /= 10u;
    } while (value);
    while (count)
        put(digits[--count]);
}

/* Do an action of the host; return whether a register has what it should. */
static int act(const @name@_device *engine, const uint32_t *action)
{
    uint32_t offset = action[1], mask = action[2], value = action[3], polls = POLLS;

    switch (action[0]) {
    case ACTION_WRITE:
        engine->write(engine->context, offset, value);
        return 1;
    case ACTION_POLL:
        while ((engine->read(engine->context, offset) & mask) != value)
            if (!polls--)
                return 0;
        return 1;
    case ACTION_REACH:
        while ((int32_t)(engine->read(engine->context, offset) - value) < 0)
            if (!polls--)
                return 0;
        return 1;
    case ACTION_EXPECT:
        return (engine->read(engine->context, offset) & mask) == value;
    default:
        print("cycles of the engine: ");
        print_number(engine->read(engine->context, offset));
        print("\n");
        return 1;
    }
}

static void end(const char *text)
{
    print(text);
    for (volatile int wait = 0; wait < 2000; wait++)
        ;
#ifdef CSR_EXIT_BASE
    exit_end_write(1);
#endif
    for (;;)
        ;
}

int main(void)
{
    @name@_device engine = @name@_litex();
    volatile uint32_t *memory = (volatile uint32_t *)TEST_ADDRESS;
    uint32_t wrong = 0;

    if (@name@_probe(&engine) != @NAME@_OK)
        end("the engine is not there: FAILED\n");
    for (uint32_t i = 0; i < TEST_WORDS; i++)
        memory[i] = before[i];
    flush_cpu_dcache();
    engine_ev_enable_write(1);
#ifdef ENGINE_INTERRUPT
    irq_setmask(1u << ENGINE_INTERRUPT); /* what is pending can be read; no trap is taken */
#endif
    for (uint32_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (!act(&engine, actions[i])) {
            print("action ");
            print_number(i);
            end(" is not answered as it should be: FAILED\n");
        }
#if defined(ENGINE_INTERRUPT) && TEST_LEAVES_INTERRUPT
    if (!(irq_pending() >> ENGINE_INTERRUPT & 1u))
        end("no interrupt: FAILED\n");
#endif
    flush_cpu_dcache();
    for (uint32_t i = 0; i < TEST_WORDS; i++)
        wrong += memory[i] != after[i];
    print_number(TEST_WORDS);
    print(" words of memory, ");
    print_number(wrong);
    print(" of them wrong\n");
    end(wrong ? "FAILED\n" : "PASSED\n");
    return 0;
}
