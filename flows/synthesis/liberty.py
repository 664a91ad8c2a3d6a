# SPDX-License-Identifier: Apache-2.0
"""The Liberty files of standard-cell technologies.

hwgen ships no Liberty files: they are searched in the directory ``HWGEN_PDK_DIR``, else in
``shared/pdk`` beside the checkout, under the names in the technology's data file, compressed or
not; a package may also have them beside that file.  `prepare` makes one library of them that a
mapper and a timer can both read as it is: without the cells that a mapper must not pick, and
without wire loads, so that technologies compare.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from hwgen.errors import InputError, ToolMissing
from hwgen.technologies import cell_library, file_of
from hwgen.technologies.model import StandardCells


@dataclass(frozen=True)
class Cell:
    """A cell of a library.

    Parameters
    ----------
    area : float
        In um2.
    sequential : bool
        Whether it stores anything.
    inputs : mapping
        Capacitance of its inputs in fF.
    """

    area: float
    sequential: bool
    inputs: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Library:
    """A library ready for mapping and timing.

    Parameters
    ----------
    text : str
        The Liberty text.
    cells : mapping
        Its cells by name.
    """

    text: str
    cells: Mapping[str, Cell]


def pdk_directory() -> Path:
    """Return the directory of Liberty files; it need not exist."""
    if chosen := os.environ.get("HWGEN_PDK_DIR"):
        return Path(chosen).expanduser().absolute()
    return Path(__file__).resolve().parents[3] / "shared" / "pdk"


def liberty_files(tech: StandardCells, chosen: Sequence[str | Path] = ()) -> tuple[Path, ...]:
    """Return the Liberty files of a technology.

    Parameters
    ----------
    tech : StandardCells
    chosen : sequence of path
        The files to take instead (``--liberty``); what the technology says about cells must hold
        for them.

    Raises
    ------
    ToolMissing
        If a file is neither in the PDK directory nor beside the technology's data file.
    InputError
        If a chosen file does not exist.
    """
    if chosen:
        for path in map(Path, chosen):
            if not path.is_file():
                raise InputError(f"{path}: there is no such Liberty file")
        return tuple(map(Path, chosen))
    directories = (pdk_directory(), file_of(tech.name).parent)
    files, missing = [], []
    for name in tech.liberty:
        candidates = (d / file for d in directories for file in (name, f"{name}.gz"))
        if existing := next(filter(Path.is_file, candidates), None):
            files.append(existing)
        else:
            missing.append(name)
    if missing:
        raise ToolMissing(
            f"the Liberty files of {tech.name} are needed: {', '.join(missing)} (or .gz) not"
            f" found in {directories[0]}. Set HWGEN_PDK_DIR to the directory that has them, or name"
            " them with --liberty"
        )
    return tuple(files)


def load(name: str, chosen: Sequence[str | Path] = ()) -> Library:
    """Find and prepare the library of the technology called `name`; see `liberty_files`."""
    tech = cell_library(name)
    paths = liberty_files(tech, chosen)
    library = prepare([read(path) for path in paths], tech.unusable, list(map(str, paths)))
    if lacking := [cell for cell in tech.needed_cells if cell not in library.cells]:
        raise InputError(
            f"{', '.join(map(str, paths))}: not the library of {tech.name}, cells"
            f" {', '.join(lacking)} are missing"
        )
    return library


def read(path: Path) -> str:
    """Return the text of a Liberty file, decompressed if it is a gzip file."""
    try:
        data = path.read_bytes()
        if data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    return data.decode("utf-8", errors="replace")


def prepare(
    texts: Sequence[str], unusable: Sequence[str] = (), names: Sequence[str] = ()
) -> Library:
    """Merge Liberty texts into one library for mapping.

    Units and defaults are those of the first text; the others add their groups (cells, table
    templates) to it.

    Parameters
    ----------
    texts : sequence of str
        Liberty texts, one library each.
    unusable : sequence of str
        Shell patterns of the cells to leave out.
    names : sequence of str
        Names of the texts for error messages.

    Raises
    ------
    InputError
        If a text is not Liberty, or two libraries do not belong together.
    """
    cells: dict[str, Cell] = {}
    others: dict[tuple[str, str], str] = {}
    merged: list[str] = []
    for index, text in enumerate(texts):
        name = names[index] if index < len(names) else f"library {index + 1}"
        start = _LIBRARY.search(text)
        if start is None:
            raise InputError(f"{name}: not a Liberty file, it has no library")
        unit = load_unit(text, name)
        position = 0  # everything before is dealt with
        for group in groups(text, name, start.end(), enclosed=True):
            keyword, argument = group.keyword, group.argument
            if index == 0:
                merged.append(_WIRE_LOAD.sub("", text[position : group.begin]))
            position = group.end
            body = text[group.begin : group.end]
            if keyword == "cell":
                if any(fnmatchcase(argument, pattern) for pattern in unusable):
                    continue
                if argument in cells:
                    raise InputError(f"{name}: cell {argument} is there twice")
                cells[argument] = _cell(body, unit, f"{name}: cell {argument}")
            elif keyword.startswith("wire_load"):
                continue
            elif index:
                cached = others.get((keyword, argument))
                if cached is not None:
                    if keyword.endswith("_template") and cached != "".join(body.split()):
                        raise InputError(
                            f"{name}: {keyword} ({argument}) is not that of"
                            f" {names[0] if names else 1}"
                        )
                    continue
            others.setdefault((keyword, argument), "".join(body.split()))
            merged.append(body if index == 0 else f"\n  {body}")
        if index == 0:
            rest = text[position:].rstrip()
            merged.append(_WIRE_LOAD.sub("", rest[: rest.rindex("}")]))
    return Library("".join(merged).rstrip() + "\n}\n", cells)


_LIBRARY = re.compile(r"\blibrary\s*\([^(){}]*\)\s*\{")
_WIRE_LOAD = re.compile(r"^[ \t]*default_wire_load\w*\s*:[^;\n]*;?[ \t]*\n?", re.MULTILINE)
_TOKEN = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"|[{}]', re.DOTALL)
_HEAD = re.compile(r"(\w+)\s*\(\s*([^()]*?)\s*\)\s*$")
_AREA = re.compile(r"\barea\s*:\s*\"?([\d.eE+-]+)")
_PIN = re.compile(r'(?<!\w)pin\s*\(\s*"?([^()"]+?)"?\s*\)\s*\{')
_INPUT = re.compile(r'\bdirection\s*:\s*"?input\b')
_LOAD = re.compile(r'\bcapacitance\s*:\s*"?([\d.eE+-]+)')
_LOAD_UNIT = re.compile(r'\bcapacitive_load_unit\s*\(\s*"?([\d.eE+-]+)"?\s*,\s*"?(\w+)"?\s*\)')
_STORES = re.compile(r"\b(?:ff|latch|ff_bank|latch_bank|statetable)\s*\(")


class Group(NamedTuple):
    """A group of a Liberty text, ``kind (argument) { ... }``.

    Parameters
    ----------
    keyword, argument : str
    begin, inside, end : int
        Where it begins in the text, what is behind its brace, and what is behind the other one.
    """

    keyword: str
    argument: str
    begin: int
    inside: int
    end: int


def groups(text: str, name: str, start: int = 0, *, enclosed: bool = False) -> Iterator[Group]:
    """Yield the groups of a text, not those inside them.

    Parameters
    ----------
    text : str
    name : str
        Of the text, for messages.
    start : int
        Where to begin.
    enclosed : bool
        Whether a brace closes what the groups are in; else the text ends behind them.

    Raises
    ------
    InputError
        If a group has no name, or the text ends before it.
    """
    depth, last = 0, start
    keyword, argument, begin, inside = "", "", start, start
    for token in _TOKEN.finditer(text, start):
        if token[0] == "{":
            if depth == 0:
                head = _HEAD.search(text, last, token.start())
                if head is None:
                    raise InputError(
                        f"{name}: not a Liberty file, a group has no name:"
                        f" line {text.count(chr(10), 0, token.start()) + 1}"
                    )
                keyword, argument = head[1], head[2].strip('"')
                begin, inside = head.start(), token.end()
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if depth < 0:
                return
            if depth == 0:
                last = token.end()
                yield Group(keyword, argument, begin, inside, last)
    if enclosed or depth:
        raise InputError(f"{name}: not a Liberty file, it ends within a group")


def insides(text: str, keywords: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield argument and inside of the groups of some kinds in the inside of a prepared one."""
    for group in groups(text, "the library"):
        if group.keyword in keywords:
            yield group.argument, text[group.inside : group.end - 1]


