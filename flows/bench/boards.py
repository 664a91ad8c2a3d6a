# SPDX-License-Identifier: Apache-2.0
"""Tables of ``docs/boards.md``, and a page for each board: data files, and stored results.

``python -m flows.bench.boards docs/boards.md [DIR ...]`` writes them, the pages into the folder
``boards`` next to it; each DIR is an output of ``hwgen board build``, whose report is stored in
``boards.json`` beside this module.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.bench.common import (
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
from flows.board.simulation import SimulatedBoard
from flows.build.load import load_design
from flows.demonstration.board import BAUD, classify
from hwgen.board.model import LINKS, BoardData
from hwgen.board.registry import board, boards

RESULTS = Path(__file__).with_name("boards.json")

CONFIGURATIONS = Path("configs") / "boards"
"""Where the configurations of what is stored are, from the root of the repository."""

PAGES = "boards"
"""Folder of the pages, next to that of the tables."""

_STORED = (
    "name", "board", "device", "link", "clock_mhz", "oscillator_mhz", "pll", "clocks_tried_mhz",
    "fmax_mhz", "fmax_of_seeds_mhz", "estimated_fmax_mhz", "utilization", "estimated", "bitstream",
    "bitstream_bytes", "digest", "seconds",
)  # fmt: skip
"""Fields of a report that are stored."""

_KEY = ("board", "name")

_LOGIC = ("ICESTORM_LC", "TRELLIS_COMB", "LUT4", "CPE_LT", "CPE")
_MULTIPLIERS = ("ICESTORM_DSP", "MULT18X18D", "MULT18X18", "CPE_MULT")
_MEMORIES = ("ICESTORM_RAM", "DP16KD", "BSRAM", "RAM_HALF", "RAM")


def boards_table() -> str:
    """Return the table of all boards, with device, clock and pins."""
    rows = []
    for name in boards():
        data = board(name)
        pins = data.pins
        rows.append([
            f"[{name}](boards/{name}.md)", data.summary, f"`{data.device}`", data.package,
            f"{data.clock.mhz:g}",
            *(pins.get(port, "-") for port in ("clk", "rx", "tx", "led", "button")),
            data.uart.note, _bus(data),
        ])  # fmt: skip
    headings = ("board", "is", "device", "package", "MHz", "clk", "rx", "tx", "led", "button",
                "serial port", "cs, sck, mosi, miso")  # fmt: skip
    return markdown(headings, rows)


def _bus(data: BoardData) -> str:
    """Return the pins of a serial peripheral bus, and where they lead."""
    if data.spi is None:
        return "-"
    pins = ", ".join(getattr(data.spi, name) for name in LINKS["spi"])
    return f"{pins}: {data.spi.note}"


_HEADINGS = (
    "board", "core", "logic cells", "LUTs by estimate", "memories", "by estimate", "multipliers",
    "by estimate", "clock, MHz", "Fmax of the seeds, MHz", "by estimate", "bytes", "minutes",
    "images a second",
)  # fmt: skip


def results_table(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the table of builds, from the contents of their ``board.json``."""
    rows = [[f"[{document['board']}](boards/{document['board']}.md)", *_result(document)]
            for document in _ordered(documents)]  # fmt: skip
    return markdown(_HEADINGS, rows)


