# SPDX-License-Identifier: Apache-2.0
"""A compiled decoder on a board: its image, a prompt and the tokens go through the pins."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.bench import board_text
from flows.bench.board_text import Progress, write_text
from flows.bench.common import ROOT, section
from flows.board.programs import generate, load_image, preload_image
from flows.board.simulation import SimulatedBoard
from flows.build.design import Design
from hwgen.board import BoardError, EngineBoard, connect_engine
from hwgen.board.registry import board
from hwgen.cli import main
from hwgen.errors import CheckFailed, InputError
from hwgen.models.compile.compilation import Settings
from hwgen.models.compile.compiled_files import ENGINE
from hwgen.models.compile.list_compilation import ListCompilation
from hwgen.models.compile.list_program import CompiledList, ListProgram
from sim_tests.board.simulated import BAUD
from sim_tests.board.test_engine import QuickBoard
from sim_tests.engines.decoder_engines import small_engine
from sim_tests.models.test_model_compile import PROMPT, SMALL
from sim_tests.models.test_model_golden import quantised


class Recorded:
    """A board whose memory is an array, and whose list never ends."""

    def __init__(self) -> None:
        self.written: dict[int, bytes] = {}
        self.time, self.resets = 0.0, 0
        self.transport = self

    def write_memory(self, address: int, data: bytes) -> None:
        self.written[address] = data

    def write_register(self, register: int, value: int) -> None:
        self.time += 1.0

    def read_register(self, register: int) -> int:
        self.time += 1.0
        return 1

    def now(self) -> float:
        return self.time

    def reset(self) -> None:
        self.resets += 1


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> CompiledList:
    path = tmp_path_factory.mktemp("board")
    model = quantised(path, replace(SMALL, layers=1))
    memory = {"data_width": 32, "max_burst": 8, "outstanding": 2, "address_width": 32}
    config = small_engine(shared=True, memory=memory)
    ListCompilation(model, config, Settings(1, 8)).write(path)
    return CompiledList(path)


def test_a_list_that_does_not_end_is_an_error(compiled: CompiledList) -> None:
    port = Recorded()
    link: EngineBoard = port  # type: ignore[assignment]
    load_image(link, compiled)
    image = b"".join(port.written[address] for address in sorted(port.written))
    assert len(image) == compiled.bytes
    assert image.count(compiled.data) == 1
    with pytest.raises(BoardError, match="has not ended after 60 s; the board was reset"):
        generate(link, compiled, PROMPT[:1], 2)
    assert port.resets == 1
    tokens = np.frombuffer(port.written[compiled.arrays["tokens"].address], "<u4")
    assert tokens.tolist() == PROMPT[:1]


def test_a_real_board_is_not_preloaded(compiled: CompiledList) -> None:
    link: EngineBoard = Recorded()  # type: ignore[assignment]
    with pytest.raises(InputError, match="a board keeps no image"):
        preload_image(link, compiled)


class Counted:
    """A simulated board that counts."""

    cycles = words_moved = 0
    ratio = 1


def test_a_token_that_is_not_golden_ends_the_text() -> None:
    port: SimulatedBoard = Counted()  # type: ignore[assignment]
    progress = Progress(port, [3, 1, 4])
    Counted.cycles, Counted.words_moved = 50, 30
    progress.append([3])
    assert progress.document() == {
        "tokens": 1, "cycles": 50, "first_token_cycles": 50, "cycles_per_token": None,
        "share_of_peak": None,
    }  # fmt: skip
    Counted.cycles, Counted.words_moved = 150, 110
    progress.append([1])
    assert progress.document()["cycles_per_token"] == 100
    assert progress.document()["share_of_peak"] == 0.8
    with pytest.raises(CheckFailed, match="token 3 is 5, that of the golden model 4"):
        progress.append([5])
    with pytest.raises(CheckFailed, match="token 3 is 1, that of the golden model 4"):
        progress.append([1])
    progress.append([4])
    with pytest.raises(CheckFailed, match="token 4 is 4, that of the golden model None"):
        progress.append([4])


def test_the_page_has_the_stored_text() -> None:
    stored = board_text.stored()
    page = (ROOT / "docs" / "engines-on-boards.md").read_text(encoding="utf-8")
    assert section(page, board_text.SECTION).strip() == board_text.table(stored).strip()
    for each in stored:
        assert each["tokens"] == each["asked"] >= 32
        assert each["equal_memory_bytes"] > each["exchanged_bytes"] > 0


@pytest.mark.slow
@pytest.mark.rotate(96)
def test_a_preloaded_model_writes_golden_tokens_at_the_pins(compiled: CompiledList) -> None:
    design = QuickBoard(Design.of(compiled.config), board("ulx3s-85f"), baud=BAUD)
    reached: list[int] = []
    documents = []

    def on_token(document: dict[str, Any], tokens: list[int]) -> None:
        reached.append(len(tokens))
        documents.append(dict(document))

    write_text(design, compiled, PROMPT[:2], 3, on_token)
    assert reached[-1] == reached[-2] == 3
    assert documents[0]["equal_memory_bytes"] is None
    last = documents[-1]
    assert last["equal_memory_bytes"] == compiled.bytes
    assert last["first_token_cycles"] < last["list_cycles"] + 500_000
    assert 0 < last["share_of_peak"] < 1


@pytest.mark.slow
@pytest.mark.rotate(96)
def test_tokens_at_the_pins_are_golden(compiled: CompiledList, tmp_path: Path) -> None:
    golden = ListProgram(compiled)
    golden.start(PROMPT[:1])
    wanted = golden.run(0, 1, 2)
    design = QuickBoard(Design.of(compiled.config), board("ulx3s-85f"), baud=BAUD)
    port = SimulatedBoard(design)
    with connect_engine(port, design.design.core, baud=design.baud) as link:
        load_image(link, compiled)
        assert generate(link, compiled, PROMPT[:1], 2) == wanted
        assert not port.memory_error


def run_line(compiled: CompiledList, *options: str, config: str = "") -> list[str]:
    """Return a command line of `hwgen board run`, by default with the engine of the model."""
    path = ROOT / "configs" / "boards" / config if config else compiled.path / ENGINE
    line = ["board", "run", "--board", "ulx3s-85f", "-c", str(path)]
    return [*line, "--model", str(compiled.path), *options]


def prompt_file(directory: Path, tokens: list[int]) -> list[str]:
    """Return the option for a file of tokens."""
    np.save(directory / "prompt.npy", np.array(tokens))
    return ["--prompt-tokens", str(directory / "prompt.npy")]


@pytest.mark.parametrize(
    ("options", "config", "message"),
    [
        ([], "", "give either --prompt or --prompt-tokens"),
        (["--prompt", "a", "--clock", "auto"], "", "run takes the clock of its report"),
        (["--prompt", "a"], "", "16 more do not fit in the context of 8"),
        (["--prompt", "a"], "gemm.yaml", "executes no command lists"),
        (["--prompt", "a"], "decoder.yaml", "is compiled for an engine that differs from the"),
    ],
)
def test_what_run_cannot_do_is_refused(
    compiled: CompiledList, options: list[str], config: str, message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert main(run_line(compiled, *options, config=config)) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_run_says_what_a_port_lacks(
    compiled: CompiledList, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = prompt_file(tmp_path, [1 << 20])
    assert main(run_line(compiled, *wrong)) == 2
    assert "is not one of the model's" in capsys.readouterr().err
    absent = [*prompt_file(tmp_path, PROMPT[:2]), "--port", "/dev/none"]
    assert main(run_line(compiled, *absent, "--tokens", "2")) == 1
    assert "/dev/none: cannot be opened" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.rotate(96)
def test_run_continues_a_prompt_on_the_simulated_board(
    compiled: CompiledList, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = ListProgram(compiled)
    golden.start(PROMPT[:2])
    prompt = prompt_file(tmp_path, PROMPT[:2])
    line = run_line(compiled, *prompt, "--tokens", "3", "--baud", str(BAUD), "--json")
    assert main(line) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["tokens"] == golden.run(0, 2, 3)
    assert (result["where"], result["resent"]) == ("simulation", 0)
    assert result["seconds"] > 0
