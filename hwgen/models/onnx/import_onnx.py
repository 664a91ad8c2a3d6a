# SPDX-License-Identifier: Apache-2.0
"""Import of networks from ONNX: perceptrons, convolutions, encoders, quantised or in floats.

Shapes are fixed at import, and all that follows from shapes and constants is computed then.  Where
QuantizeLinear and DequantizeLinear stand around an operator, it becomes one of integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hwgen.errors import InputError, did_you_mean
from hwgen.models.files.import_common import readable, refused
from hwgen.models.graph.description import Description, Source
from hwgen.models.onnx.builder import Builder, Unsupported, Value
from hwgen.models.onnx.elementwise import batch_norm_line
from hwgen.models.onnx.file import Graph, GraphNode, array_of, read_graph
from hwgen.models.onnx.operator_table import OPERATORS
from hwgen.models.onnx.operators import ALTERNATIVES
from hwgen.models.onnx.patterns import fuse_gelu
from hwgen.models.onnx.writing import shown, write_network

OPSETS = (7, 28)
"""First and last version of ONNX's operators that are read."""


def import_onnx(
    source: Path, directory: Path, sizes: Mapping[str, int] | None = None
) -> Description:
    """Write the network that an ONNX file holds into a directory.

    Parameters
    ----------
    source : Path
    directory : Path
        Where the model's files are written; empty.
    sizes : mapping of int, optional
        Lengths by the names that the file has for them, or ``INPUT.AXIS``.

    Returns
    -------
    Description

    Raises
    ------
    InputError
        If the file cannot be read, or holds what is not supported; all of it is listed.
    ToolMissing
        If the `onnx` package is not installed.
    """
    model, graph = read_graph(source)
    _check_operators(source, graph)
    inputs = _fixed(source, graph, dict(sizes or {}))
    _infer(source, model, graph, inputs)
    _fold_batch_norms(graph)
    builder = Builder(graph.opsets.get("", 1))
    builder.reserve(name for node in nested(graph) for name in node.outputs if name)
    values: dict[str, Value] = {"": Value("", (), "")}
    taken = [builder.input(name, dtype, shape) for name, (dtype, shape) in inputs.items()]
    values |= dict(zip(inputs, taken, strict=True))
    for name, array in graph.constants.items():
        values[name] = builder.constant(array)
    problems = _convert(builder, graph, values)
    if problems:
        raise refused(source, problems)
    _check(source, model, {name: values[name].shape for name in graph.outputs})
    outputs = [shown(builder, name, values[name]) for name in graph.outputs]
    fuse_gelu(builder, [value.name for value in outputs])
    licence = next((entry.value for entry in model.metadata_props if entry.key == "license"), "")
    origin = Source(
        format="onnx", file=readable(source.name), architecture=graph.producer or "onnx",
        licence=readable(licence),
    )  # fmt: skip
    return write_network(directory, builder, taken, outputs, graph.name or source.stem, origin)


def _check_operators(source: Path, graph: Graph) -> None:
    """Refuse operators that are not read, all at once.

    Those inside of others are listed, too; alone they do not count, for a branch may not be taken.
    """
    problems = []
    if any(node.operator not in OPERATORS for node in graph.nodes):
        problems = _unknown(nested(graph))
    version = graph.opsets.get("", 0)
    ours = any(":" not in node.operator for node in graph.nodes)
    if ours and not OPSETS[0] <= version <= OPSETS[1]:
        problems.append(
            f"version {version} of ONNX's operators is not supported, {OPSETS[0]} to {OPSETS[1]}"
            " are; convert the file by onnx.version_converter"
        )
    if problems:
        raise refused(source, problems)


def nested(graph: Graph) -> Iterator[GraphNode]:
    """Return the nodes of a graph, each before those of the graphs inside of it."""
    for node in graph.nodes:
        yield node
        for value in node.attributes.values():
            if isinstance(value, Graph):
                yield from nested(value)


