# SPDX-License-Identifier: Apache-2.0
"""The command line: exit statuses, messages, lazy imports, output that is whole or absent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import hwgen.cli
from flows.build import build as builds
from flows.build.load import parse_config
from hwgen.cli import cli, main
from hwgen.cli.support.outputs import MARKER, atomic_directory, write_file
from hwgen.core.registry import families
from hwgen.errors import InputError
from hwgen.technologies import technologies, technology_names

Fake = Callable[[str], list[str]]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Make a command ``fake`` with a given body; return its command line."""
    folder = tmp_path / "commands"
    folder.mkdir()
    # The package's own command table finds it, as it finds every module beside it.
    monkeypatch.setattr(hwgen.cli, "__path__", [*hwgen.cli.__path__, str(folder)])

    def make(body: str) -> list[str]:
        source = "\n".join(
            (
                "from __future__ import annotations",
                "import os, click",
                "from pathlib import Path",
                "from hwgen import errors",
                "from hwgen.cli.support import common",
                "from flows.build.load import load_config",
                "@click.command()",
                "@common.config_option",
                "@common.force_option",
                "@common.json_option",
                "def command(config, force, as_json):",
                textwrap.indent(body, "    "),
            )
        )
        (folder / "fake.py").write_text(source)
        monkeypatch.delitem(sys.modules, "hwgen.cli.fake", raising=False)
        config = tmp_path / "core.yaml"
        config.write_text("name: core\nfamily: systolic\n")
        return ["fake", "--config", str(config)]

    return make


def tree(path: Path) -> dict[str, str]:
    return {str(p.relative_to(path)): p.read_text() for p in sorted(path.rglob("*")) if p.is_file()}


# -- commands ------------------------------------------------------------------------------------


