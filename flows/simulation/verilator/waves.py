# SPDX-License-Identifier: Apache-2.0
"""FST waveforms where Verilator cannot be compiled to write them.

The simulator then writes VCD, which needs no library, and `fst_from_vcd` converts it.  The reader
is one for what Verilator writes: a value change has a line of its own.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from flows.simulation.simulator import Waves
from flows.simulation.verilator import verilator
from hwgen.errors import CheckFailed


def trace_format(waves: Waves | None) -> Waves | None:
    """Return the format in which the simulator is to write waveforms.

    Parameters
    ----------
    waves : {"fst", "vcd"} or None
        What is asked for.

    Returns
    -------
    {"fst", "vcd"} or None
        The same, but ``"vcd"`` for FST where Verilator's own writer cannot be compiled and
        `fst_from_vcd` works.
    """
    if waves != "fst" or verilator.writes_fst() or not _converts():
        return waves
    return "vcd"


def _converts() -> bool:
    try:
        import pylibfst  # noqa: F401
    except ImportError:
        return False
    return True


def fst_from_vcd(vcd: Path, fst: Path) -> None:
    """Convert a waveform; a last line that is cut off does not count.

    Parameters
    ----------
    vcd : Path
        From Verilator; removed afterwards.
    fst : Path
        To write.

    Raises
    ------
    CheckFailed
        If the one cannot be understood or the other not be written.  The VCD file is kept.
    """
    from pylibfst import ffi, lib

    writer = lib.fstWriterCreate(os.fsencode(fst), 1)
    if writer == ffi.NULL:
        raise CheckFailed(f"{fst} cannot be written")
    try:
        try:
            lib.fstWriterSetPackType(writer, lib.FST_WR_PT_LZ4)
            with vcd.open("rb") as file:
                _changes(file, lib, writer, _declare(file, lib, writer))
        finally:
            lib.fstWriterClose(writer)
    except (AttributeError, LookupError, OverflowError, ValueError) as error:
        fst.unlink(missing_ok=True)
        raise CheckFailed(f"{vcd} is not a VCD file as Verilator writes it: {error}") from None
    except BaseException:
        fst.unlink(missing_ok=True)
        raise
    vcd.unlink()


_REAL = 0  # instead of a width


def _declare(file: IO[bytes], lib: Any, writer: Any) -> dict[bytes, tuple[int, int]]:
    """Copy the declarations; return handle and width by identifier code."""
    variables: dict[bytes, tuple[int, int]] = {}
    for keyword, *words in _declarations(file):
        if keyword == b"$timescale":
            lib.fstWriterSetTimescaleFromString(writer, b"".join(words))
        elif keyword == b"$version":
            lib.fstWriterSetVersion(writer, b" ".join(words))
        elif keyword == b"$date":
            lib.fstWriterSetDate(writer, b" ".join(words))
        elif keyword == b"$scope":
            var_type = getattr(lib, f"FST_ST_VCD_{words[0].decode().upper()}")
            lib.fstWriterSetScope(writer, var_type, words[1], b"")
        elif keyword == b"$upscope":
            lib.fstWriterSetUpscope(writer)
        elif keyword == b"$var":
            var_type, bits, code, *name = words
            handle, width = variables.get(code, (0, _REAL if var_type == b"real" else int(bits)))
            # A handle makes it another name of the same variable.
            variables[code] = (
                _variable(lib, writer, var_type, width, b" ".join(name), handle),
                width,
            )
    return variables


def _variable(lib: Any, writer: Any, var_type: bytes, width: int, name: bytes, alias: int) -> int:
    number = getattr(lib, f"FST_VT_VCD_{var_type.decode().upper()}")
    created: int = lib.fstWriterCreateVar(
        writer, number, lib.FST_VD_IMPLICIT, width or 8, name, alias
    )
    return created


def _declarations(file: IO[bytes]) -> Iterator[list[bytes]]:
    """Yield the words of each declaration without ``$end``, up to ``$enddefinitions``."""
    words: list[bytes] = []
    for line in file:
        for word in line.split():
            if word != b"$end":
                words.append(word)
            elif words == [b"$enddefinitions"]:
                return
            else:
                yield words
                words = []
    raise ValueError("its declarations do not end")


def _changes(
    file: IO[bytes], lib: Any, writer: Any, variables: dict[bytes, tuple[int, int]]
) -> None:
    """Copy the value changes."""
    emit = lib.fstWriterEmitValueChange
    for line in file:
        if line[-1:] != b"\n":  # the simulator was ended while it wrote
            return
        first = line[:1]
        if first in b"01xzXZ":
            value, code = first, line[1:].strip()
        elif first in b"bB":
            value, code = line[1:].split()
        elif first == b"#":
            lib.fstWriterEmitTimeChange(writer, int(line[1:]))
            continue
        elif first in b"rR":
            value, code = line[1:].split()
            handle, width = variables[code]
            if width != _REAL:
                raise ValueError(f"{line!r} for {width} bits")
            emit(writer, handle, struct.pack("=d", float(value)))
            continue
        elif first in b"$\n":  # $dumpvars and its like
            continue
        else:
            raise ValueError(f"{line!r}")
        handle, width = variables[code]
        # The library trusts that there are as many digits as bits.
        if len(value) != width:
            value = value.rjust(width, b"0" if value[:1] == b"1" else value[:1])
            if len(value) != width:
                raise ValueError(f"{line!r} for {width} bits")
        emit(writer, handle, value)
