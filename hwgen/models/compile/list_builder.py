# SPDX-License-Identifier: Apache-2.0
"""From operations on arrays in memory to command lists.

A `ListBuilder` appends jobs of an engine's units to a program.  It knows which arrays each job
reads and writes, so that a job waits for the units that it depends on and for no others, and writes
only those registers of a job window that differ from what they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from hwgen.core.lists.commands import Program
from hwgen.core.operation import GEMM, Operation
from hwgen.errors import InputError
from hwgen.families.gemm_stream.schedule import Job, plan_of
from hwgen.families.stream_engine.jobs import TAIL, RowRegion, StreamJob
from hwgen.families.vector.schedule import command, constants, pack_parameters, parameter_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.families.transformer.params import TransformerConfig

    ListEngine = TransformerConfig

_GAP = 4
"""Registers that are written again rather than begin another WINDOW."""


@dataclass(frozen=True)
class Number:
    """A number that depends on a register: ``r[register] + constant``."""

    constant: int
    register: int = 0


@dataclass(frozen=True)
class Rows:
    """Rows of an array in memory.

    Parameters
    ----------
    array : str
        Name: jobs that name the same one wait for each other.
    address : int
        Of the first row, less what `register` holds.
    rows, blocks, stride, step : int
        See `hwgen.families.stream_engine.jobs.RowRegion`; `stride` -1: rows follow each other.
    register : int
        Register of lists that is added to the address.
    """

    array: str
    address: int
    rows: int = 1
    stride: int = -1
    blocks: int = 1
    step: int = 0
    register: int = 0

    def place(self, row_bytes: int) -> RowRegion:
        """Return the place of rows of so many bytes, without the register."""
        stride = row_bytes if self.stride < 0 else self.stride
        return RowRegion(self.address, row_bytes, self.rows, stride, self.blocks, self.step)


@dataclass(frozen=True)
class Pages:
    """Pages in which rows of keys and values lie.

    Parameters
    ----------
    table : int
        Address of the table of pages.
    keys : int
        Keys of a page.
    count : Number
        Pages that go past.
    """

    table: int
    keys: int
    count: Number


class Offer(NamedTuple):
    """A unit, and its name of the operation that it offers."""

    unit: str
    operation: str


@dataclass
class _Pending:
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)


class ListBuilder:
    """A command list under construction.

    Parameters
    ----------
    config : ListEngine

    Attributes
    ----------
    program : Program
        What is built; descriptors that are no jobs go to it directly.
    submitted : list of (int, str)
        The descriptor and the unit of each job, in order.
    """

    def __init__(self, config: ListEngine) -> None:
        self.config = config
        self.program = Program(list(config.units), config.lists.registers)
        self.submitted: list[tuple[int, str]] = []
        self._written: dict[str, dict[int, int]] = {name: {} for name in config.units}
        self._pending = {name: _Pending() for name in config.units}

    def offer(self, operation: str, multiple: int = 0, **formats: str) -> Offer:
        """Return the first unit that offers an operation, with operands or results of formats.

        Parameters
        ----------
        operation : str
        multiple : int
            What the length of its rows must be a multiple of, if that matters.
        **formats : str
            Names of formats by the name of an operand or result.

        Raises
        ------
        InputError
            If there is none.
        """
        for name, unit in self.config.units.items():
            for offered in unit.operations:
                offered_formats = {
                    t.name: t.format.name for t in (*offered.operands, *offered.results)
                }
                fits = not multiple or offered.block == multiple
                if (
                    offered.common_name == operation
                    and fits
                    and formats.items() <= offered_formats.items()
                ):
                    return Offer(str(name), offered.name)
        wanted = ", ".join(f"{key} {value}" for key, value in formats.items())
        if multiple:
            wanted += f" in blocks of {multiple}"
        raise InputError(f"no unit of {self.config.name!r} offers {operation} with {wanted or '-'}")

    def forget(self) -> None:
        """Assume nothing about job windows from here on: a label that lists branch to."""
        for written in self._written.values():
            written.clear()

    def label(self, name: str) -> None:
        """Set a label; all units have finished there."""
        self.wait()
        self.forget()
        self.program.label(name)

    def wait(self) -> None:
        """Wait for all units."""
        self.program.wait()
        self._pending = {name: _Pending() for name in self.config.units}

    # -- jobs ------------------------------------------------------------------------------

    def submit(
        self,
        unit: str,
        writes: Iterable[tuple[int, int]],
        numbers: Mapping[str, Number],
        *,
        reads: Iterable[str],
        results: Iterable[str],
    ) -> None:
        """Append a job.

        Parameters
        ----------
        unit : str
        writes : iterable of (offset, value)
            The whole job window.
        numbers : mapping of Number
            Registers whose contents depend on registers of the list; of addresses and others that
            have two, the name without ``_LOW``.
        reads, results : iterable of str
            Arrays that the job reads, and that it writes.
        """
        interface = self.config.units[unit].job_interface
        offsets = {register.name: register.offset for register in interface.window}
        needs, gives = set(reads), set(results)
        after = []
        for name, pending in self._pending.items():
            if needs & pending.writes or gives & (pending.reads | pending.writes):
                after.append(name)
        wanted = dict(writes)
        if unit in after:
            flag = next(flag for flag in interface.flags if flag.name == "after")
            wanted[offsets["JOB_FLAGS"]] |= 1 << flag.offset
            after.remove(unit)
        puts = []
        for name, number in numbers.items():
            wide = f"{name}_LOW" in offsets
            offset = offsets[f"{name}_LOW" if wide else name]
            puts.append((offset, number, wide))
            for each in (offset, offset + 4)[: 1 + wide]:
                wanted.pop(each)
                self._written[unit].pop(each, None)
        self._window(unit, wanted)
        for offset, number, wide in puts:
            self.program.put(unit, offset, number.register, value=number.constant, wide=wide)
        self.submitted.append((len(self.program), unit))
        self.program.submit(unit, after=after)
        for name in after:
            self._pending[name] = _Pending()
        self._pending[unit].reads |= needs
        self._pending[unit].writes |= gives

    def _window(self, unit: str, wanted: Mapping[int, int]) -> None:
        """Write what differs from what the window holds, in as few pieces as is worth it."""
        written = self._written[unit]
        run: list[int] = []
        for offset in sorted(wanted):
            near = run and offset - run[-1] <= 4 * _GAP
            between = range(run[-1] + 4, offset, 4) if run else range(0)
            if written.get(offset) == wanted[offset]:
                continue
            if run and not (near and all(each in wanted for each in between)):
                self._run(unit, run[0], run[-1], wanted)
                run = []
            run.append(offset)
        if run:
            self._run(unit, run[0], run[-1], wanted)
        written.update(wanted)

    def _run(self, unit: str, first: int, last: int, wanted: Mapping[int, int]) -> None:
        self.program.window(unit, first, [wanted[at] for at in range(first, last + 4, 4)])

    # -- operations ------------------------------------------------------------------------

    def gemm(self, a: Rows, w: Rows, c: Rows, k: int, n: int, *, unit: str | None = None) -> None:
        """Append ``C = A W``: accumulators of `a.rows` rows.

        Parameters
        ----------
        a, w, c : Rows
            W as `hwgen.families.gemm_stream.schedule.Plan.pack_weights` has it, its rows one
            behind the other.
        k, n : int
        unit : str, optional
            By default the first one that multiplies.
        """
        name = unit or self.offer(GEMM).unit
        plan = plan_of(self.config.units[name], a.rows, k, n)
        stride = {key: None if rows.stride < 0 else rows.stride
                  for key, rows in (("a", a), ("w", w), ("c", c))}  # fmt: skip
        job = Job(
            plan, a_address=a.address, w_address=w.address, c_address=c.address,
            a_stride=stride["a"], w_stride=stride["w"], c_stride=stride["c"],
        )  # fmt: skip
        numbers = {
            f"{key}_ADDRESS": Number(rows.address, rows.register)
            for key, rows in (("A", a), ("W", w), ("C", c))
            if rows.register
        }
        self.submit(name, job.writes(), numbers, reads=(a.array, w.array), results=(c.array,))

    def rows(
        self,
        offer: Offer,
        length: int,
        arrays: Mapping[str, Rows],
        scalars: Mapping[str, float] | None = None,
    ) -> None:
        """Append a row operation of a vector unit.

        Parameters
        ----------
        offer : Offer
        length : int
            Of a row.
        arrays : mapping of Rows
            Operands and results by name; a ``gamma`` for all rows with a stride of 0.
        scalars : mapping of float, optional

        Raises
        ------
        InputError
            If the rows of the unit are shorter.
        """
        from hwgen.families.vector.operations import CODES

        unit, operation = offer
        config: Any = self.config.units[unit]
        offered: Operation = next(o for o in config.operations if o.name == operation)
        x = arrays["x"]
        most = next(size.most for size in offered.sizes if size.name == "length")
        if length > most:
            limit, _ = config.compute.row_limit(config.compute.datapaths[operation])
            raise InputError(
                f"{operation} of rows of {length} elements: those of the unit {unit} have at most"
                f" {most}; raise units.{unit}.compute.array.{limit} to {length} or more"
            )
        offered.check_sizes({"rows": x.rows * x.blocks, "length": length})
        values = offered.check_scalars(scalars or {})
        c1, c2 = constants(config.compute, offered, length, values)
        beat = command(CODES[operation], x.rows * x.blocks, length, c1, c2).tobytes()
        places, numbers = {}, {}
        first, *others = offered.results
        ports = {tensor.name: tensor.port for tensor in offered.operands}
        ports |= {first.name: first.port, **{tensor.name: TAIL for tensor in others}}
        operands = [tensor for tensor in offered.operands if tensor.name != "beta"]
        for tensor in (*operands, *offered.results):  # beta shares the beats of gamma
            per_row = tensor.shape == ("rows",)
            size = (1 if per_row else length) * tensor.format.lane_width // 8
            port = ports[tensor.name]
            if port == "p":
                size = parameter_row_bytes(config.compute, length)
            places[port] = arrays[tensor.name].place(size)
            if arrays[tensor.name].register:
                each = arrays[tensor.name]
                numbers[f"{port.upper()}_ADDRESS"] = Number(each.address, each.register)
        job = StreamJob(config, {"cmd": beat}, places)
        self.submit(
            unit, job.writes(), numbers,
            reads=[arrays[tensor.name].array for tensor in operands],
            results=[arrays[tensor.name].array for tensor in offered.results],
        )  # fmt: skip

    def attention(
        self,
        arrays: Mapping[str, Rows],
        *,
        unit: str,
        queries: int,
        group: int,
        keys: Number,
        key_bytes: Number,
        last: Number,
        scale_bytes: Number | None = None,
        causal: bool = True,
        first: Number | None = None,
        pages: Pages | None = None,
    ) -> None:
        """Append the attention of some queries of a head of keys.

        Parameters
        ----------
        arrays : mapping of Rows
            ``query``, its rows those of the group's heads, its blocks the queries, ``query_scale``,
            ``key``, ``value``, and ``output``, as the query; of a unit with scales of keys also
            ``key_scale`` and ``value_scale``.  Rows of keys lie one behind the other.
        unit : str
        queries, group : int
            Together no more rows than the unit has.
        keys : Number
            Keys that go past.
        key_bytes : Number
            Their bytes, of all rows together.
        last : Number
            The key behind the last one that the first query looks at.
        scale_bytes : Number, optional
            Bytes of the scales of those keys.
        causal : bool
            Whether each further query looks at one more.
        first : Number, optional
            The first key that the first query looks at, below 0 too, each further query at one
            less; by default all look at all before theirs.
        pages : Pages, optional
            Where keys, values and scales lie, by their addresses the first page's; `key_bytes` and
            `scale_bytes` are then those of the last page.
        """
        import numpy as np

        from hwgen.families.attention.params import FIRST_MOVES, LAST_MOVES

        config: Any = self.config.units[unit]
        core = config.compute
        if (core.key_scale is None) != (scale_bytes is None):
            wanted = "none" if scale_bytes is None else "token or block"
            raise InputError(
                f"unit {unit!r} of a list must have scales: {wanted}, not {core.scales}"
            )
        moves = LAST_MOVES * causal | FIRST_MOVES * (first is not None)
        begin = first or Number(0)
        words = [queries * group, keys.constant, group, begin.constant, last.constant, moves]
        ports = {port.name: port for port in core.ports}
        places, numbers = {}, {"COMMAND_1": keys, "COMMAND_3": begin, "COMMAND_4": last}
        for name, rows in arrays.items():
            port = "out" if name == "output" else name
            size = ports[port].beat_bytes * (1 if name.endswith("_scale") else core.steps)
            of_keys = key_bytes if name in ("key", "value") else None
            if name in ("key_scale", "value_scale"):
                of_keys = scale_bytes
            if of_keys is None:
                places[port] = rows.place(size)
            elif pages is not None:
                whole, count = size * pages.keys, max(1, pages.count.constant)
                ends = whole if of_keys.register else of_keys.constant
                places[port] = RowRegion.paged(
                    rows.address, whole, [0] * count, pages.table, last=ends
                )
                numbers |= {f"{port.upper()}_BLOCKS": pages.count, f"{port.upper()}_LAST": of_keys}
            else:  # all rows as one
                places[port] = rows.place(of_keys.constant)
                numbers[f"{port.upper()}_BYTES"] = of_keys
            if rows.register:
                numbers[f"{port.upper()}_ADDRESS"] = Number(rows.address, rows.register)
        beat = np.array(words, "<i4").tobytes()
        job = StreamJob(config, {"command": beat}, places)
        self.submit(
            unit, job.writes(), {n: v for n, v in numbers.items() if v.register},
            reads=[rows.array for name, rows in arrays.items() if name != "output"],
            results=[arrays["output"].array],
        )  # fmt: skip


def parameter_row_bytes(compute: Any, length: int) -> int:
    """Return the bytes in memory of a row of parameters of a vector unit."""
    return parameter_bytes(compute, length)


def parameter_rows(compute: Any, *rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows of parameters as a vector unit reads them; a second array shares the beats."""
    return pack_parameters(compute, *rows)
