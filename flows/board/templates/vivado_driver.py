# SPDX-License-Identifier: Apache-2.0
"""The engine from Python: products of NumPy arrays, by PYNQ or by UIO and u-dma-buf.

```python
from hwgen_driver import Engine, PynqDevice

engine = Engine(PynqDevice("gs.bit"))  # or UioDevice(), after the device-tree overlay
c = engine.multiply(a, w)  # a: (m, k), w: (k, n), both of the element types below
```

The C driver of the same directory plans and submits jobs; it is compiled when it is first needed,
by ``cc``. NumPy is the only other thing that this file needs: no part of the generator.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import struct
import subprocess
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np

# begin: engine
NAME = "engine"
DIGEST = ""
POST_FIELDS: tuple[tuple[str, bool, int], ...] = ()
SEVERAL_FORMATS = False
A_TYPE = "int8"
W_TYPE = "int8"
C_TYPE = "int32"
W_IS_IMAGE = False
INTERRUPT_REGISTER = 0
INTERRUPT_ENABLE_REGISTER = 4
# end: engine
# POST_FIELDS: name of each field of post-processing, whether it is signed, its raw results' value.
# A_TYPE, W_TYPE, C_TYPE: NumPy's types of elements in memory; A_TYPE is empty if A has blocks.

HERE = Path(__file__).resolve().parent
REGISTER_BYTES = 4096
OK, PENDING = 0, 1
INTERRUPTS = 3
"""Bits of the interrupt's registers: a job is done, or has ended otherwise."""
POLL_S = 0.01
"""Seconds to wait for the interrupt before a job is looked at."""


class EngineError(Exception):
    """An engine that is not there, refuses a job, or does not finish it."""


class Memory(Protocol):
    """Memory that engine and processor share."""

    address: int
    """As the engine sees it."""
    data: Any
    """Its bytes, an array of ``uint8``."""

    def to_engine(self) -> None:
        """Let the engine see what the processor wrote."""

    def from_engine(self) -> None:
        """Let the processor see what the engine wrote."""

    def free(self) -> None:
        """Give the memory back."""


class Device(Protocol):
    """Registers, memory and interrupt of an engine."""

    def read32(self, offset: int) -> int:
        """Return a register."""

    def write32(self, offset: int, value: int) -> None:
        """Write a register."""

    def allocate(self, count: int) -> Memory:
        """Return memory of `count` bytes."""

    def wait(self, timeout: float) -> bool:
        """Wait for the interrupt; say whether it came within `timeout` seconds."""

    def close(self) -> None:
        """Give everything back."""


class _PynqMemory:
    def __init__(self, count: int) -> None:
        import pynq  # only on boards with PYNQ

        self._buffer = pynq.allocate(shape=(max(1, count),), dtype=np.uint8)
        self.address, self.data = int(self._buffer.physical_address), self._buffer

    def to_engine(self) -> None:
        self._buffer.flush()

    def from_engine(self) -> None:
        self._buffer.invalidate()

    def free(self) -> None:
        self._buffer.freebuffer()


class PynqDevice:
    """An engine of an overlay of PYNQ.

    Parameters
    ----------
    bitstream : str
        The bitstream, with its ``.hwh`` next to it.
    """

    def __init__(self, bitstream: str) -> None:
        import pynq  # only on boards with PYNQ

        self._overlay = pynq.Overlay(bitstream)
        self._registers = self._overlay.engine.mmio

    def read32(self, offset: int) -> int:
        """Return a register."""
        return int(self._registers.read(offset))

    def write32(self, offset: int, value: int) -> None:
        """Write a register."""
        self._registers.write(offset, value)

    def allocate(self, count: int) -> Memory:
        """Return memory of `count` bytes."""
        return _PynqMemory(count)

    def wait(self, timeout: float) -> bool:
        """Return at once: jobs are polled."""
        return False

    def close(self) -> None:
        """Leave the overlay loaded."""


class _DmaMemory:
    """A part of a u-dma-buf, which its device opens without a cache."""

    def __init__(self, owner: UioDevice, start: int, count: int) -> None:
        self._owner, self._range = owner, (start, count)
        self.address, self.data = owner.dma_address + start, owner.dma_bytes[start : start + count]

    def to_engine(self) -> None:
        pass

    def from_engine(self) -> None:
        pass

    def free(self) -> None:
        self._owner.release(self._range)


