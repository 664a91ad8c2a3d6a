# SPDX-License-Identifier: Apache-2.0
"""Proof about flips in a mapped netlist: each is noticed at once, or changes nothing.

A flip-flop changes its value right after a clock edge.  A solver searches for a state before that
edge and for inputs with which any register, macro input or output then differs from what it would
be, while the design does not begin to report an error.  All states are considered, those that
cannot be reached as well; one step before the flip is enough for parity bits and voting registers,
which hold what belongs together after any edge.

Notes
-----
Single faults by cones and satisfiability, as SYNFI does (Nasahl et al., TCHES 2022); here for every
flip-flop, and the solver keeps what it learns from one to the next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Literal

from flows.faults.circuit import Circuit, Site
from flows.faults.logic import COPY, NOT, SELECT, decomposed
from flows.power.gate_tables import StoredBit
from hwgen.core.params.protection import FAULT_OUTPUT
from hwgen.errors import ToolMissing

Verdict = Literal["proven", "refuted", "unknown"]

CONFLICTS = 20_000
"""Conflicts of the solver after which a flip is unknown."""

_NEAR, _LITTLE = 6, 300
"""Cells behind a flip up to which nets are compared one by one, and conflicts for each."""

_INVERTER = 0b01
"""Truth table of a cell of one input."""

_MOST_TERMS = 64
"""Terms of a sum that is known by them."""

_FALSE, _TRUE = -1, 1


@dataclass(frozen=True)
class FlipVerdict:
    """Result of a flip-flop.

    Parameters
    ----------
    site : Site
    verdict : {"proven", "refuted", "unknown"}
    """

    site: Site
    verdict: Verdict


def prove_flips(
    circuit: Circuit,
    *,
    conflicts: int = CONFLICTS,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[FlipVerdict]:
    """Return a verdict about a flip of each flip-flop.

    Parameters
    ----------
    circuit : Circuit
    conflicts : int
        Effort for each.
    on_progress : callable
        Gets the flip-flops that are done, and all.

    Raises
    ------
    ToolMissing
        If there is no solver.
    """
    proof = _Proof(circuit, conflicts)
    result = []
    sites = circuit.flip_flops
    for index, site in enumerate(sites):
        result.append(FlipVerdict(site, proof.verdict(site)))
        on_progress(index + 1, len(sites))
    return result


@dataclass
class _Formula:
    """Gates as literals of a solver; equal gates are one."""

    solver: Any
    count: int = 1
    gates: dict[tuple[int, int], int] = field(default_factory=dict)
    sums: dict[int, frozenset[int]] = field(default_factory=dict)
    sum_of: dict[frozenset[int], int] = field(default_factory=dict)

    def variable(self) -> int:
        self.count += 1
        return self.count

    def conjunction(self, a: int, b: int) -> int:
        if a > b:
            a, b = b, a
        if _FALSE in (a, b) or a == -b:
            return _FALSE
        if a in (_TRUE, b):
            return b
        if b == _TRUE:
            return a
        key = (a, b)
        if key not in self.gates:
            y = self.gates[key] = self.variable()
            for clause in ([-y, a], [-y, b], [y, -a, -b]):
                self.solver.add_clause(clause)
        return self.gates[key]

    def exclusive(self, a: int, b: int) -> int:
        """Return the exclusive or of two literals; sums of the same terms are one literal."""
        sign = 1
        if a < 0:
            a, sign = -a, -sign
        if b < 0:
            b, sign = -b, -sign
        if a == _TRUE or b == _TRUE:
            return -sign * (b if a == _TRUE else a)
        terms = self.sums.get(a, frozenset((a,))) ^ self.sums.get(b, frozenset((b,)))
        if not terms:
            return sign * _FALSE
        if len(terms) == 1:
            (term,) = terms
            return sign * term
        if terms not in self.sum_of:
            y = self.sum_of[terms] = self.variable()
            if len(terms) <= _MOST_TERMS:
                self.sums[y] = terms
            for clause in ([-y, a, b], [-y, -a, -b], [y, -a, b], [y, a, -b]):
                self.solver.add_clause(clause)
        return sign * self.sum_of[terms]

    def gate(self, code: int, operands: Sequence[int]) -> int:
        """Return the output of a gate of `flows.faults.logic`."""
        if code == NOT:
            return -operands[0]
        if code == COPY:
            return operands[0]
        if code == SELECT:
            low, high, choose = operands
            if low == high:
                return low
            return -self.conjunction(
                -self.conjunction(choose, high), -self.conjunction(-choose, low)
            )
        a, b = operands
        if code in (0b0110, 0b1001):
            return self.exclusive(a, b) * (1 if code == 0b0110 else -1)
        ones = [index for index in range(4) if code >> index & 1]
        if len(ones) == 1:
            (index,) = ones
            return self.conjunction(a if index & 1 else -a, b if index & 2 else -b)
        (index,) = (index for index in range(4) if not code >> index & 1)
        return -self.conjunction(a if index & 1 else -a, b if index & 2 else -b)

    def any_of(self, literals: Sequence[int]) -> int:
        """Return a literal that is true if any of some is."""
        result = _FALSE
        for literal in literals:
            result = -self.conjunction(-result, -literal)
        return result


class _Proof:
    """A netlist over two cycles, and the flips in the second one."""

    def __init__(self, circuit: Circuit, conflicts: int) -> None:
        try:
            from pysat.solvers import Solver
        except ImportError:
            raise ToolMissing("proofs need a solver: pip install 'hwgen[formal]'") from None
        self._solver: Any = Solver(name="glucose4")
        self._solver.add_clause([_TRUE])
        self._circuit, self._conflicts = circuit, conflicts
        self._formula = _Formula(self._solver)
        netlist = circuit.netlist
        self._cells = [cell for run in netlist.runs for cell in run]
        self._drivers = {cell.output: index for index, cell in enumerate(self._cells)}
        self._readers: dict[int, list[int]] = defaultdict(list)
        for index, cell in enumerate(self._cells):
            for net in cell.inputs:
                self._readers[net].append(index)
        self._ends = self._end_points()
        first = self._cycle({})
        states = {one.state: first[one.following] for one in netlist.registers}
        self._values = self._cycle(states)
        self._running = self._values[circuit.net("aresetn")]
        error = circuit.net(FAULT_OUTPUT) if circuit.reports_errors else None
        registers: dict[int | None, StoredBit] = {one.state: one for one in netlist.registers}
        self._error_state = None if error is None else registers.get(self._source(error))
        if self._error_state is not None:
            self._ends -= {self._error_state.following}
            self._error_cells = self._cells_in_front(self._error_state.following)
        if error is not None:
            self._ends -= {error}

    def _cells_in_front(self, net: int) -> set[int]:
        """Return the cells that a net depends on within a cycle."""
        result: set[int] = set()
        waiting = [net]
        while waiting:
            index = self._drivers.get(waiting.pop())
            if index is not None and index not in result:
                result.add(index)
                waiting += self._cells[index].inputs
        return result

    def _source(self, net: int) -> int | None:
        """Return the net in front of cells of one input; None if these invert it."""
        inverted = False
        while net in self._drivers and len((cell := self._cells[self._drivers[net]]).inputs) == 1:
            (net,) = cell.inputs
            inverted ^= cell.table == _INVERTER
        return None if inverted else net

    def _end_points(self) -> set[int]:
        """Return the nets at which a cycle ends: of registers, macros and outputs."""
        netlist = self._circuit.netlist
        ends = {one.following for one in netlist.registers} | set(self._circuit.output_bits)
        for macro in netlist.macros:
            ends |= {macro.numbers[2], macro.numbers[3]}
            position = 4
            for group in range(4):  # addresses to read and write, data, results
                size = macro.numbers[position]
                if group < 3:
                    ends |= set(macro.numbers[position + 1 : position + 1 + size])
                position += 1 + size
        return ends

    def _cycle(self, states: dict[int, int]) -> dict[int, int]:
        """Return the literals of all nets in a cycle; inputs and other states are free."""
        values = {0: _FALSE, 1: _TRUE, **states}
        for cell in self._cells:
            for net in cell.inputs:
                if net not in values:
                    values[net] = self._formula.variable()
            values[cell.output] = self._output(cell, values)
        for net in (*self._ends, *self._circuit.input_bits,
                    *(one.state for one in self._circuit.netlist.registers)):  # fmt: skip
            if net not in values:
                values[net] = self._formula.variable()
        return values

    def _output(self, cell: Any, values: dict[int, int]) -> int:
        full = (1 << (1 << len(cell.inputs))) - 1
        if cell.table in (0, full):
            return _TRUE if cell.table else _FALSE
        literals = [values[net] for net in cell.inputs]
        for step in decomposed(len(cell.inputs), cell.table):
            literals.append(self._formula.gate(step.code, [literals[i] for i in step.operands]))
        return literals[-1]

    def verdict(self, site: Site) -> Verdict:
        """Return the verdict about a flip: it is noticed, or else it changes nothing."""
        if self._is_noticed(site):
            return "proven"
        verdict = self._attempt(site, 0, _LITTLE)
        return self._attempt(site, _NEAR, self._conflicts) if verdict == "unknown" else verdict

    def _is_noticed(self, site: Site) -> bool:
        """Return whether the design reports the flip in any case."""
        if self._error_state is None:
            return False
        changed = self._propagate(site, 0, self._error_cells)
        if self._error_state.following not in changed:
            return False
        silent = -changed[self._error_state.following]
        return silent in (_FALSE, -self._running) or not self._can_be([self._running, silent])

    def _can_be(self, assumptions: Sequence[int]) -> bool:
        """Return whether literals can be true together, or may be for all that is known."""
        self._solver.conf_budget(_LITTLE)
        return self._solver.solve_limited(assumptions=assumptions) is not False

    def _is_same(self, output: int, before: int, ask: bool) -> bool:
        """Return whether a changed net has its value after all, as behind voters."""
        if output == before or not ask:
            return output == before
        return not self._can_be([self._formula.exclusive(output, before)])

    def _propagate(self, site: Site, near: int, within: set[int] | None = None) -> dict[int, int]:
        """Return the nets that a flip changes, with their literals.

        Parameters
        ----------
        site : Site
        near : int
            Cells behind the flip up to which the solver is asked about each net.
        within : set of int, optional
            Cells to look at; default all.
        """
        changed = {site.number: -self._values[site.number]}
        depths = {site.number: 0}
        waiting: list[int] = []
        seen: set[int] = set()

        def follow(net: int) -> None:
            for reader in self._readers[net]:
                if reader not in seen and (within is None or reader in within):
                    seen.add(reader)
                    heappush(waiting, reader)

        follow(site.number)
        while waiting:
            cell = self._cells[heappop(waiting)]
            values = {net: changed.get(net, self._values[net]) for net in cell.inputs}
            output = self._output(cell, values)
            depth = 1 + max(depths[net] for net in cell.inputs if net in changed)
            if self._is_same(output, self._values[cell.output], depth <= near):
                continue
            changed[cell.output], depths[cell.output] = output, depth
            follow(cell.output)
        return changed

    def _attempt(self, site: Site, near: int, conflicts: int) -> Verdict:
        changed = self._propagate(site, near)
        formula = self._formula
        differences = [
            formula.exclusive(self._values[net], changed[net])
            for net in sorted(self._ends & changed.keys())
        ]
        anything = formula.any_of(differences)
        assumptions = [self._running, anything]
        if self._error_state is not None:
            following = self._error_state.following
            assumptions.append(-changed.get(following, self._values[following]))
        if _FALSE in assumptions:
            return "proven"
        self._solver.conf_budget(conflicts)
        answer = self._solver.solve_limited(assumptions=assumptions)
        if answer is None:
            return "unknown"
        return "refuted" if answer else "proven"
