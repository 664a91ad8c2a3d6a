# SPDX-License-Identifier: Apache-2.0
"""The registry of simulators: flows use the one that is selected, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from flows.build.design import Design
from flows.build.load import parse_config
from flows.simulation import registry
from flows.simulation.engine_program import compile_model
from flows.simulation.registry import DEFAULT, SIMULATORS, VARIABLE, simulator
from flows.simulation.runner import compile_design
from flows.simulation.stream_program import compile_stream
from flows.simulation.verilator.simulator import Verilator
from hwgen.errors import InputError


class Recording(Verilator):
    """Compiles nothing."""

    def compile(self, top: str, verilog: str, **options: object) -> Path:
        return Path(f"cocotb {top}")

    def compile_program(
        self, top: str, sources: Mapping[str, str], program: Sequence[str], **options: object
    ) -> Path:
        assert {f"{top}.v", *program} <= sources.keys()
        return Path(f"program {top}")

    def compile_library(
        self, top: str, sources: Mapping[str, str], program: Sequence[str], **options: object
    ) -> Path:
        assert {f"{top}.v", *program} <= sources.keys()
        return Path(f"library {top}")


def test_every_simulator_is_loaded() -> None:
    assert DEFAULT in SIMULATORS
    for name in SIMULATORS:
        assert registry._load(name) is registry._load(name)


def test_an_unknown_simulator_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "verilatr")
    with pytest.raises(InputError, match=r"did you mean 'verilator'\?\); there are verilator"):
        simulator()


def test_flows_compile_with_the_selected_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SIMULATORS", {**SIMULATORS, "recording": Recording})
    monkeypatch.setenv(VARIABLE, "recording")
    design = Design.of(parse_config("name: adder\nfamily: adder_tree\n"))
    assert compile_design(design) == Path("cocotb adder")
    assert compile_stream(design) == Path("program adder")
    assert compile_model("engine", "", []) == Path("library engine")
