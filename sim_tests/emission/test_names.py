# SPDX-License-Identifier: Apache-2.0
"""Names of accelerators: those that could not be simulated are refused, the others can be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.files import ports
from flows.build.load import parse_config
from flows.simulation import runner
from flows.simulation.run import run_product
from flows.simulation.runner import compile_design
from hwgen.config.names import SIMULATOR, VERILOG, reserved
from hwgen.core.registry import core_of
from hwgen.errors import ConfigError
from hwgen.families.systolic.params import SystolicConfig
from sim_tests.support.designs import design_of
from sim_tests.support.emitted import module_text
from sim_tests.support.paths import ROOT

CONFIGS = ROOT / "configs"

SMALL = "family: systolic\nname: '{}'\narray: {{rows: 2, cols: 2}}\n"

REFUSED = {
    "TOP": "which Verilator has for itself",
    "std": "which Verilator has for itself",
    "aclk": "which is, or may be, a signal in the top module",
    "m_axis_out_tdata": "which is, or may be, a signal in the top module",
    "s_axi_control_awaddr": "which is, or may be, a signal in the top module",
    "rst": "which is, or may be, a signal in the top module",
    "always_ff": "a reserved word of Verilog or SystemVerilog",
    "program": "a reserved word of Verilog or SystemVerilog",
}


def refusal(name: str) -> str:
    with pytest.raises(ConfigError) as raised:
        parse_config(SMALL.format(name), "file.yaml")
    return str(raised.value)


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_a_name_that_cannot_be_simulated_is_refused_at_its_line(name: str, reason: str) -> None:
    said = re.fullmatch(
        r"file\.yaml:2:1: name: must not be '(\w+)', (.*); try '(\w+)'", refusal(name)
    )
    assert said
    assert said[1] == name
    assert said[2] == reason
    assert parse_config(SMALL.format(said[3])).name == said[3]


def test_what_is_suggested_can_be_had() -> None:
    for name in (*VERILOG, *SIMULATOR, *REFUSED):
        suggested = re.search(r"try '(\w+)'", refusal(name))
        assert suggested
        assert not reserved(suggested[1])


@pytest.mark.parametrize(
    "values",
    [
        {"family": "systolic", "array": {"rows": 2, "cols": 2}},
        {
            "family": "ternary_lut",
            "array": {"tables": 2, "fetch_ports": 2},
            "post": {"outputs": ["int8"]},
        },
        {"family": "gemm_stream", "queue": 2},
    ],
    ids=lambda values: str(values["family"]),
)
def test_signals_of_the_top_module_are_refused(values: dict[str, Any]) -> None:
    import yaml

    config: Any = parse_config(yaml.safe_dump({"name": "tiny", **values}))
    top = module_text(design_of(config).verilog, "tiny")
    signals = set(re.findall(r"^  (?:input|output|wire|reg) (?:\[\S+\] )?(\w+)", top, re.M))
    assert signals >= {port["name"] for port in ports(core_of(config))}
    assert [name for name in sorted(signals) if not reserved(name)] == []


# Names of files and links beside the program, of Verilator's class and members, of the instance in
# the top module, and words of C++ and VHDL.
UNUSUAL = ["verilator_root", "lock", "runtime", "Vtop", "core", "template", "signal"]


@pytest.mark.slow
@pytest.mark.parametrize("name", UNUSUAL)
def test_other_unusual_names_are_simulated(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = parse_config(SMALL.format(name))
    a = np.array([[1, -2], [3, 4]])
    assert (run_product(design_of(config), a, a).result == a @ a).all()
    if name == UNUSUAL[0]:  # with cocotb's libraries, which cost most of the time
        monkeypatch.setattr(runner, "_host", None)
        assert (compile_design(design_of(config)) / name).is_file()
    assert isinstance(config, SystolicConfig)
