# SPDX-License-Identifier: Apache-2.0
"""Import of networks from TensorFlow Lite whose activations and weights are int8."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hwgen.errors import did_you_mean
from hwgen.models.files.import_common import readable, refused
from hwgen.models.graph.description import Description, Source
from hwgen.models.onnx.builder import Builder, Unsupported, Value
from hwgen.models.onnx.writing import shown, write_network
from hwgen.models.tflite.file import LiteGraph, LiteTensor, read_graph
from hwgen.models.tflite.operators import OPERATORS, Conversion, Operand


def import_tflite(source: Path, directory: Path) -> Description:
    """Write the network that a TensorFlow Lite file holds into a directory.

    Parameters
    ----------
    source : Path
    directory : Path
        Where the model's files are written; empty.

    Returns
    -------
    Description

    Raises
    ------
    InputError
        If the file cannot be read, or holds what is not supported; all of it is listed.
    """
    graph = read_graph(source)
    problems = _unknown(graph)
    if problems:
        raise refused(source, problems)
    builder = Builder(0)
    builder.reserve(tensor.name for tensor in graph.tensors)
    values: dict[int, Value] = {}
    for index, tensor in enumerate(graph.tensors):
        if tensor.data is not None:
            values[index] = builder.constant(tensor.data.astype(tensor.dtype))
    for index in graph.inputs:
        tensor = graph.tensors[index]
        problems += _input_problems(tensor)
        if not problems:
            values[index] = builder.input(tensor.name, tensor.dtype, tensor.shape)
    taken = [values[index] for index in graph.inputs if not problems]
    problems = problems or _convert(builder, graph, values)
    if problems:
        raise refused(source, problems)
    outputs = [shown(builder, graph.tensors[i].name, values[i]) for i in graph.outputs]
    origin = Source(format="tflite", file=readable(source.name), architecture="tflite")
    return write_network(directory, builder, taken, outputs, source.stem, origin)


def _unknown(graph: LiteGraph) -> list[str]:
    """Return the problems of operators that are not read."""
    places: dict[str, list[str]] = {}
    for operator in graph.operators:
        if operator.name not in OPERATORS:
            places.setdefault(operator.name, []).append(operator.label)
    result = []
    for name, found in places.items():
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        where = ", ".join(repr(place)[:80] for place in found[:3])
        near = did_you_mean(name, OPERATORS)
        result.append(
            f"{name[:80]} (for {where}{more}) is not supported{near}; {', '.join(OPERATORS)} are"
        )
    return result


def _input_problems(tensor: LiteTensor) -> list[str]:
    if not math.prod(tensor.shape):
        return [f"input {tensor.name!r:.120} has the shape {tensor.shape}, and no elements"]
    return []


def _convert(builder: Builder, graph: LiteGraph, values: dict[int, Value]) -> list[str]:
    """Turn operators into operations, and return what stands against it."""
    problems: list[str] = []
    refused_ones: set[int] = set()
    for operator in graph.operators:
        missing = [i for i in operator.inputs if i >= 0 and i not in values]
        if missing:
            if not refused_ones.intersection(missing):
                problems.append(
                    f"{operator.name} of {operator.label!r:.120}: its operand"
                    f" {graph.tensors[missing[0]].name!r:.120} is made by nothing before it"
                )
            refused_ones.update(operator.outputs)
            continue
        operands = [
            Operand(values[i], graph.tensors[i]) if i >= 0 else None for i in operator.inputs
        ]
        result = graph.tensors[operator.outputs[0]]
        builder.current = result.name
        try:
            with np.errstate(all="ignore"):
                value = OPERATORS[operator.name](Conversion(builder, operator, operands, result))
            _agree(value, result, operator.outputs)
        except (ValueError, IndexError, KeyError, ArithmeticError) as error:
            problems.append(f"{operator.name} of {operator.label!r:.120}: cannot be: {error}")
        except Unsupported as reason:
            problems.append(f"{operator.name} of {operator.label!r:.120}: {reason}")
        else:
            builder.called(value, result.name)
            values[operator.outputs[0]] = value
            continue
        refused_ones.update(operator.outputs)
    for index in graph.outputs:
        if not problems and index not in values:
            problems.append(f"output {graph.tensors[index].name!r:.120}: nothing makes it")
    return problems


def _agree(value: Value, result: LiteTensor, outputs: Sequence[int]) -> None:
    """Hold a result against what the file says of it."""
    if len(outputs) != 1:
        raise Unsupported(f"has {len(outputs)} results, not one")
    if value.shape != result.shape or value.dtype != result.dtype:
        raise Unsupported(
            f"its result is {value.dtype} {value.shape}, but the file has {result.dtype}"
            f" {result.shape}"
        )
