# SPDX-License-Identifier: Apache-2.0
"""SRAM macros from Liberty files that a user names.

Liberty says nothing of what a pin of a memory is for, so macros must have the pins of those of an
installed technology: the same names, connected likewise.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from flows.synthesis import liberty
from hwgen.errors import InputError
from hwgen.technologies import cell_library, technology_names
from hwgen.technologies.model import Macro, Memories

_SHAPE = re.compile(r"\b(address_width|word_width)\s*:\s*\"?(\d+)")
_AREA = re.compile(r"\barea\s*:\s*\"?([\d.eE+-]+)")
_OPTIONAL = ("mask", "high", "low")
"""Pins that a macro may lack."""


@cache
def macro_files_of(paths: tuple[str, ...], technology: str) -> Memories:
    """Return the macros of Liberty files.

    Areas and shapes are those of the files, which a timer reads itself; what else is known is that
    of the macros of `technology`, or of the technology whose pins they have.

    Parameters
    ----------
    paths : tuple of str
    technology : str

    Raises
    ------
    InputError
        If a file is missing or not Liberty, has no memory, or one whose pins no technology knows.
    """
    cells = [cell for path in paths for cell in _memories_in(path)]
    names = [
        technology,
        *(name for name in technology_names("standard_cells") if name != technology),
    ]
    libraries = [result for name in names if (result := cell_library(name).memories)]
    for memories in libraries:
        macros = [_macro(cell, memories) for cell in cells]
        if all(macros):
            return memories.model_copy(update={"macros": tuple(macros)})
    styles = [
        f"{kind}: {' '.join(pin for pin, role in pins.items() if role not in _OPTIONAL)}"
        for memories in libraries
        for kind, pins in memories.ports.items()
    ]
    strange = [cell for cell in cells if not any(_macro(cell, memories) for memories in libraries)]
    path, name = (strange or cells)[0][:2]
    raise InputError(
        f"{path}: the macro {name} does not fit: it must have the pins of one of these,"
        f" as all others: {'; '.join(styles)}"
    )


MacroEntry = tuple[str, str, int, int, float, frozenset[str]]
"""File, cell, words, bits of a word, area, pins."""


def _memories_in(path: str) -> list[MacroEntry]:
    if not Path(path).is_file():
        raise InputError(f"{path}: there is no such Liberty file")
    library = liberty.prepare([liberty.read(Path(path))], (), [path])
    result = []
    for name, inside in liberty.cell_texts(library):
        shape = {}
        for _, text in liberty.insides(inside, ("memory",)):
            shape = {key: int(value) for key, value in _SHAPE.findall(text)}
        if shape.keys() == {"address_width", "word_width"}:
            pins = {pin.strip('" ') for pin, _ in liberty.insides(inside, ("pin", "bus"))}
            area = _AREA.search(inside)
            result.append((
                path, name, 1 << shape["address_width"], shape["word_width"],
                float(area[1]) if area else 0.0, frozenset(pins),
            ))  # fmt: skip
    if not result:
        raise InputError(
            f"{path}: has no cell that is a memory, with a group `memory` that has address_width"
            " and word_width"
        )
    return result


def _macro(cell: MacroEntry, memories: Memories) -> Macro | None:
    """Return a cell as a macro with the pins of some, None if it has others."""
    _, name, words, width, area, pins = cell
    for kind, roles in memories.ports.items():
        needed = {pin for pin, role in roles.items() if role not in _OPTIONAL}
        if needed <= pins and pins <= roles.keys() | _power(pins):
            near = _nearest(memories.macros, kind, words, width)
            if near is None or area <= 0:
                return None
            return near.model_copy(update={
                "name": name, "words": words, "width": width, "area_um2": area,
                "lacks": tuple(sorted(roles.keys() - pins)),
            })  # fmt: skip
    return None


def _power(pins: frozenset[str]) -> set[str]:
    supplies = ("VDD*", "VSS*", "VCC*", "VGND*", "VPWR*")
    return {pin for pin in pins if any(fnmatchcase(pin.upper(), each) for each in supplies)}


def _nearest(macros: Sequence[Macro], ports: str, words: int, width: int) -> Macro | None:
    """Return the macro of the nearest size, from which times are taken."""
    same = [macro for macro in macros if macro.ports == ports]
    return min(same, default=None, key=lambda m: (abs(m.words * m.width - words * width), m.name))
