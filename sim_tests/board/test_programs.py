# SPDX-License-Identifier: Apache-2.0
"""A compiled decoder on a board: its image, a prompt and the tokens go through the pins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flows.board.programs import generate, load_image
from flows.board.simulation import SimulatedBoard
from flows.build.design import Design
from hwgen.board import BoardError, EngineBoard, connect_engine
from hwgen.board.registry import board
from hwgen.models.compile.compilation import Settings
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
    assert len(port.written[compiled.base]) == compiled.bytes
    with pytest.raises(BoardError, match="has not ended after 60 s; the board was reset"):
        generate(link, compiled, PROMPT[:1], 2)
    assert port.resets == 1
    tokens = np.frombuffer(port.written[compiled.arrays["tokens"].address], "<u4")
    assert tokens.tolist() == PROMPT[:1]


@pytest.mark.slow
@pytest.mark.rotate(48)
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
