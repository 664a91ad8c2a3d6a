# SPDX-License-Identifier: Apache-2.0
"""Processing elements of several formats: each by itself, and one behind the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.simulation.stream_program import compile_stream, run_stream
from hwgen.core.params.spatial import SpatialConfig
from hwgen.core.registry import family
from hwgen.families.spatial.schedule import Schedule
from hwgen.formats.block.products import SCALABLE
from sim_tests.contract.contract import Contract, Mutations, Regressions
from sim_tests.families.test_spatial_blocks import config_of
from sim_tests.support.cores import assert_weights_round_trip, cycles, golden
from sim_tests.support.designs import design_of
from sim_tests.support.mutations import Mutation


def core(name: str, fmt: str, array: dict[str, Any], pe: int) -> SpatialConfig:
    """Return a small core whose jobs have a format."""
    return config_of(name, fmt, fmt, "fp32", {**array, "pe": "scalable"}, pe)


COVERING = [
    core(*values)
    for values in (
        ("cube", "mxint8", {"rows": 2, "cols": 2, "depth": 8}, 1),
        ("adder_tree", "mxfp8_e4m3", {"cols": 3, "depth": 4}, 0),
        ("cube", "mxfp6_e2m3", {"rows": 1, "cols": 2, "depth": 4}, 2),
        ("adder_tree", "mxfp4", {"cols": 2, "depth": 8}, 0),
    )
]
"""Every format, family, depth and number of registers."""


@dataclass(frozen=True)
class Jobs:
    """Products one behind the other, as a schedule of all of them."""

    plans: tuple[Schedule, ...]

    @property
    def output_beats(self) -> int:
        return sum(plan.output_beats for plan in self.plans)

    def input_beats(self, port: Any) -> int:
        return sum(plan.input_beats(port) for plan in self.plans)

    def stream(self, port: Any, blocks: Any) -> Iterator[tuple[Any, bool]]:
        for plan, own in zip(self.plans, blocks, strict=True):
            yield from plan.stream(port, own)

    def output_last(self) -> Iterator[bool]:
        for plan in self.plans:
            yield from plan.output_last()


@pytest.mark.slow
@pytest.mark.rotate(32)
def test_formats_follow_one_another_on_the_same_hardware(tmp_path: Path) -> None:
    array, rng = {"rows": 1, "cols": 2, "depth": 4}, np.random.default_rng(4)
    configs = {fmt: core("cube", fmt, array, 1) for fmt in SCALABLE}
    plans, packed, expected = [], [], []
    for fmt in rng.choice(list(SCALABLE), 24):
        config, (m, k, n) = configs[str(fmt)], (int(x) for x in rng.integers(1, (6, 90, 6)))
        a = config.activation.sample(rng, (m, k), "special" if rng.random() < 0.3 else "random")
        w = config.weight.sample(rng, (n, k), "random").T
        plan = Schedule(config, m, k, n)
        plans.append(plan)
        packed.append((plan.pack_activations(a), plan.pack_weights(w)))
        expected.append(golden(config, a, w))
    jobs: Any = Jobs(tuple(plans))
    own = configs["mxfp4"]
    acts, weights = zip(*packed, strict=True)
    blocks = {"act": acts, "wgt": weights}
    inputs = (port for port in own.ports if port.direction == "in")
    chunks = {port.name: jobs.stream(port, blocks[port.name]) for port in inputs}
    program = compile_stream(design_of(own))
    image, _ = run_stream(own, program, jobs, chunks, 100_000, tmp_path, timeout=300)
    at = 0
    for plan, wanted in zip(plans, expected, strict=True):
        result = plan.unpack_outputs(image[at : at + plan.output_beats])
        at += plan.output_beats
        np.testing.assert_array_equal(result.view(np.uint32), wanted.view(np.uint32))


def test_the_hardware_does_not_depend_on_the_format() -> None:
    texts = set()
    for fmt in SCALABLE:
        config = core("cube", fmt, {"rows": 1, "cols": 1, "depth": 4}, 0)
        texts.add(design_of(config).verilog.replace(config.digest, ""))
    assert len(texts) == 1


def test_short_formats_take_as_few_cycles_as_macs_of_their_own() -> None:
    counted = {}
    for fmt, count in SCALABLE.items():
        config = core("cube", fmt, {"rows": 2, "cols": 2, "depth": 8}, 1)
        plain = config_of("cube", fmt, fmt, "fp32", {"rows": 2, "cols": 2, "depth": 8 * count}, 1)
        assert config.macs_per_cycle == plain.macs_per_cycle == 32 * count
        assert cycles(config, 5, 256, 7) == cycles(plain, 5, 256, 7)
        counted[fmt] = cycles(config, 5, 256, 7)
    assert counted["mxint8"] == counted["mxfp8_e4m3"] > counted["mxfp6_e2m3"] > counted["mxfp4"]


@pytest.mark.parametrize("fmt", SCALABLE)
def test_images_of_weights_round_trip(fmt: str) -> None:
    config = core("cube", fmt, {"rows": 2, "cols": 3, "depth": 8}, 0)
    assert_weights_round_trip(config, np.random.default_rng(6))


MUTANT = {
    "activation": "mxint8", "weight": "mxint8", "accumulator": "fp32", "max_k": 200,
    "array": {"rows": 1, "cols": 2, "depth": 4, "pe": "scalable"}, "pipeline": {"pe": 1},
}  # fmt: skip

MUTATIONS = [
    Mutation("units of formats are not told apart", "edge_a", r"own_exponent \+ \w+",
             "own_exponent", MUTANT),
    Mutation("upper halves of W are in the place of lower ones", "pe",
             r"shift_0_3 = (\S+) \+ \S+;", r"shift_0_3 = \1;", MUTANT),
    Mutation("blocks of all formats are as long", "core", r"ends = beat == \w+", "ends = &beat",
             {**MUTANT, "activation": "mxfp4", "weight": "mxfp4"}),
]  # fmt: skip


ARRAY = "array: {rows: 1, cols: 1, depth: 16, pe: scalable}\n"

CONTRACT = Contract(
    "spatial_scalable",
    "cube",
    regressions=(
        Regressions(COVERING, every=18),
        Regressions(
            [
                core("cube", fmt, {"rows": 2, "cols": 1, "depth": depth}, pe)
                for fmt in SCALABLE
                for depth in (4, 8)
                for pe in (0, 1, 2)
            ],
            seed=2,
            long=True,
        ),
    ),
    mutations=(
        Mutations(
            family("cube").params_class, ("values_random", "values_special"), MUTATIONS, long=True
        ),
    ),
    refused=(
        *(
            (ARRAY + text, message)
            for text, message in (
                (
                    "activation: mxfp4\nweight: mxfp8_e4m3",
                    "must not be scalable with mxfp4 x mxfp8_e4m3",
                ),
                (
                    "activation: nvfp4\nweight: nvfp4",
                    "it multiplies mxint8, mxfp8_e4m3, mxfp6_e2m3 or",
                ),
                ("activation: int8", "must not be scalable with int8 x int8: neither is in blocks"),
                (
                    "activation: mxfp4\nweight: mxfp4\naccumulator: exact",
                    "accumulator: must be fp32 with array.pe scalable",
                ),
                (
                    "activation: mxfp4\nweight: mxfp4",
                    "array.depth: must be 4 or 8 with array.pe scalable",
                ),
            )
        ),
        (
            "family: broadcast_2d\nactivation: mxfp4\nweight: mxfp4\narray: {pe: scalable}",
            (
                "array.pe: must not be scalable without array.depth, 4 or 8 terms of each sum;"
                " take a family whose PEs have it"
            ),
        ),
    ),
)
