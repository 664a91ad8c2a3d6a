/* SPDX-License-Identifier: Apache-2.0 */
/* Set the stack, clear what C expects to be 0, and call main. */
    .section .start
    .global _start
_start:
    la sp, stack_top
    la t0, zero_begin
    la t1, zero_end
1:  bgeu t0, t1, 2f
    sw zero, 0(t0)
    addi t0, t0, 4
    j 1b
2:  call main
3:  j 3b
