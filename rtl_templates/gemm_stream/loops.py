# SPDX-License-Identifier: Apache-2.0
"""Loops in hardware: over the blocks of a job, and over the beats of a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Const, Module, Mux, Signal, Value, ValueLike

if TYPE_CHECKING:
    from hwgen.core.loop_nest import LoopNest, Loops


class Axis:
    """Blocks along M, K or N of a job: what is left, in elements and in tiles of the cores.

    Parameters
    ----------
    m : Module
    name : str
        ``m``, ``k`` or ``n``.
    job : View
        Of the job's descriptor.

    Attributes
    ----------
    size, tiles : Value
        Of the block at hand.
    last : Signal
        Whether it is the last one along the axis.
    many : Signal
        Whether there is more than one.
    """

    def __init__(self, m: Module, name: str, job: Any) -> None:
        self._m = m
        self._all = job[name], job[f"{name}t"]
        self._block = job[f"{name}b"], job[f"{name}bt"]
        self._left = [
            Signal(len(value), name=f"{name}{kind}_left", reset_less=True)
            for value, kind in zip(self._all, ("", "t"), strict=True)
        ]
        self.last, self.many = Signal(name=f"{name}_last"), Signal(name=f"{name}_many")
        m.d.comb += [
            self.last.eq(self._left[1] <= self._block[1]),
            self.many.eq(self._all[1] > self._block[1]),
        ]
        self.size, self.tiles = (
            Mux(self.last, left, block) for left, block in zip(self._left, self._block, strict=True)
        )

    def begin(self) -> None:
        """Go to the first block, in the statement context at hand."""
        self._m.d.sync += [left.eq(all_) for left, all_ in zip(self._left, self._all, strict=True)]

    def step(self) -> None:
        """Go to the next block, from the last one to the first."""
        self._m.d.sync += [
            left.eq(Mux(self.last, all_, left - block))
            for left, all_, block in zip(self._left, self._all, self._block, strict=True)
        ]


class BlockSteps:
    """The steps of a job: the blocks of the reduction for each block of C.

    Parameters
    ----------
    m : Module
    job : View
        Of the job's descriptor; stable from `begin` to the last `advance`.
    reduction : bool
        Whether the blocks of a reduction are steps, or all of them are one.

    Attributes
    ----------
    m, k, n : Axis
    first : Signal
        Whether the step begins the reduction of its block of C; ``k.last`` says that it ends it.
    last : Signal
        Whether it is the last step of the job.
    loads_a, loads_w : Signal
        Whether the step needs another block of A, of W, than the one before.
    frees_a, frees_w : Value
        Whether the step after needs another one.
    m_moves, n_moves : Value
        Whether the step after is in another row, another column of blocks, or begins again with
        the first.
    """

    def __init__(self, m: Module, job: Any, *, reduction: bool = True) -> None:
        self._m, self._job = m, job
        self.m, self.k, self.n = (Axis(m, name, job) for name in ("m", "k", "n"))
        k_last: Value = self.k.last if reduction else Const(1)
        k_many: Value = self.k.many if reduction else Const(0)
        self.first, self.last = Signal(name="first_k"), Signal(name="last_step")
        self.loads_a, self.loads_w = Signal(name="loads_a"), Signal(name="loads_w")
        inner = job.m_inner
        self.m_moves = k_last & (inner | self.n.last)
        self.n_moves = k_last & (~inner | self.m.last)
        m.d.comb += self.last.eq(k_last & self.m.last & self.n.last)
        self._other_a = k_many | (self.m_moves & self.m.many)
        self._other_w = k_many | (self.n_moves & self.n.many)
        self.frees_a, self.frees_w = self.last | self._other_a, self.last | self._other_w

    def begin(self) -> None:
        """Go to the first step, in the statement context at hand."""
        for axis in (self.m, self.k, self.n):
            axis.begin()
        self._m.d.sync += [self.first.eq(1), self.loads_a.eq(1), self.loads_w.eq(1)]

    def advance(self) -> None:
        """Go to the next step."""
        self.k.step()
        with self._m.If(self.m_moves):
            self.m.step()
        with self._m.If(self.n_moves):
            self.n.step()
        self._m.d.sync += [
            self.first.eq(self.k.last),
            self.loads_a.eq(self._other_a),
            self.loads_w.eq(self._other_w),
        ]

    def counts(
        self,
        nest: LoopNest,
        k_beats: ValueLike | None = None,
        weight_rows: ValueLike | None = None,
    ) -> Mapping[str, Value]:
        """Return the counts of a block that `LoopNest` names.

        `k_beats` and `weight_rows` are those of the nest, unless they depend on a job.
        """
        k_beats = nest.k_beats if k_beats is None else k_beats
        weight_rows = nest.weight_rows if weight_rows is None else weight_rows
        k_tiles, columns = Value.cast(self.k.tiles), Value.cast(self.n.tiles)
        return {
            "rows": Value.cast(self.m.size),
            "row_tiles": Value.cast(self.m.tiles),
            "tile_rows": Value.cast(nest.m_lanes),
            "k_tiles": k_tiles,
            "k_beats": k_tiles * k_beats,
            "weight_rows": k_tiles * weight_rows,
            "column_tiles": columns,
            "weight_beats": columns * nest.weight_beats,
        }


class AddressLoops:
    """The addresses of the beats of a block: counted loops, each with a stride of its own.

    Parameters
    ----------
    m : Module
    loops : Loops
        As a `LoopNest` has them.
    counts, strides : mapping
        The values of their names; stable while the loops run.
    address_width : int

    Attributes
    ----------
    address : Signal
        Of the beat at hand.
    ends, last : Signal
        Whether it is the last one of the innermost loop; of all loops.
    """

    def __init__(
        self,
        m: Module,
        loops: Loops,
        counts: Mapping[str, Value],
        strides: Mapping[str, ValueLike],
        address_width: int,
    ) -> None:
        self._m = m
        # Registers: counts and strides come out of multiplexers and small multiplications.
        self._counts, self._strides, self._left = [], [], []
        self._at: list[Signal] = []
        self._loads = []
        for level, (count, stride) in enumerate(loops):
            size = len(counts[count])
            register = Signal(size, name=f"count_{level}", reset_less=True)
            self._counts.append(register)
            self._loads.append((register, counts[count]))
            value: Value = Value.cast(strides[stride])
            if stride not in ("nothing", "beat"):
                value = Signal(address_width, name=f"stride_{level}", reset_less=True)
                self._loads.append((value, strides[stride]))
            self._strides.append(value)
            self._left.append(Signal(size, name=f"left_{level}", reset_less=True))
            self._at.append(Signal(address_width, name=f"at_{level}", reset_less=True))
        self.address = self._at[-1]
        self._lasts = [Signal(name=f"last_{level}") for level in range(len(loops))]
        m.d.comb += [last.eq(left == 1) for last, left in zip(self._lasts, self._left, strict=True)]
        self.ends = self._lasts[-1]
        self.last = Signal(name="walk_last")
        m.d.comb += self.last.eq(_all(self._lasts))

    def begin(self, base: ValueLike) -> None:
        """Go to the first beat, at address `base`, in the statement context at hand."""
        self._m.d.sync += [register.eq(value) for register, value in self._loads]
        loaded = dict((id(register), value) for register, value in self._loads)
        self._m.d.sync += [
            left.eq(loaded[id(count)]) for left, count in zip(self._left, self._counts, strict=True)
        ]
        self._m.d.sync += [at.eq(base) for at in self._at]

    def advance(self) -> None:
        """Go to the next beat."""
        for level in reversed(range(len(self._at))):
            inner = _all(self._lasts[level + 1 :])
            with self._m.If(inner & ~self._lasts[level]):
                moved = self._at[level] + self._strides[level]
                self._m.d.sync += [at.eq(moved) for at in self._at[level:]]
                self._m.d.sync += self._left[level].eq(self._left[level] - 1)
                self._m.d.sync += [
                    left.eq(count)
                    for left, count in zip(
                        self._left[level + 1 :], self._counts[level + 1 :], strict=True
                    )
                ]


def _all(bits: Sequence[Value]) -> Value:
    result: Value = Value.cast(1)
    for bit in bits:
        result = result & bit
    return result
