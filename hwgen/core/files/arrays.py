# SPDX-License-Identifier: Apache-2.0
"""Reading arrays from files that anybody may have written: all of them are read here.

Nothing of a file is believed before it is checked, so that a corrupt or hostile one costs neither
memory nor time: a header is short, and an array no larger than what the file holds.
"""

from __future__ import annotations

import stat
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hwgen.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_HEADER = 10_000
"""Bytes of a header, which NumPy reads by Python's parser."""

MAX_MEMBER = 1 << 30
"""Bytes of an array in an archive, which may be compressed a thousandfold."""


def read_npy(path: Path) -> NDArray[Any]:
    """Return the array of a ``.npy`` file, mapped into memory and not writable.

    Raises
    ------
    InputError
        If it is not a regular file, or no array of numbers.
    """
    import numpy as np

    check_regular(path)
    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Python's parser, about what it reads
        try:
            _check_header(file, path.stat().st_size)
            array: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
        except Exception as error:  # NumPy's parser raises whatever it stumbles on
            raise InputError(f"{path} is not a readable .npy file: {_why(error)}") from None
    return array


def read_npz(path: Path, names: Sequence[str]) -> list[NDArray[Any]]:
    """Return arrays of a ``.npz`` file by name.

    Raises
    ------
    InputError
        If it is not a regular file, is no archive, lacks an array, or one is no array of numbers
        or larger than `MAX_MEMBER`.
    """
    import numpy as np

    check_regular(path)
    arrays = []
    try:
        with zipfile.ZipFile(path) as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in names:
                member = archive.getinfo(f"{name}.npy")
                if member.file_size > MAX_MEMBER:
                    raise ValueError(f"{name} is larger than {MAX_MEMBER} bytes")
                with archive.open(member) as file:
                    _check_header(file, member.file_size)
                with archive.open(member) as file:
                    arrays.append(np.lib.format.read_array(file, allow_pickle=False))
    except KeyError as error:
        raise InputError(f"{path} lacks an array: {_why(error)}") from None
    except Exception as error:  # as above, and what a corrupt archive makes of zipfile
        raise InputError(f"{path} is not a readable .npz file: {_why(error)}") from None
    return arrays


def check_regular(path: Path, what: str = "arrays") -> None:
    """Refuse what is no file; a pipe would be waited for."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise InputError(f"{path} does not exist") from None
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{str(path)!r} is no name of a file: {error}") from None
    if not stat.S_ISREG(mode):
        kind = "directory" if stat.S_ISDIR(mode) else "pipe or device"
        raise InputError(f"{path} is a {kind}; {what} are read from regular files")


def _check_header(file: IO[bytes], size: int) -> None:
    """Raise `ValueError` if a file of so many bytes does not hold the array that it declares."""
    import math

    import numpy as np

    version = np.lib.format.read_magic(file)
    width = 2 if version[0] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    start = file.tell()
    if length > MAX_HEADER:
        raise ValueError(f"its header has {length} bytes")
    file.seek(start - width)
    read = (
        np.lib.format.read_array_header_1_0 if width == 2 else np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = read(file, max_header_size=MAX_HEADER)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if any(type(extent) is not int or extent < 0 for extent in shape):
        raise ValueError(f"its shape is {shape}")
    needed, available = math.prod(shape) * dtype.itemsize, size - start - length
    if needed > available:
        raise ValueError(f"{shape} of {dtype} takes {needed} bytes, and it holds {available}")


def _why(error: Exception) -> str:
    """Return the message of an error in one line, or its name."""
    text = " ".join(str(error).split())[:200]
    errors = (zipfile.BadZipFile, zlib.error, ValueError, KeyError, OSError)
    return text if text and isinstance(error, errors) else f"{type(error).__name__} {text}".strip()