def _unknown(nodes: Iterable[GraphNode]) -> list[str]:
    """Return the problems of operators that are not read."""
    result: dict[str, list[str]] = {}
    for node in nodes:
        if node.operator not in OPERATORS:
            result.setdefault(node.operator, []).append(node.name)
    problems = []
    for name, places in result.items():
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        where = ", ".join(repr(place)[:80] for place in places[:3])
        near = "" if name in ALTERNATIVES else did_you_mean(name, OPERATORS)
        remedy = ALTERNATIVES.get(name, "see `docs/supported-operators.md` for what there is")
        problems.append(f"{name[:80]} ({where}{more}) is not supported{near}; {remedy}")
    return problems


def _fixed(
    source: Path, graph: Graph, sizes: dict[str, int]
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return type and shape of every input, with no length left open."""
    problems, result, asked = [], {}, set()
    for name, (dtype, shape) in graph.inputs.items():
        lengths = []
        for axis, length in enumerate(shape):
            keys = {f"{name}.{axis}", length if isinstance(length, str) else f"{name}.{axis}"}
            asked |= keys
            said = [sizes[key] for key in keys if key in sizes]
            if isinstance(length, int) and length > 0:
                lengths.append(length)
            elif said:
                lengths.append(said[0])
            elif axis == 0:
                lengths.append(1)
            else:
                key = length if isinstance(length, str) else f"{name}.{axis}"
                problems.append(f"input {name!r:.80}: axis {axis} has no length; give it with"
                                f" --size {key}=N")  # fmt: skip
        if np.prod(lengths, dtype=object) > 1 << 28:
            problems.append(f"input {name!r:.80}: its shape {lengths} is too large")
        result[name] = dtype, tuple(lengths)
    for key in sizes:
        if key not in asked:
            problems.append(f"--size {key}: no input has that length{did_you_mean(key, asked)}")
    if problems:
        raise refused(source, problems)
    return result


def _infer(
    source: Path, model: Any, graph: Graph, inputs: Mapping[str, tuple[str, tuple[int, ...]]]
) -> None:
    """Let `onnx` check the graph and infer shapes."""
    import onnx

    for tensor in model.graph.initializer:
        if tensor.data_location == 1 or tensor.external_data:
            array = array_of(tensor, source.parent)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    for value in model.graph.input:
        if value.name in inputs:
            shape = value.type.tensor_type.shape
            for place, length in zip(shape.dim, inputs[value.name][1], strict=True):
                place.dim_value = length
    for value in (*model.graph.output, *model.graph.value_info):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception as error:  # of several kinds, from C++
        raise _by_onnx(source, error) from None
    for value in (*inferred.graph.value_info, *inferred.graph.output):
        kind = value.type.tensor_type
        if kind.HasField("shape") and all(place.HasField("dim_value") for place in kind.shape.dim):
            graph.shapes[value.name] = tuple(int(place.dim_value) for place in kind.shape.dim)


def _by_onnx(source: Path, error: Exception) -> InputError:
    return InputError(
        f"{source}: refused by the onnx package: {readable(' '.join(str(error).split()))}"
    )


def _check(source: Path, model: Any, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Let `onnx` check the graph by its own rules; outputs have the shapes that were found."""
    import onnx

    for value in model.graph.output:
        shape = value.type.tensor_type.shape
        shape.ClearField("dim")
        shape.SetInParent()
        for length in shapes[value.name]:
            shape.dim.add().dim_value = length
    try:
        onnx.checker.check_model(model)
    except Exception as error:  # of several kinds, from C++
        raise _by_onnx(source, error) from None


def _fold_batch_norms(graph: Graph) -> None:
    """Put factors and terms of BatchNormalization into the constants of a Conv before it."""
    uses: dict[str, int] = {}
    for name in (*(name for node in nested(graph) for name in node.inputs), *graph.outputs):
        uses[name] = uses.get(name, 0) + 1
    makers = {node.outputs[0]: node for node in graph.nodes if node.outputs}
    kept: list[GraphNode] = []
    for node in graph.nodes:
        if node.operator != "BatchNormalization" or not _folded(graph, node, makers, uses):
            kept.append(node)
    graph.nodes = kept


def _folded(
    graph: Graph, node: GraphNode, makers: Mapping[str, GraphNode], uses: Mapping[str, int]
) -> bool:
    """Return whether a BatchNormalization was put into the Conv before it."""
    conv = makers.get(node.inputs[0]) if node.inputs else None
    if conv is None or conv.operator != "Conv" or uses[node.inputs[0]] != 1 or len(conv.inputs) < 2:
        return False
    weights = graph.constants.get(conv.inputs[1])
    bias = graph.constants.get(conv.inputs[2]) if len(conv.inputs) > 2 else None
    if weights is None or weights.dtype != np.float32 or (len(conv.inputs) > 2 and bias is None):
        return False
    if len(node.outputs) != 1 or node.attributes.get("training_mode", 0):
        return False
    parts: list[Value | None] = [None]
    for name in node.inputs[1:]:
        array = graph.constants.get(name)
        if array is None:
            return False
        parts.append(Value("", array.shape, array.dtype.name, array))
    try:
        factor, term = batch_norm_line(node, parts, len(weights))
    except Unsupported:
        return False
    added = term if bias is None else bias * factor + term
    names = [f"{node.name}.weights", f"{node.name}.bias"]
    scaled = weights * factor.reshape(-1, *(1,) * (weights.ndim - 1))
    graph.constants |= dict(zip(names, (scaled, added.astype(np.float32)), strict=True))
    conv.inputs = (conv.inputs[0], *names)
    conv.outputs = node.outputs
    return True


def _convert(builder: Builder, graph: Graph, values: dict[str, Value]) -> list[str]:
    """Turn nodes into operations, and return what stands against it."""
    problems: list[str] = []

    def inline(branch: Graph) -> list[Value]:
        """Convert a branch that is taken."""
        outside = builder.inline
        scope = values | {name: builder.constant(a) for name, a in branch.constants.items()}
        more = _unknown(branch.nodes)
        if not more:
            more = _convert(builder, branch, scope)
        builder.inline = outside
        problems.extend(more)
        if more or any(name not in scope for name in branch.outputs):
            raise Unsupported("its branch cannot be read")
        return [scope[name] for name in branch.outputs]

    builder.inline = inline
    used = {*(name for node in nested(graph) for name in node.inputs), *graph.outputs}
    for node in graph.nodes:
        if any(name not in values for name in node.inputs):
            continue  # behind one that is refused
        operands = [values[name] if name else None for name in node.inputs]
        operator = OPERATORS[node.operator]
        builder.current = node.name
        try:
            if len(operands) > operator.most_inputs:
                raise Unsupported(
                    f"has {len(operands)} inputs, and not at most {operator.most_inputs}"
                )
            with np.errstate(all="ignore"):
                results = operator.convert(builder, node, operands)
            _agree(graph, node, results)
        except (ValueError, IndexError, KeyError, ArithmeticError) as error:
            problems.append(f"node {node.name!r:.120}, {node.operator}: cannot be: {error}")
            continue
        except Unsupported as reason:
            limits = f" ({node.operator}: {operator.restrictions})" if operator.restrictions else ""
            condition = next(iter(operands), None)
            if node.operator == "If" and (condition is None or condition.constant is None):
                problems += _unknown(nested(Graph("", "", {}, [node], {}, {}, ())))
            problems.append(f"node {node.name!r:.120}, {node.operator}: {reason}{limits}")
            continue
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                builder.called(value, name)
                values[name] = value
        if any(name in used and name not in values for name in node.outputs if name):
            problems.append(
                f"node {node.name!r:.120}: more of its results are used than {node.operator} gives"
            )
    return problems


def _agree(graph: Graph, node: GraphNode, results: Sequence[Value]) -> None:
    """Hold shapes against those that `onnx` infers."""
    for name, value in zip(node.outputs, results, strict=False):
        expected = graph.shapes.get(name)
        if expected is not None and expected != value.shape:
            raise Unsupported(f"its result has the shape {value.shape}, but onnx infers {expected}")
