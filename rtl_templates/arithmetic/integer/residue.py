# SPDX-License-Identifier: Apache-2.0
"""Arithmetic modulo 2^k - 1, whose digits in base 2^k all have weight 1.

A residue has k bits.  The modulus itself stands for 0 as well: sums and products then need no
comparison, as a carry out of the k bits is added below them.  No power of two is a multiple of the
modulus, so that an error of a single bit changes a residue.
"""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value

from hwgen.core.residues import MODULUS, RESIDUE_BITS

STAGE_WORDS = 8
"""Residues that are summed between two registers, at most."""


def add_residues(m: Module, name: str, residues: Sequence[Value]) -> Signal:
    """Return the residue of a sum of residues.

    Parameters
    ----------
    m : Module
    name : str
        Of the result, and prefix of sums on the way to it.
    residues : sequence of Value
        Words of k bits at most.
    """
    words, bound, step = list(residues), len(residues) * MODULUS, 0
    while True:
        total = Signal(bound.bit_length(), name=f"{name}_sum_{step}")
        m.d.comb += total.eq(_tree(words))
        if bound <= MODULUS:
            break
        words = [total[at : at + RESIDUE_BITS] for at in range(0, len(total), RESIDUE_BITS)]
        # The largest sum of the digits of a number up to the bound, if there are two.
        high, low = divmod(bound, MODULUS + 1)
        bound = max(high + low, high - 1 + MODULUS) if len(words) == 2 else len(words) * MODULUS
        step += 1
    result = Signal(RESIDUE_BITS, name=name)
    m.d.comb += result.eq(total)
    return result


def multiply_residues(m: Module, x: Value, y: Value) -> Signal:
    """Return the residue of a product of residues."""
    whole = Signal(2 * RESIDUE_BITS, name="whole_product")
    m.d.comb += whole.eq(x * y)
    return add_residues(m, "residue_product", [whole[:RESIDUE_BITS], whole[RESIDUE_BITS:]])


def lane_words(lane: Value, *, signed: bool) -> tuple[list[Value], int]:
    """Return words of k bits and a constant whose sum has the residue of a number.

    Parameters
    ----------
    lane : Value
        The bits of the number.
    signed : bool
        Whether it is in two's complement: ``-2**j`` times the sign is ``2**j`` times its inverse,
        minus ``2**j``.
    """
    bits, constant = lane, 0
    if signed:
        bits = Cat(lane[:-1], ~lane[-1])
        constant = -(1 << (len(lane) - 1)) % MODULUS
    return [bits[at : at + RESIDUE_BITS] for at in range(0, len(bits), RESIDUE_BITS)], constant


def rotate_word(word: Value, exponent: int) -> Value:
    """Return a word of up to k bits times ``2**exponent``."""
    count = exponent % RESIDUE_BITS
    if not count:
        return word
    return Cat(word, Const(0, RESIDUE_BITS - len(word))).rotate_left(count)


def ternary_words(lane: Value) -> tuple[list[Value], int]:
    """Return the same of a ternary weight; bit 0 says that it is not 0, bit 1 that it is -1."""
    minus = lane[0] & lane[1]
    return [Cat(lane[0] & ~lane[1], *[minus] * (RESIDUE_BITS - 1))], 0


def registers_of_sum(words: int) -> int:
    """Return the registers of `registered_sum` of so many words: one at least."""
    stages = 1
    while words > STAGE_WORDS:
        words, stages = -(-words // STAGE_WORDS), stages + 1
    return stages


def registered_sum(m: Module, name: str, words: Sequence[Value], constant: int) -> Signal:
    """Return the residue of a sum of words, ``registers_of_sum(len(words))`` cycles later.

    Parameters
    ----------
    m : Module
    name : str
        Prefix of the registers.
    words : sequence of Value
        Of k bits at most.
    constant : int
        Added to the sum.
    """
    stage = 0
    words = list(words)
    while len(words) > STAGE_WORDS:
        registers = []
        for first in range(0, len(words), STAGE_WORDS):
            register = Signal(
                RESIDUE_BITS, name=f"{name}_{stage}_{first // STAGE_WORDS}", reset_less=True
            )
            part = words[first : first + STAGE_WORDS]
            m.d.sync += register.eq(add_residues(m, f"{register.name}_added", part))
            registers.append(register)
        words, stage = registers, stage + 1
    constant %= MODULUS
    if constant:
        words = [*words, Const(constant, RESIDUE_BITS)]
    result = Signal(RESIDUE_BITS, name=f"{name}_residue", reset_less=True)
    m.d.sync += result.eq(add_residues(m, f"{name}_added", words))
    return result


def residues_differ(a: Value, b: Value) -> Value:
    """Return whether two residues differ; both representations of 0 are equal."""
    return _canonical(a) != _canonical(b)


def _canonical(residue: Value) -> Value:
    return Mux(residue == MODULUS, 0, residue)


def _tree(values: Sequence[Value]) -> Value:
    """Return a sum by a tree of adders."""
    values = list(values)
    while len(values) > 1:
        pairs = [a + b for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]
