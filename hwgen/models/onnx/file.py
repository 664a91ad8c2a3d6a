# SPDX-License-Identifier: Apache-2.0
"""ONNX files: reading one that may be anybody's, with every length checked.

The `onnx` package parses the file, checks it by its own rules and infers shapes; what it leaves
open is checked here: lengths of initialisers against their shapes, files of external data against
the directory they must lie in, and the order of nodes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from hwgen.core.files.arrays import check_regular
from hwgen.errors import InputError, ToolMissing
from hwgen.models.files.import_common import readable, refused

MOST_BYTES = (1 << 31) - 1
"""Of a file: protocol buffers are not longer."""

MOST_ELEMENTS = 1 << 28
"""Of an array."""

_MOST_NODES = 1 << 17
_MOST_AXES = 12
_GRAPH = 5  # type of attributes that are graphs

TYPES: dict[int, tuple[str, Any]] = {
    1: ("float32", np.float32), 2: ("uint8", np.uint8), 3: ("int8", np.int8),
    4: ("uint16", np.uint16),
    5: ("int16", np.int16), 6: ("int32", np.int32), 7: ("int64", np.int64), 9: ("bool", np.bool_),
    10: ("float16", np.float16), 11: ("float64", np.float64), 16: ("bfloat16", ml_dtypes.bfloat16),
    21: ("uint4", ml_dtypes.uint4), 22: ("int4", ml_dtypes.int4),
}  # fmt: skip
"""Types of tensors by their numbers in ONNX."""

ARRAYS = ("float32", "uint8", "int8", "int32", "int64", "bool")
"""Types of what is computed; the others are those of initialisers and inputs, and widened."""

WIDENED = {
    "float16": "float32", "bfloat16": "float32", "float64": "float32", "int16": "int32",
    "uint16": "int32",
}  # fmt: skip
"""Types that others are computed in; integers do not wrap around at 16 bits."""


@dataclass
class GraphNode:
    """A node as the file has it.

    Parameters
    ----------
    name : str
        Its own, else of its first result.
    operator : str
        With its domain, unless that is ONNX's.
    inputs, outputs : tuple of str
        Names, empty where an optional one is left out.
    attributes : dict
    """

    name: str
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Graph:
    """A graph as the file has it.

    Parameters
    ----------
    name, producer : str
    opsets : dict
        Version by domain.
    nodes : list of GraphNode
        Each behind those whose results it takes.
    constants : dict of ndarray
        Initialisers.
    inputs : dict
        Type and shape of each input; lengths that are no numbers have names, or are None.
    outputs : tuple of str
    shapes : dict
        Shapes that `onnx` infers where all lengths are known.
    """

    name: str
    producer: str
    opsets: dict[str, int]
    nodes: list[GraphNode]
    constants: dict[str, NDArray[Any]]
    inputs: dict[str, tuple[str, tuple[int | str | None, ...]]]
    outputs: tuple[str, ...]
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)


def parse(path: Path) -> Any:
    """Return the `ModelProto` of a file.

    Raises
    ------
    InputError
        If it is too long, or no ONNX.
    ToolMissing
        If the `onnx` package is not installed.
    """
    try:
        import onnx
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    except ImportError as error:
        raise ToolMissing(
            f"reading {path} needs the package onnx; install it with: pip install 'hwgen[models]'"
        ) from error
    check_regular(path, "models")
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise InputError(f"{path} has {size} bytes; an ONNX file has at most {MOST_BYTES}")
    try:
        model = onnx.load_model_from_string(path.read_bytes())
    except (DecodeError, ValueError) as error:
        raise InputError(
            f"{path} is no readable ONNX file, or is cut off: its {size} bytes are no protocol"
            f" buffer of a model ({readable(str(error))})"
        ) from None
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise InputError(f"{path} is no ONNX file of a network: it has no graph")
    return model


def _check_texts(path: Path, model: Any) -> None:
    """Refuse names that are no UTF-8, which protocol buffers give as bytes."""
    graphs = [*_graphs(model.graph)]
    texts = [
        model.producer_name, model.producer_version, model.domain,
        *(text for entry in model.opset_import for text in (entry.domain,)),
        *(text for entry in model.metadata_props for text in (entry.key, entry.value)),
        *(text for graph in graphs for text in _texts(graph)),
    ]  # fmt: skip
    wrong = next((text for text in texts if not isinstance(text, str)), None)
    if wrong is not None:
        raise InputError(f"{path}: the name {wrong!r:.80} is no UTF-8; export the model again")


def _graphs(graph: Any) -> Iterator[Any]:
    """Return a graph, and those inside of its operators."""
    waiting = [graph]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting += [a.g for n in graph.node for a in n.attribute if a.type == _GRAPH]


def _texts(graph: Any) -> list[Any]:
    """Return the names in a graph."""
    values = (*graph.input, *graph.output, *graph.value_info)
    tensors = (*graph.initializer, *(a.t for n in graph.node for a in n.attribute))
    places = [place for v in values for place in v.type.tensor_type.shape.dim]
    return [
        graph.name,
        *(text for n in graph.node for text in (n.name, n.op_type, n.domain, *n.input, *n.output)),
        *(a.name for n in graph.node for a in n.attribute), *(t.name for t in tensors),
        *(text for t in tensors for e in t.external_data for text in (e.key, e.value)),
        *(v.name for v in values), *(place.dim_param for place in places),
    ]  # fmt: skip


def read_graph(path: Path) -> tuple[Any, Graph]:
    """Return a file's `ModelProto` and its graph, checked.

    Raises
    ------
    InputError
        If something in it cannot be; all that is found wrong with tensors is listed.
    """
    model = parse(path)
    graph = model.graph
    _check_texts(path, model)
    if len(graph.node) > _MOST_NODES:
        raise InputError(f"{path} has {len(graph.node)} nodes, more than {_MOST_NODES}")
    problems: list[str] = []
    if graph.sparse_initializer:
        problems.append("sparse initialisers are not supported; store them densely")
    constants, nodes = _contents(graph, path.parent, problems)
    inputs = {}
    for value in graph.input:
        if value.name in constants:
            continue
        try:
            inputs[value.name] = _typed(value)
        except InputError as error:
            problems.append(f"input {readable(value.name)!r:.120}: {error}")
    if not graph.output:
        problems.append("the graph has no output")
    problems += _disorder(nodes, {*inputs, *constants, ""}, [value.name for value in graph.output])
    if problems:
        raise refused(path, problems)
    return model, Graph(
        readable(graph.name), readable(model.producer_name),
        {entry.domain: entry.version for entry in model.opset_import},
        nodes, constants, inputs, tuple(value.name for value in graph.output),
    )  # fmt: skip


def _contents(
    graph: Any, directory: Path, problems: list[str]
) -> tuple[dict[str, NDArray[Any]], list[GraphNode]]:
    """Return initialisers and nodes of a graph, and add what is wrong with them to `problems`."""
    constants: dict[str, NDArray[Any]] = {}
    for tensor in graph.initializer:
        try:
            constants[tensor.name] = _without_nan(array_of(tensor, directory))
        except (InputError, OSError) as error:
            problems.append(f"initialiser {readable(tensor.name)!r:.120}: {error}")
    nodes = []
    for index, node in enumerate(graph.node):
        try:
            nodes.append(_node(node, index, directory))
        except InputError as error:
            problems.append(str(error))
    return constants, nodes


def _without_nan(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array, which must have no NaN; masks may have infinities.

    Scales are left to the operators that take them.
    """
    if array.dtype == np.float32 and array.ndim > 1 and np.isnan(array).any():
        place = tuple(int(i) for i in np.argwhere(np.isnan(array))[0])
        raise InputError(f"element {place} is nan; the file is damaged, or training diverged")
    return array


