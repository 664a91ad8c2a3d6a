# SPDX-License-Identifier: Apache-2.0
"""Text of a language model on a simulated board, token by token: ``make bench-board-text``.

A quantised decoder is compiled for the engine of a configuration. The complete design of the board
is simulated at its pins, with a model of the SDRAM at those of the memory: a prompt goes in over
the serial port, and tokens come out. Each must be that of the golden interpreter; at the end every
byte of the memory must be. The memory starts with the image of the model but for some blocks, which
go through the pins, too. What was reached is stored after each token in ``board_text.json`` beside
this module, and the table of ``docs/engines-on-boards.md`` is made from it.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import click
import numpy as np

from flows.bench.common import (
    ROOT,
    Document,
    markdown,
    parser,
    read_results,
    run,
    store_results,
    write_sections,
)
from flows.board.build import pll_of
from flows.board.design import BoardDesign
from flows.board.programs import generate, preload_image
from flows.board.simulation import SimulatedBoard, compile_board
from flows.board.text import compiled_for, encode
from flows.build.load import load_design
from hwgen.board import EngineBoard, connect_engine
from hwgen.board.registry import board as board_named
from hwgen.errors import CheckFailed
from hwgen.models.compile.list_program import CompiledList, ListProgram

RESULTS = Path(__file__).with_suffix(".json")
"""Results of the last runs, one for each board, configuration and clock."""

SECTION = "board-text"
PROMPT = "Emma was not at all surprised to see"
BAUD = 3_000_000

CYCLES = 1 << 30
"""Cycles that the simulation is compiled for, about."""

BLOCKS, BLOCK_BYTES = 8, 256
"""Blocks of the image that are written at the pins, as many that are read there, and their size."""

_KEY = ("board", "configuration", "clock_mhz", "memory_ratio")


def exchange_blocks(connection: EngineBoard, port: SimulatedBoard, compiled: CompiledList) -> int:
    """Write and read blocks of a preloaded image at the pins, and return how many bytes.

    The blocks to write are cleared before: without them the network is another one.

    Parameters
    ----------
    connection : EngineBoard
    port : SimulatedBoard
        Its transport, whose memory holds the image.
    compiled : CompiledList

    Raises
    ------
    CheckFailed
        If a block differs.
    """
    image = compiled.image()
    starts = Random(1).sample(range(len(image) - BLOCK_BYTES), 2 * BLOCKS)
    for number, start in enumerate(starts):
        address, block = compiled.base + start, image[start : start + BLOCK_BYTES]
        if number < BLOCKS:
            result, way = connection.read_memory(address, BLOCK_BYTES), "read"
        else:
            port.preload(address, bytes(BLOCK_BYTES))
            connection.write_memory(address, block)
            result, way = port.inspect(address, BLOCK_BYTES), "written"
        if result != block:
            raise CheckFailed(
                f"the block of the image at {address:#x} is {way} wrongly at the pins"
            )
    return len(starts) * BLOCK_BYTES


class Progress:
    """Tokens that come from a board, compared with golden ones.

    Parameters
    ----------
    port : SimulatedBoard
    wanted : sequence of int
        The golden tokens.

    Attributes
    ----------
    tokens, cycles, words : list of int
        The tokens that have come, the cycles at which the host had each since the beginning, and
        the words that had gone over the data pins of the SDRAM then.
    """

    def __init__(self, port: SimulatedBoard, wanted: Sequence[int]) -> None:
        self._port, self._begin, self.wanted = port, port.cycles, list(wanted)
        self.tokens: list[int] = []
        self.cycles: list[int] = []
        self.words: list[int] = []

    def append(self, tokens: Sequence[int]) -> None:
        """Compare the next tokens.

        Raises
        ------
        CheckFailed
            If one differs from the golden one.
        """
        for token in tokens:
            at = len(self.tokens)
            golden = self.wanted[at] if at < len(self.wanted) else None
            if token != golden:
                raise CheckFailed(f"token {at + 1} is {token}, that of the golden model {golden}")
            self.tokens.append(token)
            self.cycles.append(self._port.cycles - self._begin)
            self.words.append(self._port.words_moved)

    def document(self) -> Document:
        """Return cycles by token, and the share of the SDRAM's peak after the first token."""
        result: Document = {
            "tokens": len(self.tokens), "cycles": self.cycles[-1],
            "first_token_cycles": self.cycles[0], "cycles_per_token": None, "share_of_peak": None,
        }  # fmt: skip
        if len(self.tokens) > 1:
            cycles = self.cycles[-1] - self.cycles[0]
            result["cycles_per_token"] = round(cycles / (len(self.tokens) - 1))
            words = self.words[-1] - self.words[0]
            result["share_of_peak"] = round(words / (cycles * self._port.ratio), 4)
        return result


