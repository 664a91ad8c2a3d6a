# SPDX-License-Identifier: Apache-2.0
"""Search of the cheapest protection with which few faults are silent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.build.build import Build, retarget
from flows.build.design import Design
from flows.faults.campaign import Campaign, run_campaign, wilson
from flows.faults.injection import FaultSimulation
from flows.faults.sampling import sample_size
from flows.faults.workloads import fault_workload
from flows.synthesis.result import SynthesisResult
from flows.synthesis.synth import synthesize
from flows.tools.guard import scratch
from hwgen.core.params.base import FamilyConfig
from hwgen.core.params.protection import Protection
from hwgen.core.registry import core_of
from hwgen.errors import InputError

SETTINGS: Sequence[Mapping[str, str]] = (
    {},
    {"control": "parity"},
    {"control": "tmr"},
    {"registers": "parity"},
    {"registers": "parity", "memories": "ecc"},
    {"registers": "tmr"},
    {"registers": "tmr", "memories": "ecc"},
    {"datapath": "residue"},
    {"control": "parity", "datapath": "residue"},
    {"registers": "parity", "datapath": "residue"},
    {"datapath": "dup"},
)
"""Protections that are tried, each without checksums and with them."""


@dataclass(frozen=True)
class Candidate:
    """A protection and its cost by estimates.

    Parameters
    ----------
    config : FamilyConfig
        The configuration with the protection.
    checksums : bool
        Whether operands have checksums.
    area_um2 : float
    cycles : int
        Of the job.
    """

    config: FamilyConfig
    checksums: bool
    area_um2: float
    cycles: int

    @property
    def cost(self) -> float:
        """Area times cycles: what a result costs."""
        return self.area_um2 * self.cycles

    @property
    def words(self) -> str:
        """The protection in words."""
        protection = self.config.protect.model_dump()
        parts = [f"{name}: {value}" for name, value in protection.items() if value != "none"]
        return ", ".join([*parts, *["checksums"] * self.checksums]) or "none"


@dataclass(frozen=True)
class Trial:
    """A candidate whose faults were simulated.

    Parameters
    ----------
    candidate : Candidate
    synthesis : SynthesisResult
    campaign : Campaign
    silent : float
        Upper end of the interval of the share of silent faults, of the class with most.
    """

    candidate: Candidate
    synthesis: SynthesisResult
    campaign: Campaign
    silent: float

    def document(self) -> dict[str, Any]:
        """Return the trial as plain JSON values."""
        classes = {
            name: share.effects | {"faults": share.faults}
            for name, share in self.campaign.classes.items()
        }
        return {
            "protection": self.candidate.words,
            "estimated_area_um2": self.candidate.area_um2,
            "area_um2": self.synthesis.area_um2,
            "fmax_mhz": self.synthesis.fmax_mhz,
            "cycles": self.candidate.cycles,
            "silent": self.silent,
            "classes": classes,
        }


def candidates(config: FamilyConfig, target: str, workload: str) -> list[Candidate]:
    """Return protections of a configuration, the cheapest first.

    Raises
    ------
    InputError
        If the core cannot do the workload.
    """
    result: list[Candidate] = []
    checks = [False]
    try:
        fault_workload(core_of(config), workload, checksums=True)
        checks.append(True)
    except InputError:
        fault_workload(core_of(config), workload)  # raises if that is the reason
    for setting in SETTINGS:
        if setting.get("datapath") == "residue" and config.residue_errors():
            continue
        protected = config.model_copy(update={"protect": Protection.model_validate(setting)})
        design = Design.of(protected)
        metrics = Build(design, retarget(config.target, target)).estimate()["metrics"]
        for checksums in checks:
            work = fault_workload(design.core, workload, checksums=checksums)
            cycles = design.core.cycles([work.job], [work.operands]).number
            candidate = Candidate(protected, checksums, 1e6 * metrics["area_mm2"], cycles)
            if not any(candidate.cost == other.cost for other in result):  # e.g. no memories
                result.append(candidate)
    return sorted(result, key=lambda candidate: candidate.cost)


def harden(
    tried: Sequence[Candidate],
    target: str,
    workload: str,
    most: float,
    *,
    clock_mhz: float | None = None,
    margin: float = 0.01,
    confidence: float = 0.95,
    seed: int = 0,
    liberty_files: Sequence[str | Path] = (),
    jobs: int = 1,
    on_progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Iterator[Trial]:
    """Yield trials until one has few silent faults, confirmed by a second campaign.

    The last trial is the one that is good enough, if its `silent` is at most `most`.

    Parameters
    ----------
    tried : sequence of Candidate
        The cheapest first.
    target : str
        Technology of standard cells.
    workload : str
        See `flows.faults.workloads.fault_workload`.
    most : float
        Largest share of silent faults of a class.
    clock_mhz : float, optional
        For the synthesis.
    margin, confidence, seed : float, float, int
        Of the campaigns; that which confirms has the next seed.
    liberty_files, jobs, on_progress
        As of the synthesis and `flows.faults.campaign.run_campaign`.

    Raises
    ------
    CheckFailed
        If a tool fails.
    """
    for candidate in tried:
        design = Design.of(candidate.config)
        result = synthesize(
            design, target, clock_mhz=clock_mhz, effort="clock", liberty_files=liberty_files,
            jobs=jobs, on_progress=on_progress,
        )  # fmt: skip
        work = fault_workload(design.core, workload, checksums=candidate.checksums)
        with scratch("hwgen-harden-") as directory:
            simulation = FaultSimulation(
                candidate.config, result, work, directory, liberty_files=liberty_files
            )
            for number in (seed, seed + 1):
                campaign = run_campaign(
                    simulation, work, name=design.name, target=target, margin=margin,
                    confidence=confidence, seed=number, jobs=jobs, on_progress=on_progress,
                )  # fmt: skip
                silent = max(
                    campaign.intervals(share)["silent"][1] for share in campaign.classes.values()
                )
                if silent > most:
                    break
        yield Trial(candidate, result, campaign, silent)
        if silent <= most:
            return


def smallest_share(margin: float, confidence: float) -> float:
    """Return the smallest share that campaigns of a margin can show: when no fault is silent."""
    return wilson(0, sample_size(10**12, margin, confidence), confidence)[1]
