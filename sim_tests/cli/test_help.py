# SPDX-License-Identifier: Apache-2.0
"""Help texts, options and names: alike in all commands."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from flows.build.build import Build, retarget
from flows.build.design import Design
from flows.build.load import parse_config
from hwgen.cli import cli, main
from hwgen.cli.support.common import task_progress
from hwgen.cli.support.groups import ALIASES
from hwgen.core.registry import families
from hwgen.plugins import match_name
from hwgen.progress import report, steps
from hwgen.reports import terminal
from hwgen.reports.configuration import template
from hwgen.reports.roofline import distinct
from hwgen.technologies import devices, technologies, technology_names
from hwgen.workloads import shipped


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield all commands by what is typed, groups and those inside them too."""

    def below(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
        yield path, command
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from below(f"{path} {name}", inner)

    return below("hwgen", cli)


ALL = dict(commands())
LEAVES = {path: each for path, each in ALL.items() if not isinstance(each, click.Group)}


def options(command: click.Command) -> dict[str, click.Option]:
    return {
        max(option.opts, key=len): option
        for option in command.params
        if isinstance(option, click.Option)
    }


@pytest.mark.parametrize("path", ALL)
def test_help_ends_with_an_example_that_the_command_takes(path: str) -> None:
    command = ALL[path]
    help_text = click.Context(command, info_name=path).get_help()
    lines = help_text.rstrip().splitlines()
    assert lines[-2] == "  Example:", path
    line = lines[-1].strip().removeprefix('eval "$(').removesuffix(')"').split(" > ")[0]
    words = shlex.split(line)
    assert " ".join(words).startswith(path)
    while isinstance(command, click.Group):  # an example of a group is one of a command inside
        path = f"{path} {words[len(path.split())]}"
        command = ALL[path]
    arguments = words[len(path.split()) :]
    parser = command.make_parser(click.Context(command))
    values, rest, _ = parser.parse_args(arguments)  # raises at an unknown option
    required = {each.name for each in command.params if each.required}
    assert required <= {name for name, value in values.items() if value is not None}
    assert not rest


UNITS = (
    "N", "BAUD", "BITS", "BYTES", "COLUMNS", "MHZ", "POINTS", "POSITIONS", "SECONDS", "SHARE", "T",
    "TOKENS",
)  # fmt: skip
"""Metavars of numbers: a unit, what they count, or N and T, which the help explains."""


@pytest.mark.parametrize("path", LEAVES)
def test_options_are_alike_in_all_commands(path: str) -> None:
    command = LEAVES[path]
    for name, option in options(command).items():
        if option.hidden:
            continue
        assert option.help, name
        assert option.help.endswith("."), name
        assert option.help[0].isupper() or re.match(r"\w+: ", option.help), name
        if isinstance(option.type, click.Path) or name in ("--target", "--gemm", "--jobs"):
            assert option.metavar, name
        if isinstance(option.type, (click.types.IntParamType, click.types.FloatParamType)):
            assert option.metavar in UNITS, f"{name}: say what it counts, or its unit"


def test_an_option_has_one_meaning() -> None:
    """Options that many commands have look and mean the same in each."""
    everywhere: dict[str, set[tuple[object, ...]]] = {}
    for command in LEAVES.values():
        for name, option in options(command).items():
            if option.hidden:
                continue
            choices = option.type.choices if isinstance(option.type, click.Choice) else ()
            shape = (tuple(option.opts), option.default, tuple(choices), option.is_flag)
            everywhere.setdefault(name, set()).add(shape)
    for name in ("--config", "--output", "--jobs", "--engine", "--force", "--json", "--gemm",
                 "--target", "--clock-mhz", "--workload", "--memory", "--check"):  # fmt: skip
        assert len({shape[0] for shape in everywhere[name]}) == 1, name
        assert len({shape[2] for shape in everywhere[name]}) == 1, name
    for name in ("--jobs", "--engine"):
        assert len(everywhere[name]) == 1, name
    helps = {options(each)["--jobs"].help for each in LEAVES.values() if "--jobs" in options(each)}
    assert all(text and text.endswith("; default one for each processor.") for text in helps)
    assert {shape[0] for shape in everywhere["--config"]} == {("-c", "--config")}
    assert not {"--m", "--k", "--n-columns"} & everywhere.keys()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["map", "-c", "configs/gemm_stream.yaml", "--m", "8"], "--m is part of --gemm M,K,N"),
        (["run", "-c", "configs/systolic.yaml", "-o", "c.npy", "--engine", "fast"], "--driver"),
    ],
)
def test_a_former_option_is_refused_with_the_present_one(
    arguments: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize("alias", ALIASES)
def test_aliases(alias: str, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["model", alias] if ALIASES[alias] == "quantise" else [alias]
    assert main([*line, "--help"]) == 0
    assert "Example:" in capsys.readouterr().out


# -- names ---------------------------------------------------------------------------------------


def test_names_are_read_in_any_spelling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert match_name("SKY130HD", technologies()) == "sky130hd"
    assert match_name("IHP_SG13G2", technologies()) == "ihp-sg13g2"
    assert match_name("iCE40-HX8K", devices()) == "ice40hx8k"
    assert match_name("ecp6", technologies()) is None
    for text in ("{technology: ECP5}", "{device: ECP5_45F}", "{device: ecp545f, technology: Ecp5}"):
        config = parse_config(f"name: a\nfamily: systolic\ntarget: {text}\n")
        assert config.target.technology == "ecp5"
        assert config.target.device in (None, "ecp5-45f")
    path = tmp_path / "a.yaml"
    path.write_text("name: a\nfamily: systolic\narray: {rows: 2, cols: 2}\n")
    assert main(["estimate", "-c", str(path), "--target", "NanGate45", "--gemm", "8,8,8"]) == 0
    assert "nangate45" in capsys.readouterr().out
    assert main(["estimate", "-c", str(path), "--target", "nangate54"]) == 2
    assert "did you mean 'nangate45'?" in capsys.readouterr().err


def completions(line: str) -> set[tuple[str, str]]:
    """Return type and value of what a shell offers at the end of a line."""
    *before, last = line.split(" ")[1:]
    shell = ShellComplete(cli, {}, "hwgen", "_HWGEN_COMPLETE")
    return {(item.type, item.value) for item in shell.get_completions(before, last)}


def test_shells_complete_commands_names_and_files() -> None:
    assert ("plain", "families") in completions("hwgen fam")
    assert {value for _, value in completions("hwgen init ")} == set(families())
    assert {v for _, v in completions("hwgen estimate --target ")} >= set(technologies())
    assert {v for _, v in completions("hwgen pnr --target ")} >= set(technology_names("fpga"))
    assert {value for _, value in completions("hwgen pnr --device ")} == set(devices())
    assert {value for _, value in completions("hwgen report --workload ")} == set(shipped())
    assert completions("hwgen report --workload ./my") == {("file", "./my")}
    assert ("plain", "--clock-mhz") in completions("hwgen synth --clo")
    for command in ("build -c ", "run --activations ", "model run --unit ", "synth --liberty "):
        assert {kind for kind, _ in completions(f"hwgen {command}")} == {"file"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert f"_HWGEN_COMPLETE={shell}_complete" in capsys.readouterr().out


def test_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["workloads"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in shipped())
    assert main(["workloads", "gpt2-decode"]) == 0
    assert re.search(r"up +12 +1 x 768 x 3072", capsys.readouterr().out)


# -- messages ------------------------------------------------------------------------------------


def test_a_file_of_another_kind_is_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "-c", "configs/sweeps/tradeoff.yaml"]) == 2
    assert "hwgen sweep --config configs/sweeps/tradeoff.yaml" in capsys.readouterr().err
    assert main(["sweep", "-c", "configs/systolic.yaml"]) == 2
    assert "the configuration of one core" in capsys.readouterr().err
    assert main(["build", "-c", "hwgen/workloads/gpt2_decode.yaml"]) == 2
    assert "--workload" in capsys.readouterr().err


def test_a_plural_is_taken_for_its_singular(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("name: a\nfamily: systolic\nweights: int4\n")
    assert main(["build", "-c", str(path)]) == 2
    assert "did you mean 'weight'?" in capsys.readouterr().err


def test_a_missing_liberty_file_has_an_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("HWGEN_PDK_DIR", str(tmp_path))
    assert main(["synth", "-c", "configs/systolic.yaml", "--target", "sky130hd"]) == 3
    assert "OpenSTA" in capsys.readouterr().err


def test_figures_that_differ_look_different() -> None:
    assert distinct(110.0, 109.98) == ("110", "109.98")
    assert distinct(110.0, 54.0) == ("110", "54")
    assert distinct(110.0, 110.0) == ("110", "110")


def test_default_clocks_of_fpgas_are_reached() -> None:
    config = parse_config(template("systolic").replace("clock_mhz: 500.0", ""))
    design = Design.of(config)
    checked = 0
    for name in technology_names("fpga"):
        target = retarget(config.target, name)
        fmax = Build(design, target).estimate()["metrics"].get("fmax_mhz")
        checked += fmax is not None
        assert fmax is None or fmax >= target.clock_mhz, name
    assert checked >= 4
    asked = parse_config("name: a\nfamily: systolic\ntarget: {clock_mhz: 333}\n").target
    assert retarget(asked, "ecp5").clock_mhz == 333
    assert parse_config("name: a\nfamily: systolic\ntarget: {technology: ecp5}\n").target == (
        retarget(config.target, "ecp5")
    )


# -- progress ------------------------------------------------------------------------------------


def test_progress_is_lines_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(terminal, "FIRST_LINE", 0.01)
    monkeypatch.setattr(terminal, "MINUTE", 0.05)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    with task_progress("importing", quiet=False):
        for _ in steps("tensors", range(4)):
            time.sleep(0.06)
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 6
    assert all(re.match(r"importing: \d+ s, ", line) for line in lines)
    assert any(re.search(r"1 of 4 tensors, about \d+ s left", line) for line in lines)
    with task_progress("importing", quiet=True):
        report("tensors", 1, 2)
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


Capture = pytest.CaptureFixture[str]
