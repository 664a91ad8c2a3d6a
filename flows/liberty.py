# SPDX-License-Identifier: Apache-2.0
"""Standard-cell technologies and their Liberty files.

hwgen ships no Liberty files: they are searched in the directory ``HWGEN_PDK_DIR``, else in
``shared/pdk`` beside the checkout, under the names in `TECHNOLOGIES`, compressed or not.
`prepare` makes one library of them that a mapper and a timer can both read as it is: without the
cells that a mapper must not pick, and without wire loads, so that technologies compare.
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

from hwgen.errors import InputError, ToolMissing, did_you_mean


@dataclass(frozen=True)
class FullAdder:
    """The full-adder cell of a technology.

    Parameters
    ----------
    cell : str
        Its name.
    inputs : tuple of str
        The three inputs, the carry last.
    carry, total : str
        The outputs.
    inverted : bool
        Whether both outputs are inverted.
    """

    cell: str
    inputs: tuple[str, str, str]
    carry: str
    total: str
    inverted: bool = False


@dataclass(frozen=True)
class Buffer:
    """A strong buffer: its cell and pins, and the load in fF that it drives quickly."""

    cell: str
    input: str
    output: str
    load_ff: float


@dataclass(frozen=True)
class Technology:
    """What a synthesis flow must know about a standard-cell library beside its Liberty files.

    Parameters
    ----------
    name : str
        Value of the configuration's ``target.technology``.
    files : tuple of str
        Liberty files that make the library, relative to the PDK directory.
    unusable : tuple of str
        Patterns of cells that a mapper must not pick: scan, clock gates, tristate, delay, fill,
        and those that do not route well.
    driver : str
        A buffer of ordinary strength, which drives the inputs.
    load_ff : float
        Load of an output in fF: a few gate inputs.
    high, low : tuple of str
        Cell and pin of the constants.
    buffer : Buffer
        For signals that fan out to many modules.
    full_adder : FullAdder or None
        None if there is no such cell.
    """

    name: str
    files: tuple[str, ...]
    unusable: tuple[str, ...]
    driver: str
    load_ff: float
    high: tuple[str, str]
    low: tuple[str, str]
    buffer: Buffer
    full_adder: FullAdder | None = None


TECHNOLOGIES: Mapping[str, Technology] = {
    technology.name: technology
    for technology in (
        Technology(
            "nangate45", ("nangate45_typ.lib",),
            (
                "TAPCELL_*", "FILLCELL_*", "ANTENNA_*", "CLKGATE*", "SDFF*", "TBUF_*", "TINV_*",
                "AOI211_X1", "OAI211_X1",
            ),
            driver="BUF_X2", load_ff=5.0, high=("LOGIC1_X1", "Z"), low=("LOGIC0_X1", "Z"),
            buffer=Buffer("BUF_X4", "A", "Z", 100.0),
            full_adder=FullAdder("FA_X1", ("A", "B", "CI"), "CO", "S"),
        ),
        Technology(
            "asap7",
            (
                "asap7/asap7sc7p5t_SIMPLE_RVT_TT_nldm_211120.lib",
                "asap7/asap7sc7p5t_AO_RVT_TT_nldm_211120.lib",
                "asap7/asap7sc7p5t_OA_RVT_TT_nldm_211120.lib",
                "asap7/asap7sc7p5t_INVBUF_RVT_TT_nldm_220122.lib",
                "asap7/asap7sc7p5t_SEQ_RVT_TT_nldm_220123.lib",
            ),
            # The x4 flip-flops are the only ones whose output is not inverted, so a mapper would
            # take them everywhere, at 1.25 times the area of the smallest.
            ("*x1p*_ASAP7*", "*xp*_ASAP7*", "SDF*", "ICG*", "DFFHQx4*", "DFFLQx4*"),
            driver="BUFx2_ASAP7_75t_R", load_ff=2.0,
            high=("TIEHIx1_ASAP7_75t_R", "H"), low=("TIELOx1_ASAP7_75t_R", "L"),
            buffer=Buffer("BUFx8_ASAP7_75t_R", "A", "Y", 30.0),
            full_adder=FullAdder("FAx1_ASAP7_75t_R", ("A", "B", "CI"), "CON", "SN", inverted=True),
        ),
        Technology(
            "sky130hd", ("sky130hd_tt.lib",),
            (
                "*__probe*", "*__lpflow_*", "*__sdf*", "*__sedf*", "*__dlclk*", "*__sdlclk*",
                "*__ebuf*", "*__einv*", "*__macro_sparecell", "*__dlymetal*", "*__dlygate*",
                "*__clkdly*",
            ),
            driver="sky130_fd_sc_hd__buf_2", load_ff=10.0,
            high=("sky130_fd_sc_hd__conb_1", "HI"), low=("sky130_fd_sc_hd__conb_1", "LO"),
            buffer=Buffer("sky130_fd_sc_hd__buf_8", "A", "X", 150.0),
            full_adder=FullAdder("sky130_fd_sc_hd__fa_1", ("A", "B", "CIN"), "COUT", "SUM"),
        ),
        Technology(
            "ihp-sg13g2", ("ihp_sg13g2_typ.lib",),
            (
                "sg13g2_lgcp_1", "sg13g2_slgcp_1", "sg13g2_sighold", "sg13g2_dfrbp_2",
                "sg13g2_sdf*", "sg13g2_ebufn*", "sg13g2_einvn*", "sg13g2_dlygate*",
                "sg13g2_fill*", "sg13g2_decap*", "sg13g2_antennanp",
            ),
            driver="sg13g2_buf_2", load_ff=10.0,
            high=("sg13g2_tiehi", "L_HI"), low=("sg13g2_tielo", "L_LO"),
            buffer=Buffer("sg13g2_buf_8", "A", "X", 150.0),
        ),
    )
}  # fmt: skip


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


def technology(name: str) -> Technology:
    """Return the standard-cell technology called `name`, or raise `InputError`."""
    try:
        return TECHNOLOGIES[name]
    except KeyError:
        raise InputError(
            f"{name!r} is not a standard-cell technology{did_you_mean(name, TECHNOLOGIES)};"
            f" those known are {', '.join(TECHNOLOGIES)}"
        ) from None


def pdk_directory() -> Path:
    """Return where Liberty files are searched; it need not exist."""
    if chosen := os.environ.get("HWGEN_PDK_DIR"):
        return Path(chosen).expanduser().absolute()
    return Path(__file__).resolve().parents[2] / "shared" / "pdk"


def liberty_files(tech: Technology, chosen: Sequence[str | Path] = ()) -> tuple[Path, ...]:
    """Return the Liberty files of a technology.

    Parameters
    ----------
    tech : Technology
    chosen : sequence of path
        The files to take instead (``--liberty``); what the technology says about cells must hold
        for them.

    Raises
    ------
    ToolMissing
        If a file is not in the PDK directory.
    InputError
        If a chosen file does not exist.
    """
    if chosen:
        for path in map(Path, chosen):
            if not path.is_file():
                raise InputError(f"{path}: there is no such Liberty file")
        return tuple(map(Path, chosen))
    directory = pdk_directory()
    files, missing = [], []
    for name in tech.files:
        candidates = (directory / name, directory / f"{name}.gz")
        if there := [path for path in candidates if path.is_file()]:
            files.append(there[0])
        else:
            missing.append(name)
    if missing:
        raise ToolMissing(
            f"the Liberty files of {tech.name} are needed: {', '.join(missing)} (or .gz) not"
            f" found in {directory}. Set HWGEN_PDK_DIR to the directory that has them, or name"
            " them with --liberty"
        )
    return tuple(files)


def load(name: str, chosen: Sequence[str | Path] = ()) -> Library:
    """Find and prepare the library of the technology called `name`; see `liberty_files`."""
    tech = technology(name)
    paths = liberty_files(tech, chosen)
    library = prepare([read(path) for path in paths], tech.unusable, list(map(str, paths)))
    needed = [tech.driver, tech.buffer.cell, tech.high[0], tech.low[0]]
    if lacking := [cell for cell in needed if cell not in library.cells]:
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
    groups: dict[tuple[str, str], str] = {}
    merged: list[str] = []
    for index, text in enumerate(texts):
        name = names[index] if index < len(names) else f"library {index + 1}"
        start = _LIBRARY.search(text)
        if start is None:
            raise InputError(f"{name}: not a Liberty file, it has no library")
        unit = load_unit(text, name)
        position = 0  # everything before is dealt with
        for kind, argument, begin, end in _groups(text, start.end(), name):
            if index == 0:
                merged.append(_WIRE_LOAD.sub("", text[position:begin]))
            position = end
            body = text[begin:end]
            if kind == "cell":
                if any(fnmatchcase(argument, pattern) for pattern in unusable):
                    continue
                if argument in cells:
                    raise InputError(f"{name}: cell {argument} is there twice")
                cells[argument] = _cell(body, unit, f"{name}: cell {argument}")
            elif kind.startswith("wire_load"):
                continue
            elif index:
                known = groups.get((kind, argument))
                if known is not None:
                    if kind.endswith("_template") and known != "".join(body.split()):
                        raise InputError(
                            f"{name}: {kind} ({argument}) is not that of {names[0] if names else 1}"
                        )
                    continue
            groups.setdefault((kind, argument), "".join(body.split()))
            merged.append(body if index == 0 else f"\n  {body}")
        if index == 0:
            rest = text[position:].rstrip()
            merged.append(_WIRE_LOAD.sub("", rest[: rest.rindex("}")]))
    return Library("".join(merged).rstrip() + "\n}\n", cells)


_LIBRARY = re.compile(r"\blibrary\s*\([^(){}]*\)\s*\{")
_WIRE_LOAD = re.compile(r"^[ \t]*default_wire_load\w*\s*:[^;\n]*;?[ \t]*\n?", re.MULTILINE)
_TOKEN = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"|[{}]', re.DOTALL)
_HEAD = re.compile(r'(\w+)\s*\(\s*"?([^()"]*?)"?\s*\)\s*$')
_AREA = re.compile(r"\barea\s*:\s*\"?([\d.eE+-]+)")
_PIN = re.compile(r'(?<!\w)pin\s*\(\s*"?([^()"]+?)"?\s*\)\s*\{')
_INPUT = re.compile(r'\bdirection\s*:\s*"?input\b')
_LOAD = re.compile(r'\bcapacitance\s*:\s*"?([\d.eE+-]+)')
_LOAD_UNIT = re.compile(r'\bcapacitive_load_unit\s*\(\s*"?([\d.eE+-]+)"?\s*,\s*"?(\w+)"?\s*\)')
_STORES = re.compile(r"\b(?:ff|latch|ff_bank|latch_bank|statetable)\s*\(")


def _groups(text: str, start: int, name: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield kind, argument, start and end of each group of the library that begins at `start`."""
    depth, last = 0, start
    kind, argument, begin = "", "", start
    for token in _TOKEN.finditer(text, start):
        if token[0] == "{":
            if depth == 0:
                head = _HEAD.search(text, last, token.start())
                if head is None:
                    raise InputError(
                        f"{name}: not a Liberty file, a group has no name:"
                        f" line {text.count(chr(10), 0, token.start()) + 1}"
                    )
                kind, argument, begin = head[1], head[2], head.start()
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if depth < 0:
                return
            if depth == 0:
                last = token.end()
                yield kind, argument, begin, last
    raise InputError(f"{name}: not a Liberty file, it ends within a group")


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