def cell_texts(library: Library) -> Iterator[tuple[str, str]]:
    """Yield name and inside of the cells of a library."""
    start = _LIBRARY.search(library.text)
    for group in groups(library.text, "the library", start.end() if start else 0, enclosed=True):
        if group.keyword == "cell":
            yield group.argument, library.text[group.inside : group.end - 1]


def library_inside(library: Library) -> str:
    """Return the inside of the library's own group."""
    start = _LIBRARY.search(library.text)
    return library.text[start.end() : library.text.rindex("}")] if start else ""


def load_unit(text: str, name: str) -> float:
    """Return the unit of capacitances in fF."""
    match = _LOAD_UNIT.search(text)
    if match is None:
        return 1000.0  # 1 pF, Liberty's default
    try:
        return float(match[1]) * {"ff": 1.0, "pf": 1000.0}[match[2].lower()]
    except (KeyError, ValueError):
        raise InputError(f"{name}: {match[0]} is not a unit of capacitance") from None


def _cell(body: str, unit: float, name: str) -> Cell:
    try:
        area = _AREA.search(body)
        inputs = {}
        pins = list(_PIN.finditer(body))
        ends = [*(pin.start() for pin in pins[1:]), len(body)]
        for pin, end in zip(pins, ends, strict=False):  # no pins, one end
            if _INPUT.search(body, pin.end(), end):
                load = _LOAD.search(body, pin.end(), end)
                inputs[pin[1]] = float(load[1]) * unit if load else 0.0
        return Cell(float(area[1]) if area else 0.0, bool(_STORES.search(body)), inputs)
    except ValueError:
        raise InputError(f"{name}: its area or a capacitance is not a number") from None
