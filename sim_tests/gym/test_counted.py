# SPDX-License-Identifier: Apache-2.0
"""Spaces whose every structure is counted: the law of clocks, the journal, and its check."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cost_model.sweep.document import read_sweep
from cost_model.sweep.netlists import Answer, Evaluation
from cost_model.sweep.plan import Plan
from flows.build.costs import NetlistCosts
from flows.gym import counted as module
from flows.gym.counted import CLOCK, Counted, Journal, counted, differences, structures
from flows.gym.enumerate import enumerate_space
from flows.tools.executors import LocalProcesses
from hwgen import __version__
from hwgen.errors import InputError
from hwgen.gym.problem import load_table

SPACE = """\
name: small
family: gemm_stream
parameters:
  compute:
    - {family: systolic, array: {rows: 4, cols: 4, dataflow: weight_stationary}}
    - {family: systolic, array: {rows: 16, cols: 16, dataflow: output_stationary}}
  array: {blocks: [1, 4]}
  buffers: {weight_kib: [8, 16]}
constraints: [array.blocks == 1 or buffers.weight_kib == 16]
targets: {technology: nangate45, clock_mhz: [100, 200, 400]}
workloads: {work: [{m: 16, k: 64, n: 64}]}
objectives: {minimize: [area_mm2]}
"""


@dataclass
class Made:
    """Made-up costs by a law that the clock follows; ``asked`` are configurations."""

    asked: list[dict[str, Any]] = field(default_factory=list)
    dynamic: float = 5.0

    def evaluate(self, family: str, values: Any, workloads: Any) -> Answer:
        self.asked.append(dict(values))
        rows = values["compute"]["array"]["rows"]
        if rows == 16 and values["array.blocks"] == 4:
            return "more than an engine has"
        area, cycles, leakage, fmax = rows * values["array.blocks"], 1000.0 * rows, 2e6, 300.0
        clock = min(values["target.clock_mhz"], fmax)
        time = cycles * 1e-3 / clock
        energy = self.dynamic + leakage * 1e-9 * time
        return Evaluation(
            {"fmax_mhz": fmax, "area_mm2": area, "cycles(work)": cycles,
             "latency_ms(work)": time, "energy_mj(work)": energy},
            {"leakage_nw": leakage},
        )  # fmt: skip


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    path = tmp_path_factory.mktemp("counted") / "small.yaml"
    path.write_text(SPACE, encoding="utf-8")
    return read_sweep(path, __version__).plan


def test_every_point_is_that_of_its_own_netlist(plan: Plan) -> None:
    made = Made()
    assert len(structures(plan)) == 6  # two of eight break the constraint
    counts = counted(plan, made, LocalProcesses(1))
    assert len(made.asked) == 6
    table = enumerate_space(plan, counts)
    fixed = plan.space.subspaces[0].fixed
    for row in range(table.size):
        point = {**fixed, **table.point(row)}
        answer = made.evaluate("", point, {})
        if point["array.blocks"] == 4 and point["buffers.weight_kib"] == 8:
            assert "array.blocks == 1 or" in table.broken_rule(row)
        elif isinstance(answer, str):
            assert table.broken_rule(row).startswith("a rule of the family gemm_stream")
        else:
            for name in ("area_mm2", "latency_ms", "energy_mj"):
                own = answer.metrics[name if name == "area_mm2" else f"{name}(work)"]
                assert table.metrics[name][row] == pytest.approx(own, 3.1e-5)
    assert table.legal.sum() == 3 * 5


def test_the_check_notices_a_structure_that_is_off(plan: Plan) -> None:
    made = Made()
    counts = counted(plan, made, LocalProcesses(1))
    points = [{**structures(plan)[0], "target.clock_mhz": clock} for clock in (100, 200, 400)]
    assert max(differences(counts, plan, made, points).values()) < 1e-12
    found = differences(counts, plan, Made(dynamic=10.0), points)
    assert found["energy"] > 0.4
    assert found["area"] == 0
    broken = structures(plan)[-1]
    with pytest.raises(InputError, match="not legal"):
        differences(counts, plan, made, [broken])


def test_an_interrupted_enumeration_continues(plan: Plan, tmp_path: Path) -> None:
    path = tmp_path / "folder" / "structures.jsonl"
    journal = Journal.of(path, plan)
    whole = counted(plan, Made(), LocalProcesses(1), journal)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:-20])  # a killed run
    made, seen = Made(), []
    again = counted(plan, made, LocalProcesses(1), Journal.of(path, plan),
                    lambda done, total: seen.append((done, total)))  # fmt: skip
    assert again == whole
    assert len(made.asked) == 4
    assert (seen[0], seen[-1]) == ((2, 6), (6, 6))
    made = Made()
    counted(plan, made, LocalProcesses(1), Journal.of(path, plan))
    assert not made.asked


def test_a_journal_of_another_cost_model_is_refused(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "structures.jsonl"
    counted(plan, Made(), LocalProcesses(1), Journal.of(path, plan))
    monkeypatch.setattr(module, "digest_of_sources", lambda _: "another")
    with pytest.raises(InputError, match=r"structures.jsonl: structures of another cost model"):
        counted(plan, Made(), LocalProcesses(1), Journal.of(path, plan))


def test_the_shipped_engines_are_counted() -> None:
    table = load_table("engine")
    assert table.provenance["costs"].startswith("counted")
    assert table.provenance["left_out_errors"]["area"] <= 0.03
    structures = table.size // len(next(a for a in table.axes if a.name == CLOCK).values)
    assert table.provenance["netlists"] == structures


@pytest.mark.rotate(16)
def test_a_shipped_engine_is_that_of_its_netlist() -> None:
    space = Path(module.__file__).parents[2] / "hwgen/gym/spaces/engine.yaml"
    table, whole = load_table("engine"), read_sweep(space, __version__).plan
    rows = np.random.default_rng(7).choice(np.flatnonzero(table.legal), 3, replace=False)
    for row in rows:
        point = {**whole.space.subspaces[0].fixed, **table.point(int(row))}
        answer = NetlistCosts().evaluate("gemm_stream", point, whole.workloads)
        assert isinstance(answer, Evaluation)
        for name, far in (("area_mm2", 1e-3), ("latency_ms", 1e-3), ("energy_mj", 1e-3)):
            own = answer.metrics[name if name == "area_mm2" else f"{name}(work)"]
            assert own is not None
            assert table.metrics[name][row] == pytest.approx(own, far)


def test_a_space_without_figures_is_all_illegal(plan: Plan) -> None:
    names = [module.structure_of("gemm_stream", each, "nangate45") for each in structures(plan)]
    table = enumerate_space(plan, Counted(dict.fromkeys(names, "no figures"), "work"))
    assert not table.legal.any()
