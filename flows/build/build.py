# SPDX-License-Identifier: Apache-2.0
"""A design for a target: its clock limit, estimate, emitted files and synthesis results."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from cost_model.configurations.metrics import Workloads
from cost_model.estimate.activity import ASSUMED, Activity
from cost_model.estimate.certainty import Operands
from cost_model.estimate.estimate import empty_estimate, estimate
from cost_model.memories.memories import Form
from flows.build.design import Design
from flows.build.timing import clock_limit
from hwgen.core.operation import Job
from hwgen.core.params.off_chip import OffChip
from hwgen.core.params.target import Target
from hwgen.core.post import PostSettings
from hwgen.core.protocols import ListCore
from hwgen.core.resolve import Limit
from hwgen.errors import HwgenError
from hwgen.reports.datasheet import missed_clock, standing
from hwgen.technologies import default_clock, target_of, technology_of
from hwgen.workloads import check_workloads
from hwgen.workloads.timing import PassTiming

PRODUCTS_ONLY = (
    "figures of workloads are of products on the first unit that multiplies; `hwgen model estimate`"
    " counts all operations of a model"
)
"""Note of an estimate of an engine with command lists."""

NO_STRUCTURE, NO_ESTIMATE = "no structure of the hardware:", "no estimate:"
"""Beginnings of notes of an estimate that failed; other notes say why figures are missing."""


class Build:
    """A design for a target.

    Parameters
    ----------
    design : Design
    target : Target, optional
        Technology, clock and memory; default those of the configuration.
    """

    def __init__(self, design: Design, target: Target | None = None) -> None:
        self.design = design
        self.target = design.params.target if target is None else target

    @cached_property
    def clock_limit(self) -> Limit | None:
        """The limit of the clock, None if the technology has no delays."""
        return clock_limit(self.design, self.target.technology)

    def estimate(
        self,
        workloads: Workloads | None = None,
        *,
        operands: Operands | None = None,
        post: PostSettings | None = None,
        jobs: Mapping[str, Job] | None = None,
        timings: Mapping[str, PassTiming] | None = None,
        made_of: Form = "macros",
        fpga_energies: bool = False,
        activity: Activity = ASSUMED,
    ) -> dict[str, Any]:
        """Return the estimate; see `cost_model.estimate.estimate.estimate` for parameters.

        A failure is a note of the estimate, which then lacks figures: an estimate accompanies a
        build or other estimates, which must not fail with it.

        Raises
        ------
        TypeError
            If `workloads` is not a mapping of names to sequences of sizes (M, K, N).
        """
        check_workloads({} if workloads is None else workloads)
        core, target, notes, analysis = self.design.core, self.target, list[str](), None
        if workloads and timings is None and isinstance(core, ListCore):
            notes.append(PRODUCTS_ONLY)
        try:
            analysis = self.design.analysis
        except Exception as error:
            notes.append(f"{NO_STRUCTURE} {_text(error)}")
        try:
            result = estimate(
                core,
                target,
                workloads,
                operands=operands,
                post=post,
                jobs=jobs,
                timings=timings,
                analysis=analysis,
                made_of=made_of,
                fpga_energies=fpga_energies,
                activity=activity,
            )
        except Exception as error:
            result = empty_estimate(core, target, workloads)
            notes.append(f"{NO_ESTIMATE} {_text(error)}")
        return {**result, "notes": [*notes, *result["notes"]]}

    @property
    def warnings(self) -> list[str]:
        """Texts to read before the files are used: of a device too small, of a missed clock."""
        device = self._estimate["device"]
        texts = [device["warning"]] if device and device["warning"] else []
        if missed := missed_clock(self._estimate):
            text, reached = missed
            certainty = standing(self._estimate["certainty"]["fmax_mhz"])
            texts.append(
                f"the {text}; Fmax is {reached} MHz ({certainty}), and `hwgen estimate` names the"
                " path that limits it"
            )
        return texts

    @cached_property
    def problems(self) -> list[str]:
        """Defects of the cost model, as messages; the hardware is not affected."""
        return [
            f"{note}; this is a defect of hwgen, please report it with the configuration"
            for note in self._estimate["notes"]
            if note.startswith((NO_STRUCTURE, NO_ESTIMATE))
        ]

    @cached_property
    def files(self) -> dict[str, str]:
        """Every file that ``hwgen build`` writes: name to text.

        The text depends on the configuration and hwgen's version alone.
        """
        # Start-up time: an estimate writes no file.
        from flows.build import files, ipxact, register_files
        from flows.build.drivers.engine_drivers import driver

        core, name = self.design.core, self.design.name
        netlist = self.design.netlist  # first: its conversion may write the Verilog as well
        pages = {}
        if core.registers:
            pages[f"{name}_registers.md"] = register_files.markdown(core)
        return {
            f"{name}.v": files.header(core, "//") + "\n" + self.design.verilog,
            f"{name}.json": files.manifest(core, netlist, self._estimate),
            f"{name}.sdc": files.constraints(core),
            f"{name}.f": files.header(core, "//") + f"{name}.v\n",
            f"{name}.core": files.fusesoc(core),
            f"{name}.vlt": files.waivers(core),
            f"{name}_regs.h": files.c_header(core),
            ipxact.FILE: ipxact.component(core),
            **pages,
            **driver(core),
        }

    @cached_property
    def _estimate(self) -> dict[str, Any]:
        return self.estimate()


def retarget(
    target: Target,
    technology: str | None = None,
    clock_mhz: float | None = None,
    memory: OffChip | None = None,
) -> Target:
    """Return a target with another technology or device, clock or memory, where one is given.

    A clock that nobody asked for is the default of the technology.
    """
    device = None
    if technology is not None:
        technology, device = target_of(technology)
        own = None if target.device is None else technology_of(target.device)
        device = device or (target.device if own == technology else None)
        target = target.model_copy(update={"device": device})
    changes = {"technology": technology, "clock_mhz": clock_mhz, "memory": memory}
    result = target.model_copy(
        update={name: value for name, value in changes.items() if value is not None}
    )
    if result.names_clock:
        return result
    clock = default_clock(result.technology)
    fresh = Target.model_fields["clock_mhz"].default if clock is None else clock
    result.__dict__["clock_mhz"] = fresh
    return result


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, HwgenError) else f"{type(error).__name__}: {error}"
