# SPDX-License-Identifier: Apache-2.0
"""A core whose results are checked by a small core of residues, some cycles later.

The core of residues has the sequencer and the buffers of the one that it checks, so that both
transfer the same beats, at a fixed distance.  Its operands are the residues of the lanes of a beat,
those of the stationary or the column operand summed, and its results those of the sum of a beat of
results.  Residues that differ, or handshakes, are an error; `rtl_templates.hdl.protection` connects
the wire `MISMATCH`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from amaranth.hdl import Cat, Const, Module, ResetSignal, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from hwgen.core.residues import RESIDUE_BITS
from rtl_templates.arithmetic.integer.residue import (
    lane_words,
    registered_sum,
    registers_of_sum,
    residues_differ,
    rotate_word,
)
from rtl_templates.arithmetic.pipeline import delayed
from rtl_templates.hdl.core_block import Core
from rtl_templates.hdl.hierarchy import Block, place
from rtl_templates.hdl.protection import MISMATCH
from rtl_templates.hdl.shell import stream_members
from rtl_templates.hdl.streams import Stream, fields, new_stream

if TYPE_CHECKING:
    from hwgen.core.params.block_core import BlockProductConfig
    from hwgen.core.port import StreamPort

Words = Callable[[Value], tuple[list[Value], int]]
"""Words and a constant whose sum has the residue of a lane."""


@dataclass(frozen=True)
class ResidueLanes:
    """Residues of the lanes of a beat of an input port.

    Parameters
    ----------
    groups : tuple of tuple of int
        For each lane of the core of residues, the lanes whose sum it is of.
    words : callable
        Of the code of a lane.
    """

    groups: tuple[tuple[int, ...], ...]
    words: Words

    @classmethod
    def single(cls, port: StreamPort, words: Words | None = None) -> ResidueLanes:
        """Return those of a port each of whose lanes has a residue."""
        return cls(tuple((lane,) for lane in range(port.lanes)), words or words_of(port.format))

    @classmethod
    def summed(cls, port: StreamPort, terms: int = 1, words: Words | None = None) -> ResidueLanes:
        """Return those of a port whose columns are summed, each of `terms` neighbouring lanes."""
        groups = tuple(tuple(range(term, port.lanes, terms)) for term in range(terms))
        return cls(groups, words or words_of(port.format))


def words_of(fmt: Any) -> Words:
    """Return the words of an integer format."""
    return lambda lane: lane_words(lane, signed=fmt.signed)


def residue_checked(
    config: BlockProductConfig,
    core: wiring.Component,
    make_checker: Callable[[], tuple[wiring.Component, Mapping[str, ResidueLanes]]],
) -> wiring.Component:
    """Return a core with a check of its results by residues if its configuration asks for that.

    Parameters
    ----------
    config : BlockProductConfig
    core : Component
    make_checker : callable
        Returns the core of residues, and what its operands are, by port.
    """
    if config.protect.datapath != "residue":
        return core
    return ResidueCheckedCore(config, core, *make_checker())


class ResidueCheckedCore(wiring.Component):
    """A core and the check of its results; it has the ports of the core."""

    def __init__(
        self,
        config: BlockProductConfig,
        core: wiring.Component,
        checker: wiring.Component,
        lanes: Mapping[str, ResidueLanes],
    ) -> None:
        self.config: Any = config
        self.core, self.checker, self.lanes = core, checker, lanes
        super().__init__(stream_members(config.core_ports))

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.core = core = self.core
        ports: dict[str, Value] = {}
        for port in self.config.core_ports:
            outer, inner = getattr(self, port.name), getattr(core, port.name)
            wiring.connect(m, *((wiring.flipped(outer), inner) if port.direction == "in"
                                else (inner, wiring.flipped(outer))))  # fmt: skip
            ports |= {f"{port.name}_{part}": getattr(outer, part) for part in ("valid", "ready")}
            ports |= {f"{port.name}_{part}": getattr(outer.payload, part)
                      for part in outer.payload.shape().members}  # fmt: skip
        place(m, "residue_check", ResidueCheck(self.config, self.checker, self.lanes), **ports)
        return m


class ResidueCheck(Block):
    """The core of residues and the comparison.

    Members
    -------
    NAME_data, NAME_last, NAME_valid, NAME_ready : In
        Each port of the core that is checked; ``last`` where the port has one.
    """

    resettable = True
    opens_scope = True

    def __init__(
        self,
        config: BlockProductConfig,
        checker: wiring.Component,
        lanes: Mapping[str, ResidueLanes],
    ) -> None:
        members = {}
        for port in config.core_ports:
            members[f"{port.name}_data"] = In(port.data_width)
            for part in (*["last"] * bool(port.last), "valid", "ready"):
                members[f"{port.name}_{part}"] = In(1)
        super().__init__("residue_check", members)
        self.config: Any = config
        self.checker, self.lanes = checker, lanes

    def build(self, m: Module) -> None:
        *inputs, results = self.config.core_ports
        operands = {port.name: self._words(port) for port in inputs}
        sums, constant = self._words_of_results(results)
        # The core of residues is `lag` cycles late, the comparison `total`.
        lag = max(registers_of_sum(len(words)) for of in operands.values() for words, _ in of)
        total = max(lag, registers_of_sum(len(sums)))
        resets = Signal(total, name="late_resets", reset_less=True)
        m.d.sync += resets.eq(Cat(ResetSignal(), resets))

        core = Core(self.checker)
        streams: dict[str, Any] = {}
        answers: dict[str, Value] = {}
        for port in inputs:
            name = port.name
            parts = {"data": self._residues(m, core, name, operands[name], lag)}
            if port.last:
                parts["last"] = delayed(m, f"{name}_last", getattr(self, f"{name}_last"), lag)
            valid = delayed(m, f"{name}_valid", getattr(self, f"{name}_valid"), lag)
            answers[f"{name}_ready"] = Signal(name=f"{name}_answer")
            streams[name] = Stream(fields(**parts), valid, answers[f"{name}_ready"])
        checked = new_stream("checked", core.payload("out"))
        ready = delayed(m, "out_ready", self.out_ready, lag)
        streams["out"] = Stream(checked.payload, checked.valid, ready)
        place(m, "core", core, rst=resets[lag - 1], **streams)
        answers["out_valid"] = checked.valid
        wrong = self._wrong_beats(m, checked, sums, constant, lag, total)
        self._compare(m, answers, wrong, lag, total, resets)

    def _compare(
        self,
        m: Module,
        answers: Mapping[str, Value],
        wrong: Value,
        lag: int,
        total: int,
        resets: Value,
    ) -> None:
        """Drive `MISMATCH` from handshakes and wrong beats.

        Parameters
        ----------
        m : Module
        answers : mapping
            Handshakes of the core of residues, by the member that they must agree with.
        wrong : Value
            A beat of results is wrong, `total` cycles ago.
        lag, total : int
            Cycles by which the core of residues is late, and the comparison.
        resets : Value
            Resets of the last cycles.
        """
        differences = [
            delayed(m, f"{name}_compared", getattr(self, name), total)
            ^ delayed(m, f"{name}_answered", answer, total - lag)
            for name, answer in answers.items()
        ]
        mismatch = Signal(name=MISMATCH)
        # Before the last reset has arrived, beats of before it are compared.
        m.d.comb += mismatch.eq(Cat(*differences, wrong).any() & ~resets.any())

    def _wrong_beats(
        self,
        m: Module,
        checked: Any,
        sums: list[Value],
        constant: int,
        lag: int,
        total: int,
    ) -> Value:
        """Return whether the beat of results that was transferred `total` cycles ago is wrong."""
        expected = Cat(checked.payload.data[:RESIDUE_BITS], checked.payload.last)
        expected = delayed(m, "expected", expected, total - lag)
        residue = registered_sum(m, "out", sums, constant)
        residue = delayed(m, "out_residue_compared", residue, total - registers_of_sum(len(sums)))
        last = delayed(m, "out_last_compared", self.out_last, total)
        transferred = delayed(m, "out_transferred", self.out_valid & self.out_ready, total)
        differs = residues_differ(residue, expected[:RESIDUE_BITS])
        return transferred & (differs | (last ^ expected[-1]))

    def _words(self, port: StreamPort) -> list[tuple[list[Value], int]]:
        """Return words and a constant of each operand of the core of residues."""
        data, lanes = getattr(self, f"{port.name}_data"), self.lanes[port.name]
        return [
            _joined([lanes.words(data.word_select(lane, port.lane_width)) for lane in group])
            for group in lanes.groups
        ]

    def _words_of_results(self, port: StreamPort) -> tuple[list[Value], int]:
        """Return words and a constant of the sum of a beat of results."""
        fmt = self.config.result
        lanes = [
            self.out_data.word_select(lane, port.lane_width)[: fmt.width]
            for lane in range(port.lanes)
        ]
        return _joined([lane_words(lane, signed=fmt.signed) for lane in lanes])

    def _residues(
        self, m: Module, core: Core, name: str, operands: list[tuple[list[Value], int]], lag: int
    ) -> Value:
        """Return a beat of a port of the core of residues, `lag` cycles after the operands."""
        residues = []
        for number, (words, constant) in enumerate(operands):
            prefix = f"{name}_{number}"
            residue = registered_sum(m, prefix, words, constant)
            spare = lag - registers_of_sum(len(words))
            residues.append(delayed(m, f"{prefix}_residue_late", residue, spare))
        beat = Cat(*residues)
        return Cat(beat, Const(0, core.width(f"{name}_data") - len(beat)))


def _joined(lanes: Sequence[tuple[list[Value], int]]) -> tuple[list[Value], int]:
    """Return words and the constant of the sum of lanes, each with twice the weight of the last.

    Equal weights would miss errors of several lanes that cancel.  A product by a power of two
    rotates a word.
    """
    words = [rotate_word(word, lane) for lane, (parts, _) in enumerate(lanes) for word in parts]
    return words, sum(constant << lane % RESIDUE_BITS for lane, (_, constant) in enumerate(lanes))