def _ordered(documents: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(documents, key=lambda each: (str(each["name"]), str(each["board"])))


def _result(document: Mapping[str, Any]) -> list[str]:
    """Return a row of results without its board."""
    used, estimated = document["utilization"], document["estimated"]
    minutes = document.get("seconds")
    seeds = sorted(mhz for mhz in document["fmax_of_seeds_mhz"] if mhz is not None)
    return [
        f"`{document['name']}`",
        _count(used, _LOGIC), f"{estimated['luts']['used']:,}",
        _count(used, _MEMORIES), f"{estimated['brams']['used']:,}",
        _count(used, _MULTIPLIERS), f"{estimated.get('dsps', {}).get('used') or 0:,}",
        f"{document['clock_mhz']:g}", ", ".join(f"{mhz:.1f}" for mhz in seeds),
        _number(document["estimated_fmax_mhz"]), f"{document['bitstream_bytes']:,}",
        _number(minutes and minutes / 60), _number(document.get("images_per_s")),
    ]  # fmt: skip


def board_page(name: str, documents: Iterable[Mapping[str, Any]]) -> str:
    """Return the page of a board: facts, pins, commands, and results of its builds.

    Parameters
    ----------
    name : str
    documents : iterable of mapping
        Stored reports of any boards.
    """
    data = board(name)
    facts = [
        ["device, package", f"`{data.device}`, {data.package}"],
        ["speed grade", data.speed or "-"],
        ["oscillator", f"{data.clock.mhz:g} MHz, pin {data.clock.pin}"],
        ["other clocks", f"`{data.pll}`" if data.pll else "none"],
        ["bitstream", f"`.{data.bitstream}`; openFPGALoader calls the board `{data.loader}`"],
        ["source of the pins", data.source],
    ]
    pins = [
        [f"`{link}`", ", ".join(f"{port} {data.pins_of(link)[port]}" for port in LINKS[link]),
         data.of_link(link).note]
        for link in data.links
    ]  # fmt: skip
    others = (("light, lit at", data.led), ("reset button, pressed at", data.button))
    pins += [
        [label, pin.pin, "0" if pin.active_low else "1"] for label, pin in others if pin is not None
    ]
    results = [_result(each) for each in _ordered(documents) if each["board"] == name]
    clocks = [
        [f"`{each['name']}`", f"{asked:g}", f"{reached:.1f}", "yes" if reached >= asked else "no"]
        for each in _ordered(documents)
        if each["board"] == name
        for asked, reached in each["clocks_tried_mhz"]
    ]
    parts = [
        f"<!-- Generated by `make docs`: do not edit. -->\n\n# {data.summary}\n",
        markdown(("", f"`{name}`"), facts),
        "## Pins\n",
        markdown(("use", "pins", "leads to, or level"), pins),
        _COMMANDS.format(name=name, ending=data.bitstream),
        "## Results\n",
    ]
    if results:
        parts += [
            "Placed and routed with the seeds that are shown; the fastest was packed.\n",
            markdown(_HEADINGS[1:], results),
        ]
    else:
        parts.append("None are stored.\n")
    if clocks:
        parts += [
            "Clocks that `--clock auto` tried, and what the best seed reached:\n",
            markdown(("core", "clock, MHz", "Fmax, MHz", "met"), clocks),
        ]
    return "\n".join(parts)


_COMMANDS = """## Use

[Boards](../boards.md) describes all options.

<!-- not run: place and route takes minutes, and the last two commands need a board -->
```console
$ hwgen board build --board {name} --config configs/boards/digits.yaml --clock auto --output build/x
$ hwgen board test --board {name} --config configs/boards/digits.yaml
$ hwgen board load --board {name} build/x/digits_board.{ending}
$ hwgen board test --board {name} --config configs/boards/digits.yaml --port /dev/ttyUSB1
```
"""


def stored() -> list[Document]:
    """Return the stored reports."""
    return read_results(RESULTS)


def store(folders: Iterable[Path]) -> None:
    """Store the reports of builds, in place of earlier ones of their boards and cores."""
    reports = (
        json.loads((folder / "board.json").read_text(encoding="utf-8")) for folder in folders
    )
    chosen = ({name: report[name] for name in _STORED} for report in reports)
    store_results(RESULTS, _KEY, chosen)


def store_images(name: str, count: int) -> None:
    """Store how many digits a second each stored design on a board reads, simulated at its pins.

    Parameters
    ----------
    name : str
        The board.
    count : int
        Images.
    """
    documents = [each for each in stored() if each["board"] == name]
    data = board(name)
    for document in documents:
        pll = pll_of(data, document["clock_mhz"]) if document["pll"] else None
        config = load_design(CONFIGURATIONS / f"{document['name']}.yaml")
        design = BoardDesign(config, data, baud=BAUD, pll=pll)
        done = classify(design, SimulatedBoard(design), count)
        document["images_per_s"] = done.images / done.seconds
    store_results(RESULTS, _KEY, documents)


def _count(used: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> str:
    row = next((used[name] for name in names if name in used), None)
    return "0" if row is None else f"{row['used']:,} of {row['available']:,}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables into a page."""
    options = parser("boards", __doc__)
    options.add_argument("page", type=Path, help="docs/boards.md")
    options.add_argument("outputs", nargs="*", type=Path, metavar="DIR",
                         help="output of hwgen board build")  # fmt: skip
    options.add_argument(
        "--images", action="append", default=[], metavar="BOARD", choices=boards(),
        help="let what is stored of a board read digits, simulated at its pins",
    )  # fmt: skip
    options.add_argument("--count", type=int, default=60, metavar="IMAGES",
                         help="how many (default: %(default)s)")  # fmt: skip
    chosen = options.parse_args(arguments)
    if chosen.outputs:
        store(chosen.outputs)
    for name in chosen.images:
        store_images(name, chosen.count)
    documents = stored()
    write_sections(chosen.page, {"boards": boards_table(), "results": results_table(documents)})
    folder = chosen.page.parent / PAGES
    folder.mkdir(exist_ok=True)
    for name in boards():
        (folder / f"{name}.md").write_text(board_page(name, documents), encoding="utf-8")
    return 0


if __name__ == "__main__":
    run(main)
