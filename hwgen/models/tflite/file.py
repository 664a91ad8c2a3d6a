# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite files: tensors, their quantisation, and operators in order."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.core.files.arrays import check_regular
from hwgen.errors import InputError
from hwgen.models.files.import_common import readable, refused
from hwgen.models.tflite.flatbuffer import Buffer, Table

MAGIC = b"TFL3"
"""Bytes 4 to 7 of a file."""

TYPES = {0: "float32", 2: "int32", 4: "int64", 6: "bool", 9: "int8"}
"""Types of tensors that are read, by their numbers."""

OTHER_TYPES = {
    1: "float16", 3: "uint8", 5: "string", 7: "int16", 8: "complex64", 10: "float64",
    11: "complex128", 12: "uint64", 13: "resource", 14: "variant", 15: "uint32", 16: "uint16",
    17: "int4", 18: "bfloat16",
}  # fmt: skip
"""Those that are not."""

NAMES = {
    0: "ADD", 1: "AVERAGE_POOL_2D", 2: "CONCATENATION", 3: "CONV_2D", 4: "DEPTHWISE_CONV_2D",
    5: "DEPTH_TO_SPACE", 6: "DEQUANTIZE", 7: "EMBEDDING_LOOKUP", 8: "FLOOR", 9: "FULLY_CONNECTED",
    11: "L2_NORMALIZATION", 14: "LOGISTIC", 16: "LSTM", 17: "MAX_POOL_2D", 18: "MUL", 19: "RELU",
    20: "RELU_N1_TO_1", 21: "RELU6", 22: "RESHAPE", 23: "RESIZE_BILINEAR", 24: "RNN",
    25: "SOFTMAX", 26: "SPACE_TO_DEPTH", 27: "SVDF", 28: "TANH", 32: "CUSTOM", 34: "PAD",
    36: "GATHER", 39: "TRANSPOSE", 40: "MEAN", 41: "SUB", 42: "DIV", 43: "SQUEEZE",
    44: "UNIDIRECTIONAL_SEQUENCE_LSTM", 45: "STRIDED_SLICE", 47: "EXP", 49: "SPLIT",
    50: "LOG_SOFTMAX", 53: "CAST", 54: "PRELU", 55: "MAXIMUM", 56: "ARG_MAX", 57: "MINIMUM",
    58: "LESS", 59: "NEG", 60: "PADV2", 61: "GREATER", 64: "SELECT", 65: "SLICE", 66: "SIN",
    67: "TRANSPOSE_CONV", 69: "TILE", 70: "EXPAND_DIMS", 71: "EQUAL", 73: "LOG", 74: "SUM",
    75: "SQRT", 76: "RSQRT", 77: "SHAPE", 78: "POW", 82: "REDUCE_MAX", 83: "PACK", 88: "UNPACK",
    92: "SQUARE", 97: "RESIZE_NEAREST_NEIGHBOR", 98: "LEAKY_RELU", 99: "SQUARED_DIFFERENCE",
    100: "MIRROR_PAD", 101: "ABS", 102: "SPLIT_V", 114: "QUANTIZE", 117: "HARD_SWISH", 118: "IF",
    119: "WHILE", 126: "BATCH_MATMUL", 129: "CALL_ONCE", 142: "VAR_HANDLE", 143: "READ_VARIABLE",
    144: "ASSIGN_VARIABLE", 150: "GELU",
}  # fmt: skip
"""Operators by their numbers; those that are missing here are called by these."""

_MOST_ELEMENTS = 1 << 28
_MOST_BYTES = (1 << 31) - 1