def write_text(
    design: BoardDesign,
    compiled: CompiledList,
    prompt: list[int],
    count: int,
    on_token: Callable[[Document, list[int]], None],
) -> None:
    """Append tokens to a prompt on a simulated board, and compare everything with golden.

    Parameters
    ----------
    design : BoardDesign
    compiled : CompiledList
    prompt : list of int
    count : int
        Tokens to append.
    on_token : callable
        Gets what was reached and all tokens, after each token and at the end.

    Raises
    ------
    CheckFailed
        If a token or a byte of the memory differs from golden, or the SDRAM is used against its
        data sheet.
    """
    golden = ListProgram(compiled)
    golden.start(prompt)
    wanted = golden.run(0, len(prompt), count)
    port = SimulatedBoard(design, library=compile_board(design, cycles=CYCLES))
    with connect_engine(port, design.design.core, baud=design.baud) as connection:
        preload_image(connection, compiled)
        document = {
            "exchanged_bytes": exchange_blocks(connection, port, compiled),
            "equal_memory_bytes": None,
        }
        progress, begin = Progress(port, wanted), time.process_time()

        def append(tokens: list[int]) -> None:
            progress.append(tokens)
            reached = progress.document()
            speed = reached["cycles"] / (time.process_time() - begin)
            document.update(reached, simulated_cycles_per_s=round(speed))
            on_token(document, progress.tokens)

        generate(connection, compiled, prompt, count, on_tokens=append)
        _check_end(port, compiled, golden, progress)
        words = [connection.read_register(f"CYCLES_{part}") for part in ("LOW", "HIGH")]
        document.update(equal_memory_bytes=compiled.bytes, list_cycles=words[0] | words[1] << 32)
        on_token(document, progress.tokens)


def _check_end(
    port: SimulatedBoard, compiled: CompiledList, golden: ListProgram, progress: Progress
) -> None:
    """Compare the number of tokens and the whole memory with the golden interpreter's."""
    reached, wanted = len(progress.tokens), len(progress.wanted)
    if reached != wanted:
        raise CheckFailed(f"{reached} tokens have come, of the golden model {wanted}")
    result = np.frombuffer(port.inspect(compiled.base, compiled.bytes), np.uint8)
    wrong = np.flatnonzero(result != np.frombuffer(golden.memory.data, np.uint8))
    if len(wrong):
        address = compiled.base + int(wrong[0])
        raise CheckFailed(
            f"{len(wrong)} bytes of memory differ from golden, the first at {address:#x}"
        )
    port.check_memory()


@dataclass(frozen=True)
class Request:
    """Text to write on a board.

    Parameters
    ----------
    board, prompt : str
    config, model : Path
        Configuration of the engine, and a quantised decoder, or one compiled for it.
    count : int
        Tokens to append.
    clock_mhz : float, optional
        Default that of the configuration's target.
    memory_ratio : int
        Cycles of the SDRAM in one of the design.
    """

    board: str
    config: Path
    model: Path
    prompt: str
    count: int
    clock_mhz: float | None = None
    memory_ratio: int = 1

    def design(self) -> BoardDesign:
        """Return the design that is simulated, and that a bitstream is made of."""
        data, design = board_named(self.board), load_design(self.config)
        clock_mhz = self.clock_mhz or design.params.target.clock_mhz
        pll = pll_of(data, clock_mhz)
        return BoardDesign(design, data, baud=BAUD, pll=pll, memory_ratio=self.memory_ratio)