class UioDevice:
    """An engine of the device-tree overlay: registers by UIO, memory by u-dma-buf.

    Parameters
    ----------
    name : str
        Of the node in the device tree.
    buffer : str
        Name of the u-dma-buf.
    root : Path
        Where ``dev`` and ``sys`` are.
    """

    ALIGNMENT = 64

    def __init__(self, name: str = NAME, buffer: str = "", root: Path = Path("/")) -> None:
        self._file = os.open(root / "dev" / self._uio(name, root), os.O_RDWR | os.O_SYNC)
        self._map = mmap.mmap(self._file, REGISTER_BYTES)
        buffer = buffer or f"{name}-memory"
        about = root / "sys" / "class" / "u-dma-buf" / buffer
        if not about.is_dir():
            self.close()
            raise EngineError(f"no u-dma-buf is called {buffer}: load u-dma-buf and the overlay")
        self.dma_address = int((about / "phys_addr").read_text(), 0)
        size = int((about / "size").read_text(), 0)
        memory = os.open(root / "dev" / buffer, os.O_RDWR | os.O_SYNC)
        self._memory = mmap.mmap(memory, size)
        os.close(memory)
        self.dma_bytes = np.frombuffer(self._memory, np.uint8)
        self._used: list[tuple[int, int]] = []

    @staticmethod
    def _uio(name: str, root: Path) -> str:
        """Return the device of a node."""
        for path in sorted((root / "sys" / "class" / "uio").glob("uio*")):
            if (path / "name").read_text().strip() == name:
                return path.name
        raise EngineError(f"no UIO device is called {name}: load uio_pdrv_genirq and the overlay")

    def read32(self, offset: int) -> int:
        """Return a register."""
        return int(struct.unpack_from("<I", self._map, offset)[0])

    def write32(self, offset: int, value: int) -> None:
        """Write a register."""
        struct.pack_into("<I", self._map, offset, value & 0xFFFFFFFF)

    def allocate(self, count: int) -> Memory:
        """Return memory of `count` bytes."""
        start = 0
        for first, size in sorted(self._used):
            if first - start >= count:
                break
            start = -(-(first + size) // self.ALIGNMENT) * self.ALIGNMENT
        if start + count > len(self.dma_bytes):
            raise EngineError(f"{count} bytes are not free in a buffer of {len(self.dma_bytes)}")
        self._used.append((start, count))
        return _DmaMemory(self, start, count)

    def release(self, used: tuple[int, int]) -> None:
        """Give a part of the buffer back."""
        self._used.remove(used)

    def wait(self, timeout: float) -> bool:
        """Wait for the interrupt; say whether it came within `timeout` seconds."""
        os.write(self._file, struct.pack("<I", 1))  # the kernel masks it when it comes
        if not select.select([self._file], [], [], timeout)[0]:
            return False
        os.read(self._file, 4)
        return True

    def close(self) -> None:
        """Close the registers; the kernel closes the memory with its last array."""
        self._map.close()
        os.close(self._file)


_READ = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32)
_WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32)


class _Device(ctypes.Structure):
    _fields_ = (("context", ctypes.c_void_p), ("read", _READ), ("write", _WRITE))


class _Post(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_int32 if signed else ctypes.c_uint32) for name, signed, _ in POST_FIELDS
    )


class _Job(ctypes.Structure):
    _fields_ = (
        *((f"{name}_address", ctypes.c_uint64) for name in "awcp"),
        *((f"{name}_stride", ctypes.c_uint32) for name in "awc"),
        *((name, ctypes.c_uint32) for name in "mkn"),
        *((("format", ctypes.c_uint32),) if SEVERAL_FORMATS else ()),
        ("after", ctypes.c_int),
        ("least_traffic", ctypes.c_int),
        ("post", _Post),
    )


def compiled_driver(folder: Path = HERE, compiler: str = "cc") -> Path:
    """Return the C driver as a library, compiled unless it is newer than its source.

    Raises
    ------
    EngineError
        If it cannot be compiled.
    """
    source, library = folder / f"{NAME}_driver.c", folder / f"lib{NAME}_driver.so"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise EngineError(f"{compiler} is needed to compile the C driver: {error}") from None
        if done.returncode:
            raise EngineError(f"the C driver does not compile: {done.stderr}")
    return library


