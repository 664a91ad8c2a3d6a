# SPDX-License-Identifier: Apache-2.0
"""The path that limits the clock of a design, through its tree of instances.

A module is gone through once for each pattern of arrival times at its inputs, not once for each
instance: most of an array's elements get theirs from registers, hence at the same times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from cost_model.netlist.model import TOP
from cost_model.netlist.netlist import Netlist
from cost_model.timing.arcs import Costs, Steps, Times
from cost_model.timing.compiled import Compiled, End, Inside, MacroSteps


@dataclass(frozen=True)
class Stage:
    """A part of a path.

    Parameters
    ----------
    steps : mapping
        Steps by kind (`cost_model.timing.arcs.STEPS`).
    instance : str
        Hierarchical name of the instance that it is in, empty at the top.
    """

    steps: Steps
    instance: str = ""


@dataclass(frozen=True)
class Path:
    """The slowest path between two registers, or a register and a port.

    Parameters
    ----------
    period_ns : float
        The shortest clock period that it allows, in ns.
    start, end : str
        The signals that hold its ends, by their hierarchical names; or ports.
    stages : tuple of Stage
        What it leads through, in order.
    outside : int
        How many of its ends are ports.
    compression : float
        What a step takes, where it is not the sum of all that counts, in parts of its own time
        (`cost_model.timing.delay_compression`).
    """

    period_ns: float
    start: str
    end: str
    stages: tuple[Stage, ...]
    outside: int = 0
    compression: float = 1.0

    @property
    def steps(self) -> dict[str, float]:
        """All steps by kind."""
        result: dict[str, float] = {}
        for stage in self.stages:
            for step, count in stage.steps.items():
                result[step] = result.get(step, 0.0) + count
        return result


@dataclass(frozen=True)
class _Back:
    """A step of the way back: what it leads through, where, and what it is the last of.

    The last one has the name of the start, or the place of the input of a module below the top
    through which the way goes on.
    """

    path: tuple[str, ...]
    steps: Steps
    start: str = ""
    entered: int = -1


@dataclass(frozen=True)
class _Timed:
    """A module with given arrival times at its inputs."""

    at: Times
    outputs: Times
    worst: float
    where: tuple[int, int] | Inside | None = field(default=None)
    """The end that is the worst and its bit, or the instance that it is in."""


class Timer:
    """Arrival times in a design, for one technology.

    Parameters
    ----------
    design : Netlist
    ns : mapping
        How long each kind of step takes.
    macros : mapping, optional
        Modules whose memories are made of macros: the steps into and out of them.
    """

    def __init__(
        self,
        design: Netlist,
        ns: Mapping[str, float],
        macros: Mapping[str, MacroSteps] | None = None,
    ) -> None:
        self.costs = Costs(ns)
        self._compiled: dict[str, Compiled] = {}
        self._timed: dict[tuple[str, bytes], _Timed] = {}
        for name in reversed(tuple(design.counts)):
            module = design.modules[name]
            below = {each.module: self._compiled[each.module] for each in module.instances}
            made = (macros or {}).get(name)
            self._compiled[name] = Compiled(module, below, self.costs, made)

    def limiting(self, outside_ns: float = 0.0) -> Path | None:
        """Return the slowest path, None if there is none.

        Parameters
        ----------
        outside_ns : float
            When inputs arrive after the clock, and how long before it outputs must be there.
        """
        top = self._compiled[TOP]
        arrivals = np.full(len(top.inputs), outside_ns)
        timed = self._time(TOP, arrivals)
        worst, index = timed.worst, -1
        if len(timed.outputs) and timed.outputs.max() + outside_ns > worst:
            index = int(timed.outputs.argmax())
            worst = float(timed.outputs[index] + outside_ns)
        if not worst > -np.inf:
            return None
        if index >= 0:
            end = _port_of(top, index, output=True)
            stages = list(self._back(TOP, arrivals, int(top.outputs[index]), ()))
        else:
            end, stages = self._worst(TOP, arrivals, ())
        start = next(each.start for each in stages if each.start)
        result = tuple(
            Stage(each.steps, ".".join(each.path)) for each in reversed(stages) if each.steps
        )
        # A register may have the name of the output that it drives.
        inputs = {port.name for port in top.module.ports if not port.output}
        outside = (index >= 0) + (start in inputs)
        return Path(float(worst), start, end, result, outside)

    def _time(self, name: str, arrivals: Times) -> _Timed:
        key = (name, arrivals.tobytes())
        if (cached := self._timed.get(key)) is not None:
            return cached
        module = self._compiled[name]
        at = module.initial.copy()
        at[module.inputs] = np.maximum(at[module.inputs], arrivals)
        at[module.constant] = -np.inf
        for _ in range(module.passes):
            before = at.copy() if module.passes > 1 else at
            for index in module.order:
                node = module.nodes[index]
                if isinstance(node, Inside):
                    result = self._time(node.instance.module, at[node.ins]).outputs[node.positions]
                else:
                    result = node.arrivals(at)
                np.maximum.at(at, node.out, result + module.fanout[node.out])
                at[module.constant] = -np.inf
            if module.passes > 1 and np.array_equal(before, at):
                break
        worst, where = -np.inf, None
        for index, end in enumerate(module.ends):
            times = at[end.ins] + self.costs.of(end.steps)
            if len(times) and times.max() > worst:
                worst, where = float(times.max()), (index, int(times.argmax()))
        position: tuple[int, int] | Inside | None = where
        for inside in module.instances:
            inner = self._time(inside.instance.module, at[inside.ins]).worst
            if inner > worst:
                worst, position = inner, inside
        timed = _Timed(at, at[module.outputs], worst, position)
        self._timed[key] = timed
        return timed

    # -- the way back ------------------------------------------------------------------------------

    def _worst(self, name: str, arrivals: Times, path: tuple[str, ...]) -> tuple[str, list[_Back]]:
        """Return the end of the worst path that ends in a module, and the way back to its start."""
        timed, module = self._time(name, arrivals), self._compiled[name]
        if isinstance(timed.where, Inside):
            inside = timed.where
            at = timed.at[inside.ins]
            end, stages = self._worst(inside.instance.module, at, (*path, inside.instance.name))
            if not stages[-1].start:
                net = int(inside.ins[stages[-1].entered])
                stages = [*stages[:-1], *self._back(name, arrivals, net, path)]
            return end, stages
        assert timed.where is not None
        index, bit = timed.where
        position: End = module.ends[index]
        net = int(position.ins[bit])
        return _joined(path, position.name), [
            _Back(path, position.steps), *self._back(name, arrivals, net, path),
        ]  # fmt: skip

    def _back(self, name: str, arrivals: Times, net: int, path: tuple[str, ...]) -> Iterator[_Back]:
        """Yield the way back from a net of a module."""
        timed, module = self._time(name, arrivals), self._compiled[name]
        at = timed.at
        inputs = {
            int(n): position for position, n in enumerate(module.inputs) if n != module.constant
        }
        while True:
            if net in inputs and net not in module.driver and net not in module.start_of:
                if name == TOP:
                    yield _Back(path, {}, _port_of(module, inputs[net], output=False))
                else:
                    yield _Back(path, {}, entered=inputs[net])
                return
            slower = {"fanout": float(module.doublings[net])} if module.doublings[net] else {}
            start = module.start_of.get(net)
            index = module.driver.get(net)
            node = None if index is None else module.nodes[index]
            if start is not None and (
                node is None or not self._decides(node, at, net, module)
            ):  # fmt: skip
                yield _Back(path, {**start.steps, **slower}, _joined(path, start.name))
                return
            if node is None:  # nothing drives it
                yield _Back(path, {}, _joined(path, "constant"))
                return
            position = int(np.flatnonzero(node.out == net)[0])
            if isinstance(node, Inside):
                if slower:
                    yield _Back(path, slower)
                child = node.instance.module
                below = self._compiled[child]
                inner = list(self._back(
                    child, at[node.ins], int(below.outputs[node.positions[position]]),
                    (*path, node.instance.name),
                ))  # fmt: skip
                if inner[-1].start:
                    yield from inner
                    return
                yield from inner[:-1]
                net = int(node.ins[inner[-1].entered])
                continue
            net, steps = node.cause(at, position)
            total = steps.get("fanout", 0.0) + slower.get("fanout", 0.0)
            yield _Back(path, {**steps, "fanout": total} if total else steps)

    def _decides(self, node: object, at: Times, net: int, module: Compiled) -> bool:
        """Return whether a net that is driven by a memory waits for the address, not the words."""
        assert not isinstance(node, Inside)
        index = int(np.flatnonzero(node.out == net)[0])  # type: ignore[attr-defined]
        result = node.arrivals(at)[index] + module.fanout[net]  # type: ignore[attr-defined]
        return bool(result > module.initial[net])


def _joined(path: tuple[str, ...], name: str) -> str:
    return ".".join((*path, name))


def _port_of(module: Compiled, position: int, *, output: bool) -> str:
    for port in module.module.ports:
        if port.output == output:
            if position < port.width:
                return port.name
            position -= port.width
    raise IndexError(position)