def test_every_module_is_a_documented_command() -> None:
    context = click.Context(cli)
    names = cli.list_commands(context)
    assert {"init", "families", "schema"} <= set(names)
    assert "support" not in names
    for name in names:
        command = cli.get_command(context, name)
        assert command is not None
        assert command.help, name
        assert hwgen.cli._summary(name), name


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert "schema" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"hwgen {hwgen.__version__}\n"
    assert main([]) == 2
    assert "Usage: hwgen" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["shcema"], "no command is called 'shcema' (did you mean 'schema'?)\ntry: hwgen --help"),
        (["init", "systolic", "--outptu", "x"], "--output"),
        (["init"], "Missing argument 'FAMILY'"),
        (["init", "sistolic"], "no family is called 'sistolic' (did you mean 'systolic'?)"),
        (["families", "sistolic"], "no family is called 'sistolic' (did you mean 'systolic'?)"),
        (["init", "systolic", "--name", "a b"], "the name of the core must be a letter"),
        (["init", "systolic", "--output", "/nowhere/x.yaml"], "/nowhere does not exist"),
        (["init", "systolic", "--output", "/"], "/ is a directory"),
        *(
            (
                ["map", "--config", f"configs/{name}.yaml", "--gemm", "8,8,8"],
                f"family: {name} cuts no product into blocks",
            )
            for name in ("transformer", "stream_engine", "attention")
        ),
    ],
)
def test_bad_input(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert err.startswith("error: ")
    assert text in err
    assert out == ""
    assert main([*arguments, "--json"]) == 2
    failure = json.loads(capsys.readouterr().out)["error"]
    assert failure["status"] == 2
    assert failure["message"]


def test_init(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.yaml"
    assert main(["init", "systolic"]) == 0
    text = capsys.readouterr().out
    assert main(["init", "systolic", "--output", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == str(path)
    assert path.read_text() == text
    assert parse_config(text).name == "systolic_core"
    assert main(["init", "systolic", "--output", str(path), "--name", "b"]) == 2
    assert capsys.readouterr().err.startswith(f"error: {path} exists; ")
    assert path.read_text() == text
    assert main(["init", "systolic", "--output", str(path), "--name", "b", "--force"]) == 0
    assert parse_config(path.read_text()).name == "b"
    assert [p.name for p in tmp_path.iterdir()] == ["a.yaml"]


@pytest.mark.rotate(24)
def test_the_feature_matrix_is_computed_from_trials(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Engines on FPGAs take minutes; the page of the documentation is held to the whole matrix.
    known = {name: "gowin" if name in technology_names("fpga") else name for name in technologies()}
    retarget = builds.retarget
    monkeypatch.setattr(builds, "retarget", lambda target, name: retarget(target, known[name]))
    assert main(["families", "--matrix", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    features = result["features"]
    assert features["activation"]["systolic"] == features["weight"]["systolic"]
    assert {"mxfp4", "int4_g128", *features["weight"]["systolic"]} <= set(
        features["weight"]["cube"]
    )
    assert {"int2", "uint16"} < set(features["activation"]["systolic"])
    assert {"int8", "bf16", "fp8_e4m3"} < set(features["query"]["attention"])
    assert "fused" in features["array.pe"]["cube"]
    assert "fused" not in features["array.pe"]["systolic"]
    assert {"fp16", "bf16"} < set(features["activation"]["ternary_lut"])
    # Legal only beside another choice: unsigned operands, a group of one weight.
    assert "uint8" in features["accumulator"]["cube"]
    assert features["array.method"]["ternary_lut"] == ["lut", "select", "multiply"]
    # Refused by the family whatever stands beside it.
    assert "serial_digit" not in features["array.pe"]["cube"]
    assert "weight" not in features["post.outputs"]
    assert "gemm_stream" not in result["cores_of_engines"]["gemm_stream"]
    assert all("cycles" in text for by in result["estimates"].values() for text in by.values())
    assert main(["families", "systolic", "--matrix"]) == 2


def test_families_and_schema(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert main(["families"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(families())
    assert main(["families", "Systolic"]) == 0
    text = capsys.readouterr().out
    assert "array.rows" in text
    assert "1..256" in text
    assert main(["families", "gemm_stream"]) == 0  # whose default core is long
    assert "The core: the configuration of" in capsys.readouterr().out
    assert main(["families", "systolic", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert "array.rows" in {p["name"] for p in entry["parameters"]}
    assert main(["schema"]) == 0
    assert "systolic" in json.loads(capsys.readouterr().out)["$defs"]


# -- exit statuses -------------------------------------------------------------------------------

ENDINGS = {
    "done": ("pass", 0, ""),
    "own status": ("return 1", 1, ""),
    "input": ("raise errors.InputError('no')", 2, "error: no\n"),
    "check": ("raise errors.CheckFailed('mismatch')", 1, "error: mismatch\n"),
    "tool": ("raise errors.ToolMissing('no Yosys')", 3, "error: no Yosys\n"),
    "missing file": ("open('/none/x')", 2, "error: /none/x: No such file or directory\n"),
    "full disk": ("raise OSError(28, os.strerror(28))", 2, "error: No space left on device\n"),
    "interrupt": ("raise KeyboardInterrupt", 130, "\ninterrupted\n"),
}


@pytest.mark.parametrize(("body", "status", "text"), ENDINGS.values(), ids=ENDINGS.keys())
def test_exit_status(
    body: str, status: int, text: str, fake: Fake, capsys: pytest.CaptureFixture[str]
) -> None:
    line = fake(body)
    assert main(line) == status
    assert capsys.readouterr().err.strip() == text.strip()
    assert main([*line, "--json"]) == status
    out = capsys.readouterr().out
    assert (json.loads(out)["error"]["status"] if text else status) == status


def test_defect(
    fake: Fake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HWGEN_DEBUG", raising=False)
    line = fake("raise ZeroDivisionError('one by zero')")
    assert main(line) == 70
    err = capsys.readouterr().err
    assert err.startswith("internal error: ZeroDivisionError: one by zero\n")
    assert "report" in err
    assert "Traceback" not in err
    monkeypatch.setenv("HWGEN_DEBUG", "1")
    assert main(line) == 70
    assert "Traceback" in capsys.readouterr().err


def test_configuration_errors_begin_with_their_position(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = fake("load_config(config)")
    path = tmp_path / "core.yaml"
    path.write_text("name: core\nfamily: systolic\nmax_k: 0\narray: {rows: '8'}\n")
    assert main([*line, "--json"]) == 2
    out, err = capsys.readouterr()
    assert err.splitlines() == [
        f"{path}:3:1: max_k: must be 1..16777216, not 0",
        f"{path}:4:9: array.rows: must be an integer, not the text '8'; remove the quotes",
    ]
    first = json.loads(out)["error"]["problems"][0]
    assert first == {
        "file": str(path),
        "line": 3,
        "column": 1,
        "field": "max_k",
        "message": "must be 1..16777216, not 0",
    }


def test_config_option_refuses_what_is_no_file(
    fake: Fake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = fake("load_config(config)")
    for wrong in (tmp_path, tmp_path / "none.yaml"):
        assert main([*line[:-1], str(wrong)]) == 2
        assert str(wrong) in capsys.readouterr().err
    assert main(line[:1]) == 2
    assert "--config" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_config_option_refuses_an_unreadable_file(fake: Fake, tmp_path: Path) -> None:
    line = fake("load_config(config)")
    (tmp_path / "core.yaml").chmod(0)
    assert main(line) == 2


@pytest.mark.parametrize("arguments", [["schema"], ["--help"]])
def test_closed_pipe_is_quiet(arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "hwgen", *arguments]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writer)
    assert done.stderr == b""
    assert done.returncode in (1, 141)


def test_handler_of_sigterm_is_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    main(["--version"])
    assert signal.getsignal(signal.SIGTERM) is before


# -- imports -------------------------------------------------------------------------------------


def imported(*arguments: str) -> set[str]:
    script = (
        "import sys; from hwgen.cli import main; main(sys.argv[1:]);"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stderr.split())


def test_imports_are_lazy() -> None:
    heavy = {"numpy", "pydantic", "amaranth", "yaml", "rich", "cocotb"}
    assert not imported("--help") & heavy
    assert not imported("--version") & heavy
    used = imported("init", "systolic")
    assert not used & {"numpy", "amaranth", "rich", "cocotb"}
    assert "hwgen.cli.schema" not in used


# -- output --------------------------------------------------------------------------------------


def write(path: Path, *, force: bool = False, **files: str) -> None:
    with atomic_directory(path, force=force) as folder:
        for name, text in files.items():
            (folder / name).write_text(text)


def test_new_directory(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b"
    write(out, x="1", y="2")
    assert set(tree(tmp_path)) == {"a/b/x", "a/b/y", f"a/b/{MARKER}"}
    umask = os.umask(0)
    os.umask(umask)
    assert out.stat().st_mode & 0o777 == 0o777 & ~umask


def test_earlier_output_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    write(tmp_path / "o", x="1", y="2")
    (tmp_path / "o" / "notes").write_text("mine")
    write(tmp_path / "o", y="3", z="4")
    files = tree(tmp_path / "o")
    assert files.pop(MARKER).splitlines()[1:] == ["y", "z"]
    assert files == {"notes": "mine", "y": "3", "z": "4"}
    assert [p.name for p in tmp_path.iterdir()] == ["o"]


def test_working_directory_as_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(Path(), x="1")
    write(Path(), x="2")
    assert tree(tmp_path)["x"] == "2"


def test_link_to_a_directory_as_output(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    write(tmp_path / "link", x="1")
    assert (tmp_path / "real" / "x").read_text() == "1"
    assert (tmp_path / "link").is_symlink()


def test_foreign_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("f")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "x").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    before = tree(tmp_path)
    for name, reason in (
        ("file", "is not a directory"),
        ("dangling", "is not a directory"),
        ("home", "is not empty and holds no earlier output"),
    ):
        with pytest.raises(InputError, match=reason):
            write(tmp_path / name, x="1")
    assert tree(tmp_path) == before
    write(tmp_path / "home", force=True, y="1")
    with pytest.raises(InputError, match="holds x, not written by hwgen"):
        write(tmp_path / "home", x="1")
    assert (tmp_path / "home" / "x").read_text() == "mine"
    write(tmp_path / "home", force=True, x="1")
    assert (tmp_path / "home" / "x").read_text() == "1"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("earlier", [False, True])
def test_nothing_is_left_by_an_error(
    tmp_path: Path, error: type[BaseException], earlier: bool
) -> None:
    out = tmp_path / "a" / "b"
    if earlier:
        write(out, x="1")
    before = tree(tmp_path)

    def fail() -> None:
        with atomic_directory(out) as folder:
            (folder / "x").write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert tree(tmp_path) == before
    assert earlier or list(tmp_path.iterdir()) == []


def test_an_exchange_that_fails_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "o"
    write(out, a="1", b="1")
    before = tree(tmp_path)
    rename, count = Path.rename, 0

    def failing(self: Path, target: Path) -> Path:
        nonlocal count
        count += 1
        if count == 5:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(InputError, match="Input/output"):
        write(out, a="2", c="2")
    assert tree(tmp_path) == before


def test_terminated_command_leaves_nothing(tmp_path: Path) -> None:
    script = (
        "import time, pathlib, click, hwgen.cli as c\n"
        "from hwgen.cli.support.outputs import atomic_directory\n"
        "@c.cli.command('slow')\n"
        "def slow():\n"
        "    with atomic_directory(pathlib.Path('out')) as folder:\n"
        "        (folder / 'x').write_text('half')\n"
        "        print('ready', flush=True)\n"
        "        time.sleep(60)\n"
        "c.LazyGroup.get_command = lambda self, ctx, name: slow\n"
        "c.LazyGroup.list_commands = lambda self, ctx: ['slow']\n"
        "raise SystemExit(c.main(['slow']))\n"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert list(tmp_path.iterdir()) == []


def test_write_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write_file(path, "a")
    with pytest.raises(InputError, match="exists"):
        write_file(path, b"b")
    assert path.read_text() == "a"
    write_file(path, b"b", force=True)
    assert tree(tmp_path) == {"x": "b"}


def test_as_a_process() -> None:
    command = [sys.executable, "-m", "hwgen", "init", "systolik", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["status"] == 2
    assert done.stderr.startswith("error: no family is called 'systolik'")