class Engine:
    """The engine.

    Parameters
    ----------
    device : Device
        `PynqDevice`, `UioDevice`, or another with their methods.
    library : Path, optional
        The C driver, compiled; default `compiled_driver`.

    Raises
    ------
    EngineError
        If the device has no such engine, or the driver cannot be compiled.
    """

    def __init__(self, device: Device, library: Path | None = None) -> None:
        self._device = device
        self._library = ctypes.CDLL(str(library or compiled_driver()))
        self._message = getattr(self._library, f"{NAME}_message")
        self._message.restype = ctypes.c_char_p
        self._access = _Device(
            None,
            _READ(lambda _, offset: device.read32(offset)),
            _WRITE(lambda _, offset, value: device.write32(offset, value)),
        )
        self._check(self._call("probe"), "the engine")
        device.write32(INTERRUPT_ENABLE_REGISTER, INTERRUPTS)

    def _call(self, name: str, *arguments: Any) -> int:
        function = getattr(self._library, f"{NAME}_{name}")
        return int(function(ctypes.byref(self._access), *arguments))

    def _check(self, status: int, about: str) -> None:
        if status != OK:
            raise EngineError(f"{about}: {self._message(status).decode()}")

    def multiply(
        self,
        a: Any,
        w: Any,
        *,
        n: int | None = None,
        post: dict[str, int] | None = None,
        result: str = C_TYPE,
        timeout: float = 10.0,
    ) -> Any:
        """Return the product of two matrices.

        Parameters
        ----------
        a : ndarray, shape (m, k)
            Of `A_TYPE`, in numbers that the engine's format holds.
        w : ndarray, shape (k, n)
            Of `W_TYPE`; where `W_IS_IMAGE`, the bytes of a packed image, row by row.
        n : int, optional
            Columns of W, where it is an image.
        post : dict, optional
            Fields of post-processing that differ from raw results; see the page of registers.
        result : str
            Type of an element of the result in memory.
        timeout : float
            Seconds.

        Returns
        -------
        ndarray, shape (m, n)

        Raises
        ------
        EngineError
            If operands have other types or shapes, the engine refuses the job, or it fails.
        """
        if not A_TYPE:
            raise EngineError("operands of this engine are blocks: pack them, and use the C driver")
        a, w = self._matrix("a", a, A_TYPE), self._matrix("w", w, W_TYPE)
        (m, k), columns = a.shape, n if W_IS_IMAGE else w.shape[1]
        if columns is None:
            raise EngineError("n is needed: W is a packed image")
        if not W_IS_IMAGE and w.shape[0] != k:
            raise EngineError(f"a has {k} columns, w {w.shape[0]} rows")
        shape = (m, int(columns))
        size = np.dtype(result).itemsize
        memories = []
        try:
            for count in (a.nbytes, w.nbytes, shape[0] * shape[1] * size):
                memories.append(self._device.allocate(count))
            for memory, values in zip(memories, (a, w), strict=False):
                memory.data[: values.nbytes] = values.view(np.uint8).reshape(-1)
                memory.to_engine()
            job = _Job(m=m, k=k, n=shape[1])
            for name, memory, stride in zip(
                "awc", memories, (a.strides[0], w.strides[0], shape[1] * size), strict=True
            ):
                setattr(job, f"{name}_address", memory.address)
                setattr(job, f"{name}_stride", stride)
            for name, _, raw in POST_FIELDS:
                setattr(job.post, name, raw)
            for name, value in (post or {}).items():
                if name not in {field for field, _, _ in POST_FIELDS}:
                    raise EngineError(f"post: there is no field {name}")
                setattr(job.post, name, value)
            self._run(job, timeout)
            memories[2].from_engine()
            raw_bytes = np.array(memories[2].data[: shape[0] * shape[1] * size])
            return raw_bytes.view(np.dtype(result).newbyteorder("<")).reshape(shape)
        finally:
            for memory in memories:
                memory.free()

    def _matrix(self, name: str, values: Any, dtype: str) -> Any:
        array = np.asarray(values)
        if array.ndim != 2 or 0 in array.shape:
            raise EngineError(f"{name} must be a matrix, not of shape {array.shape}")
        if array.dtype != np.dtype(dtype):
            raise EngineError(f"{name} must be of {dtype}, not {array.dtype}")
        return np.ascontiguousarray(array)

    def _run(self, job: Any, timeout: float) -> None:
        """Do a job."""
        ticket = ctypes.c_uint32()
        status = self._call("submit", ctypes.byref(job), ctypes.byref(ticket))
        self._check(status, "the job")
        end = time.monotonic() + timeout
        while (status := self._call("poll", ticket)) == PENDING and time.monotonic() < end:
            self._device.wait(POLL_S)
        self._device.write32(INTERRUPT_REGISTER, INTERRUPTS)
        if status == PENDING:
            self._call("abort")
            raise EngineError(f"the job is not finished after {timeout:g} s")
        self._check(status, "the job")

    def close(self) -> None:
        """Give the device back."""
        self._device.close()