@dataclass(eq=False)
class LiteTensor:
    """A tensor.

    Parameters
    ----------
    name, dtype : str
    shape : tuple of int
    data : ndarray or None
        Its elements, if they are in the file.
    scales : ndarray
        None if it is not quantised, else one, or one for each place along `axis`.
    zeros : ndarray
    axis : int
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    data: NDArray[Any] | None
    scales: NDArray[np.float32]
    zeros: NDArray[np.int64]
    axis: int


@dataclass(eq=False)
class LiteOperator:
    """An operator.

    Parameters
    ----------
    name : str
    label : str
        Name in messages.
    inputs, outputs : list of int
        Numbers of tensors; -1 is left out.
    options : Table or None
    """

    name: str
    label: str
    inputs: list[int]
    outputs: list[int]
    options: Table | None


@dataclass
class LiteGraph:
    """A network.

    Parameters
    ----------
    name : str
    tensors : list of LiteTensor
    operators : list of LiteOperator
    inputs, outputs : list of int
    """

    name: str
    tensors: list[LiteTensor] = field(default_factory=list)
    operators: list[LiteOperator] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)


def read_graph(path: Path) -> LiteGraph:
    """Return the network of a file.

    Raises
    ------
    InputError
        If it is no such file, or something in it cannot be; all that is wrong with its tensors is
        listed.
    """
    check_regular(path, "models")
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{path} has more than {_MOST_BYTES} bytes")
    data = path.read_bytes()
    if data[4:8] != MAGIC:
        raise InputError(f"{path} is no TensorFlow Lite file: it lacks {MAGIC!r} at byte 4")
    try:
        return _graph(path, Buffer(data).table(0))
    except InputError as error:
        if str(error).startswith(str(path)):
            raise
        raise InputError(
            f"{path} is no readable TensorFlow Lite file, or is cut off: {error}"
        ) from None


def _graph(path: Path, model: Table) -> LiteGraph:
    graphs = model.tables(2)
    if len(graphs) != 1:
        raise InputError(
            f"{path} has {len(graphs)} graphs; one is read: convert the model without control flow"
        )
    buffers, (graph,) = model.tables(4), graphs
    codes = [max(code.number(0, "i8"), code.number(3, "i32")) for code in model.tables(1)]
    customs = [readable(code.text(1)) for code in model.tables(1)]
    result = LiteGraph(readable(graph.text(4)))
    problems: list[str] = []
    for index, table in enumerate(graph.tables(0)):
        try:
            result.tensors.append(_tensor(table, index, buffers))
        except InputError as error:
            name = readable(table.text(3)) or f"number {index}"
            problems.append(f"tensor {name!r:.120}: {error}")
    if problems:
        raise refused(path, problems)
    for index, table in enumerate(graph.tables(3)):
        number = table.number(0, "u32")
        if number >= len(codes):
            raise InputError(f"operator {index} is of kind {number} of {len(codes)}")
        code = codes[number]
        name = NAMES.get(code, f"operator number {code}")
        if name == "CUSTOM":
            name = f"CUSTOM {customs[number]}"
        inputs = _indices(table, 1, len(result.tensors), least=-1)
        outputs = _indices(table, 2, len(result.tensors))
        if not outputs:
            raise InputError(f"operator {index}, {name}, has no result")
        label = result.tensors[outputs[0]].name
        result.operators.append(LiteOperator(name, label, inputs, outputs, table.table(4)))
    result.inputs = _indices(graph, 1, len(result.tensors))
    result.outputs = _indices(graph, 2, len(result.tensors))
    if not result.inputs or not result.outputs:
        raise InputError(f"{path}: the network has no inputs or no outputs")
    return result


def _indices(table: Table, number: int, count: int, least: int = 0) -> list[int]:
    """Return numbers of tensors."""
    result = [int(index) for index in table.numbers(number, "i32")]
    wrong = [index for index in result if not least <= index < count]
    if wrong:
        raise InputError(f"tensor {wrong[0]} is not one of {count}")
    return result


def _tensor(table: Table, index: int, buffers: list[Table]) -> LiteTensor:
    number = table.number(1, "i8")
    dtype = TYPES.get(number)
    if dtype is None:
        kind = OTHER_TYPES.get(number, f"number {number}")
        raise InputError(f"is of type {kind}, which is not read; {', '.join(TYPES.values())} are")
    shape = tuple(int(length) for length in table.numbers(0, "i32"))
    if len(shape) > 8 or min(shape, default=1) < 0 or math.prod(shape) > _MOST_ELEMENTS:
        raise InputError(f"has the shape {shape[:8]}, which cannot be")
    if table.has(6):
        raise InputError("is sparse; convert the model with dense weights")
    place = table.number(2, "u32")
    if place >= len(buffers):
        raise InputError(f"its data are in buffer {place} of {len(buffers)}")
    raw = buffers[place].numbers(0, "u8")
    if not len(raw) and buffers[place].number(2, "u32"):
        raise InputError("its data lie behind the file's tables; convert it to less than 2 GB")
    data = None
    if len(raw):
        needed = math.prod(shape) * np.dtype(dtype).itemsize
        if len(raw) != needed:
            raise InputError(f"its shape {shape} of {dtype} needs {needed} bytes, not {len(raw)}")
        if dtype == "bool":
            data = raw.reshape(shape) != 0
        else:
            data = raw.view(np.dtype(dtype).newbyteorder("<")).reshape(shape)
        if dtype == "float32" and not np.isfinite(data).all():
            at = int(np.flatnonzero(~np.isfinite(data))[0])
            raise InputError(f"element {at} is {data.reshape(-1)[at]}; it must be finite")
    name = readable(table.text(3)) or f"tensor {index}"
    return LiteTensor(name, dtype, shape, data, *_quantisation(table.table(4), shape))


def _quantisation(
    table: Table | None, shape: tuple[int, ...]
) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
    """Return scales, zero points, and the axis that they go along."""
    scales, zeros = np.zeros(0, np.float32), np.zeros(0, np.int64)
    if table is None:
        return scales, zeros, 0
    scales = np.asarray(table.numbers(2, "f32"), np.float32)
    zeros = np.asarray(table.numbers(3, "i64"), np.int64)
    axis = table.number(6, "i32")
    if not scales.size:
        return scales, zeros, 0
    wrong = np.flatnonzero(~(np.isfinite(scales) & (scales > 0)))
    if wrong.size:
        raise InputError(f"scale {wrong[0]} is {scales[wrong[0]]}; it must be finite and above 0")
    zeros = np.zeros(scales.size, np.int64) if not zeros.size else zeros
    along = shape[axis] if 0 <= axis < len(shape) else 1
    if zeros.size != scales.size or scales.size not in (1, along):
        raise InputError(f"{scales.size} scales and {zeros.size} zero points do not fit {shape}")
    if np.abs(zeros).max() > 1 << 31:
        raise InputError("a zero point is no integer of 32 bits")
    return scales, zeros, axis
