# SPDX-License-Identifier: Apache-2.0
"""Fault campaigns on configurations that are drawn from the whole schema, others at each commit."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from flows.bench.draws import draw
from flows.build.design import Design
from flows.faults.injection import FaultSimulation
from flows.faults.sampling import draw_faults
from flows.faults.workloads import fault_workload
from flows.synthesis.synth import synthesize
from hwgen.core.params.protection import Protection
from sim_tests.support.selection import commit_seed
from sim_tests.synthesis.tools import require_tools

FAMILIES = ("adder_tree", "broadcast_2d", "cube", "systolic", "ternary_lut")
"""Families of small cores that multiply matrices."""

LARGEST = 2_000.0
"""Largest `flows.bench.draws.size` of a configuration."""

FAULTS = 400

PROMISES: Mapping[str, Callable[[Counter[str]], bool]] = {
    "registers: parity": lambda n: not n["silent"] + n["hang"],
    "registers: tmr": lambda n: n["masked"] == FAULTS,
    "datapath: dup": lambda n: n["silent"] + n["hang"] <= FAULTS // 100,  # at its own ports
    "control: tmr": lambda n: not n["hang"],
    # Flips of an operand before several products are noticed but for one in 15.
    "datapath: residue": lambda n: n["silent"] <= FAULTS // 10 and n["hang"] <= FAULTS // 100,
}
"""What flips of flip-flops do with each protection."""


@pytest.mark.long
@pytest.mark.parametrize("name", FAMILIES)
def test_a_drawn_configuration(name: str, tmp_path: Path) -> None:
    """Two simulations agree on faults of each class, and a protection keeps its promise."""
    require_tools("yosys", "g++", technology="nangate45")
    seed = commit_seed()
    names = list(PROMISES)
    protection = names[zlib.crc32(f"{seed} {name}".encode()) % len(names)]
    (drawn,) = draw(seed, 1, LARGEST, names=(name,))
    if protection == "datapath: residue" and drawn.residue_errors():
        protection = "datapath: dup"
    key, _, value = protection.partition(": ")
    config = drawn.model_copy(update={"protect": Protection.model_validate({key: value})})
    told = f"{protection}: {config.model_dump_json()}"
    design = Design.of(config)
    work = fault_workload(design.core, f"random:3,{min(16, config.max_k)},3")
    simulation = FaultSimulation(config, synthesize(design, "nangate45"), work, tmp_path)
    rng = np.random.default_rng(seed)
    for of in ("flip", "pulse", "stuck"):
        faults = draw_faults(simulation.circuit, of, simulation.cycles, FAULTS, rng)
        together = simulation.inject(faults)
        chosen = range(0, FAULTS, 40)
        assert simulation.inject_alone([faults[i] for i in chosen]) == [
            together[i] for i in chosen
        ], told
        effects: Counter[str] = Counter(each.effect for each in together)
        assert sum(effects.values()) == FAULTS
        if of == "flip":
            assert PROMISES[protection](effects), f"{effects} {told}"