def _inner(graph: Any, directory: Path) -> Graph:
    """Return a graph inside of an operator; its nodes may take arrays from outside.

    Raises
    ------
    InputError
        If something in it cannot be.
    """
    problems: list[str] = []
    constants, nodes = _contents(graph, directory, problems)
    if problems:
        raise InputError("; ".join(problems[:_MOST_AXES]))
    outputs = tuple(value.name for value in graph.output)
    return Graph(readable(graph.name), "", {}, nodes, constants, {}, outputs)


def array_of(tensor: Any, directory: Path) -> NDArray[Any]:
    """Return the array of a `TensorProto`.

    Raises
    ------
    InputError
        If it is of a type that is not read, or has another number of bytes than its shape needs.
    """
    type_name = TYPES.get(tensor.data_type)
    if type_name is None:
        names = ", ".join(name for name, _ in TYPES.values())
        raise InputError(
            f"is of type {_type_name(tensor.data_type)}, which is not read; {names} are"
        )
    name, dtype = type_name
    shape = tuple(tensor.dims)
    elements = _elements(shape)
    packed = name in ("int4", "uint4")
    needed = -(-elements // 2) if packed else elements * np.dtype(dtype).itemsize
    if tensor.data_location == 1 or tensor.external_data:
        data = _external(tensor, needed, directory)
    elif tensor.raw_data or not elements:
        data = tensor.raw_data
    else:
        return _listed(tensor, name, dtype, shape)
    if len(data) != needed:
        raise InputError(
            f"its shape {_by(shape)} of {name} needs {needed} bytes, but it has {len(data)}"
        )
    if packed:
        result = np.frombuffer(data, np.uint8)
        return _nibbles(result, elements, name).reshape(shape)
    return _widened(np.frombuffer(data, np.dtype(dtype).newbyteorder("<")), name).reshape(shape)


def _nibbles(data: NDArray[np.uint8], elements: int, name: str) -> NDArray[Any]:
    """Return integers of 4 bits, the low one of a byte first."""
    both = np.stack([data & 15, data >> 4], -1).reshape(-1)[:elements]
    if name == "uint4":
        return both.astype(ml_dtypes.uint4)
    return ((both.astype(np.int8) ^ 8) - np.int8(8)).astype(ml_dtypes.int4)


def _widened(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Return an array in a type that is computed with."""
    if name in WIDENED:
        with np.errstate(over="ignore"):
            return array.astype(WIDENED[name])
    if name == "bool":
        return np.asarray(array.view(np.uint8) != 0)
    return array.astype(array.dtype.newbyteorder("="))


def _elements(shape: tuple[int, ...]) -> int:
    if len(shape) > _MOST_AXES or any(length < 0 for length in shape):
        raise InputError(f"has the shape {_by(shape)}, which cannot be")
    elements = math.prod(shape)
    if elements > MOST_ELEMENTS:
        raise InputError(f"has {elements} elements ({_by(shape)}), more than {MOST_ELEMENTS}")
    return elements


def _by(shape: tuple[Any, ...]) -> str:
    return " x ".join(map(str, shape[:16])) or "of no axes"


def _listed(tensor: Any, name: str, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return an array whose elements are a list of numbers in the file."""
    where = {"float32": "float_data", "float64": "double_data", "int64": "int64_data"}
    key = where.get(name, "int32_data")
    values = getattr(tensor, key)
    if name in ("int4", "uint4"):
        data = np.array(values, np.int64).astype(np.uint8)
        count = len(data) * 2
    else:
        data, count = None, len(values)
    elements = math.prod(shape)
    if count not in (elements, elements + 1 if data is not None else elements):
        raise InputError(f"its shape {_by(shape)} needs {elements} elements, but {key} has {count}")
    if data is not None:
        return _nibbles(data, elements, name).reshape(shape)
    if name in ("float16", "bfloat16"):
        halves = np.array(values, np.int64).astype(np.uint16).view(dtype)
        return _widened(halves, name).reshape(shape)
    return _widened(np.array(values).astype(dtype), name).reshape(shape)


def _external(tensor: Any, needed: int, directory: Path) -> bytes:
    """Return bytes of another file, which must lie in the directory of the model or below."""
    result: Mapping[str, str] = {entry.key: entry.value for entry in tensor.external_data}
    location = result.get("location", "")
    given = Path(location)
    inside = directory.resolve()
    unsafe = not location or given.is_absolute() or ".." in given.parts or "\0" in location
    if unsafe or "\\" in location or not (inside / given).resolve().is_relative_to(inside):
        raise InputError(
            f"its data are in {readable(location)!r:.120}, which is not a path below the model's"
            " directory; put the file there, without .. and links to elsewhere"
        )
    try:
        offset, length = int(result.get("offset", "0")), int(result.get("length", str(needed)))
    except ValueError:
        raise InputError("offset and length of its data are no numbers") from None
    path = inside / given
    if not path.is_file():
        raise InputError(f"its data are in {readable(location)!r:.120}, which is not there")
    size = path.stat().st_size
    if length != needed or offset < 0 or offset + length > size:
        raise InputError(
            f"needs {needed} bytes; {readable(location)!r:.120} is to have {length} from byte"
            f" {offset}, and ends at {size}"
        )
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _type_name(number: int) -> str:
    """Return the name that ONNX has for a type of tensors."""
    from onnx import TensorProto  # an optional dependency

    try:
        return str(TensorProto.DataType.Name(number)).lower()
    except ValueError:
        return f"number {number}"


def _typed(value: Any) -> tuple[str, tuple[int | str | None, ...]]:
    """Return type and shape of an input."""
    if not value.type.HasField("tensor_type"):
        raise InputError("is no tensor; sequences, maps and optional values are not supported")
    kind = value.type.tensor_type
    name = TYPES.get(kind.elem_type, (_type_name(kind.elem_type), None))[0]
    name = WIDENED.get(name, name)
    if name not in ARRAYS:
        raise InputError(f"is of type {name}; inputs may be {', '.join((*ARRAYS, *WIDENED))}")
    if not kind.HasField("shape"):
        raise InputError("has no shape; export the model with one")
    shape: list[int | str | None] = []
    for length in kind.shape.dim:
        if length.HasField("dim_value"):
            shape.append(int(length.dim_value))
        else:
            shape.append(readable(length.dim_param) or None)
    if len(shape) > _MOST_AXES:
        raise InputError(f"has {len(shape)} axes, more than {_MOST_AXES}")
    return name, tuple(shape)


def _node(node: Any, index: int, directory: Path) -> GraphNode:
    domain = "" if node.domain in ("", "ai.onnx") else f"{readable(node.domain)}:"
    name = readable(node.name) or readable(next(iter(node.output), "")) or f"node {index}"
    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        key = readable(attribute.name)
        match attribute.type:
            case 1:
                attributes[key] = float(attribute.f)
            case 2:
                attributes[key] = int(attribute.i)
            case 3:
                attributes[key] = readable(attribute.s.decode("utf-8", "replace"))
            case 4:
                try:
                    attributes[key] = array_of(attribute.t, directory)
                except InputError as error:
                    raise InputError(f"node {name!r:.120}: {key} {error}") from None
            case 5:
                try:
                    attributes[key] = _inner(attribute.g, directory)
                except InputError as error:
                    raise InputError(f"node {name!r:.120}: {key}: {error}") from None
            case 6:
                attributes[key] = tuple(float(number) for number in attribute.floats)
            case 7:
                attributes[key] = tuple(int(number) for number in attribute.ints)
            case 8:
                attributes[key] = tuple(
                    text.decode("utf-8", "replace") for text in attribute.strings
                )
            case _:
                attributes[key] = None  # types and the like: of operators that are refused
    operator = f"{domain}{readable(node.op_type)}"
    return GraphNode(name, operator, tuple(node.input), tuple(node.output), attributes)


def _disorder(nodes: list[GraphNode], names: set[str], outputs: list[str]) -> list[str]:
    """Return the problems of the order of nodes."""
    made = {name for node in nodes for name in node.outputs}
    problems = []
    defined = set(names)
    for node in nodes:
        for name in node.inputs:
            if name not in defined:
                what = "is made by no node before it: the graph has a cycle, or nodes in disorder"
                if name not in made:
                    what = "is made by no node, and is no input"
                problems.append(
                    f"node {node.name!r:.120}: its input {readable(name)!r:.120} {what}"
                )
        for name in node.outputs:
            if name and name in defined:
                problems.append(
                    f"node {node.name!r:.120}: its result {readable(name)!r:.120} is there already"
                )
        defined |= set(node.outputs)
    for name in outputs:
        if name not in defined or not name:
            problems.append(f"output {readable(name)!r:.120}: nothing makes it")
    return problems
