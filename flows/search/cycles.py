# SPDX-License-Identifier: Apache-2.0
"""Cycles of the jobs of a decode step, tabulated for each option of each unit.

The list of a decode step is compiled and traced for each option, with the other units as they are
in a base engine: which jobs there are, and in which order, does not depend on sizes. What one job
takes then stands in a table, and `hwgen.families.transformer.many_timings` puts the tables together
for all combinations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flows.search.space import Option
from hwgen.core.protocols import JobCore
from hwgen.core.registry import core_of
from hwgen.errors import HwgenError
from hwgen.families.transformer.list_timing import JobKey, job_key
from hwgen.families.transformer.many_timings import many_timings
from hwgen.families.transformer.trace import Event, trace
from hwgen.models.compile.compilation import Settings
from hwgen.models.compile.list_compilation import ListCompilation
from hwgen.models.files.store import Model

if TYPE_CHECKING:
    from hwgen.families.transformer.params import TransformerConfig


@dataclass(frozen=True)
class TimedOption:
    """Jobs of a decode step on an option of a unit.

    Parameters
    ----------
    cycles : tuple of int
        Of each distinct job of the unit, in the order of `BaseList.jobs`.
    operations : tuple of (int, int)
        Cycles and bytes of each operation of the model on the unit, all its jobs together.
    beats : (int, int)
        Read and written by all jobs of the unit.
    problem : str
        Why it cannot execute the model; empty where it can.
    """

    cycles: tuple[int, ...] = ()
    operations: tuple[tuple[int, int], ...] = ()
    beats: tuple[int, int] = (0, 0)
    problem: str = ""


class BaseList:
    """The list of a decode step on an engine with some options.

    Parameters
    ----------
    model : Model
    config : TransformerConfig
    context : int
        Positions before the token.

    Attributes
    ----------
    events : list of Event
    jobs : dict
        By unit, of each distinct job which of the unit's jobs is the first one like it.
    memory_bytes : int
        Memory for weights, cache and rows.
    """

    def __init__(self, model: Model, config: TransformerConfig, context: int) -> None:
        self.config = config
        compilation = ListCompilation(model, config, Settings(1, context + 1))
        registers = compilation.registers(context, context + 1, 1)
        address = compilation.memory.at("list")
        self.memory_bytes = compilation.memory.end
        self.events = trace(config, address, compilation.program, registers)
        self.nodes = {job.index: job.node for job in compilation.jobs}
        self.units = list(config.units)
        self.jobs: dict[str, dict[JobKey, int]] = {name: {} for name in self.units}
        counts = dict.fromkeys(self.units, 0)
        for event in self.submitted():
            unit = self.units[event.unit]
            self.jobs[unit].setdefault(self.job(event), counts[unit])
            counts[unit] += 1

    def submitted(self, unit: str | None = None) -> list[Event]:
        """Return the jobs, of one unit or of all."""
        number = None if unit is None else self.units.index(unit)
        return [event for event in self.events
                if event.action == "submit" and number in (None, event.unit)]  # fmt: skip

    def job(self, event: Event) -> JobKey:
        """Return everything that the duration of a job depends on."""
        return job_key(event, self.config.longest_burst * self.config.memory_bytes)

    def timed(self, base: BaseList, unit: str) -> TimedOption:
        """Return the jobs of a unit, in the order of those of a base."""
        events = self.submitted(unit)
        core = core_of(self.config.units[unit])
        assert isinstance(core, JobCore)
        if len(events) != len(base.submitted(unit)):
            return TimedOption(problem="has other jobs than the base engine")
        known = {}
        operations: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        reads = writes = 0
        for event in events:
            key = self.job(event)
            if key not in known:
                known[key] = core.register_cycles(event.registers)
            job = known[key]
            total = operations[self.nodes[event.index]]
            total[0] += job.cycles
            total[1] += (job.reads + job.writes) * self.config.memory_bytes
            reads, writes = reads + job.reads, writes + job.writes
        cycles = tuple(known[self.job(events[first])].cycles for first in base.jobs[unit].values())
        timed = tuple((each[0], each[1]) for each in operations.values())
        return TimedOption(cycles, timed, (reads, writes))


@lru_cache(maxsize=4)
def _base(path: Path, text: str) -> tuple[Model, BaseList]:
    """Return the model and the list of a base engine, once in each process."""
    import json

    from hwgen.families.transformer.params import TransformerConfig

    item = json.loads(text)
    model = Model(path)
    config = TransformerConfig.model_validate(item["engine"])
    return model, BaseList(model, config, item["context"])


@dataclass(frozen=True)
class TimingItem:
    """Options of a unit to time, for a process that may be another.

    Parameters
    ----------
    model : Path
    engine : str
        JSON of the base engine, and of the ``context``.
    number : int
        Of the item.
    option : Option
    """

    model: Path
    engine: str
    number: int
    option: Option


def time_option(item: TimingItem) -> TimedOption:
    """Return the jobs of an option."""
    from hwgen.families.transformer.params import TransformerConfig

    model, base = _base(item.model, item.engine)
    unit = item.option.unit
    values = base.config.resolved()
    values["units"][unit] = dict(item.option.values)
    try:
        config = TransformerConfig.model_validate(
            {**values, "target": base.config.target.model_dump(mode="json")}
        )
        context = base_context(item)
        return BaseList(model, config, context).timed(base, unit)
    except HwgenError as error:
        return TimedOption(problem=str(error).splitlines()[0])


def base_context(item: TimingItem) -> int:
    """Return the positions before the token."""
    import json

    return int(json.loads(item.engine)["context"])


def combined(
    base: BaseList, tables: Mapping[str, Sequence[TimedOption]]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return cycles and bytes of a decode step, for all combinations of options.

    Parameters
    ----------
    base : BaseList
    tables : mapping
        Of each unit, in the order of the engine.

    Returns
    -------
    (ndarray, ndarray)
        An axis for each unit.
    """
    durations: dict[Any, NDArray[np.int64]] = {}
    axes = len(base.units)
    reads: Any = 0
    writes: Any = 0
    for axis, unit in enumerate(base.units):
        shape = [1] * axes
        shape[axis] = len(tables[unit])
        for place, job in enumerate(base.jobs[unit]):
            column = [option.cycles[place] for option in tables[unit]]
            durations[axis, job] = np.array(column, np.int64).reshape(shape)
        reads = reads + np.array([o.beats[0] for o in tables[unit]], np.int64).reshape(shape)
        writes = writes + np.array([o.beats[1] for o in tables[unit]], np.int64).reshape(shape)
    cycles = many_timings(base.config, base.events, base.job, durations.__getitem__)
    cycles = np.maximum(cycles, np.maximum(reads, writes))
    moved = (reads + writes) * base.config.memory_bytes
    return np.broadcast_arrays(cycles, moved)  # type: ignore[return-value]