def measure(request: Request, store: Callable[[Document], None]) -> None:
    """Write a text on a simulated board; see `write_text`.

    Parameters
    ----------
    request : Request
    store : callable
        Gets the document of what was reached, after each token and at the end.
    """
    design = request.design()
    with tempfile.TemporaryDirectory(prefix="hwgen-board-text-") as directory:
        compiled = compiled_for(design.design.core, request.model, Path(directory))
        tokenizer, prompt = encode(compiled, request.prompt)
        document = {
            "board": request.board,
            "configuration": request.config.stem,
            "clock_mhz": design.clock_mhz,
            "memory_ratio": design.ratio,
            "model": compiled.document["name"],
            "verilog_sha256": hashlib.sha256(design.verilog.encode()).hexdigest(),
            "baud": design.baud,
            "prompt": request.prompt,
            "prompt_tokens": len(prompt),
            "asked": request.count,
        }

        def on_token(reached: Document, tokens: list[int]) -> None:
            text = tokenizer.decode(tokens)
            store({**document, **reached, "text": text})
            click.echo(
                f"{len(tokens)} of {request.count} tokens are golden, {reached['cycles']:,} cycles,"
                f" {reached['simulated_cycles_per_s']:,} simulated a second: {text!r}",
                err=True,
            )

        click.echo("running the golden interpreter, compiling the simulation", err=True)
        write_text(design, compiled, prompt, request.count, on_token)


def stored() -> list[Document]:
    """Return the stored results."""
    return read_results(RESULTS)


def store(document: Mapping[str, Any]) -> None:
    """Store results in place of earlier ones of that board, configuration and clock."""
    store_results(RESULTS, _KEY, [dict(document)])


_HEADINGS = (
    "board", "configuration", "model", "clock, MHz", "clock of the SDRAM", "tokens of the prompt",
    "tokens appended, each golden", "bytes of memory, each golden", "cycles to the first token",
    "cycles of each other token", "tokens/s", "share of the SDRAM's peak", "SHA-256 of the Verilog",
)  # fmt: skip


def table(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of stored results."""
    rows = []
    for each in documents:
        cycles, share = each["cycles_per_token"], each["share_of_peak"]
        first, equal = each.get("first_token_cycles"), each["equal_memory_bytes"]
        rows.append([
            each["board"], f"`{each['configuration']}`", each["model"], f"{each['clock_mhz']:g}",
            f"{each['memory_ratio'] * each['clock_mhz']:g}", f"{each['prompt_tokens']}",
            f"{each['tokens']} of {each['asked']}",
            f"{equal:,}" if equal else "not compared", f"{first:,}" if first else "-",
            f"{cycles:,}" if cycles else "-",
            f"{1e6 * each['clock_mhz'] / cycles:.1f}" if cycles else "-",
            f"{100 * share:.1f} %" if share else "-", f"`{each['verilog_sha256'][:12]}`",
        ])  # fmt: skip
    return markdown(_HEADINGS, rows, left=3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure or read what is stored, and print the table or write it into a page."""
    options = parser("board_text", __doc__)
    options.add_argument("--board", default="ulx3s-85f", help="default %(default)s")
    options.add_argument("--config", type=Path, metavar="FILE",
                         default=ROOT / "configs" / "boards" / "decoder.yaml",
                         help="configuration, default configs/boards/decoder.yaml")  # fmt: skip
    options.add_argument("--model", type=Path, metavar="DIR",
                         default=ROOT / "build" / "austen-int8",
                         help="quantised decoder, default build/austen-int8")  # fmt: skip
    options.add_argument("--prompt", metavar="TEXT", default=PROMPT, help="default %(default)r")
    options.add_argument("--tokens", type=int, default=32, metavar="N", help="default %(default)s")
    options.add_argument("--clock", type=float, metavar="MHZ",
                         help="clock of the board, default that of the configuration")  # fmt: skip
    options.add_argument("--memory-ratio", type=int, default=1, choices=[1, 2],
                         help="cycles of the SDRAM in one of the design")  # fmt: skip
    options.add_argument("--stored", action="store_true", help="measure nothing")
    options.add_argument("--write", type=Path, metavar="PAGE", help="docs/engines-on-boards.md")
    chosen = options.parse_args(arguments)
    if not chosen.stored:
        request = Request(
            chosen.board, chosen.config, chosen.model, chosen.prompt, chosen.tokens, chosen.clock,
            chosen.memory_ratio,
        )  # fmt: skip
        measure(request, store)
    documents = stored()
    click.echo(json.dumps(documents, indent=1) if chosen.json else table(documents))
    if chosen.write:
        write_sections(chosen.write, {SECTION: table(documents)})
    return 0


if __name__ == "__main__":
    run(main)
