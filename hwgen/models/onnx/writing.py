# SPDX-License-Identifier: Apache-2.0
"""Writing of networks that are built operation by operation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from hwgen.errors import InputError
from hwgen.models.files.import_common import readable
from hwgen.models.files.store import WEIGHTS, Writer, write_description
from hwgen.models.graph.description import Description, Source
from hwgen.models.onnx.builder import Builder, Value
from hwgen.progress import steps


def write_network(
    directory: Path, builder: Builder, inputs: Sequence[Value], outputs: Sequence[Value],
    name: str, source: Source,
) -> Description:  # fmt: skip
    """Write what a builder holds into a directory, and return its description.

    Raises
    ------
    InputError
        If something in it cannot be described.
    """
    nodes, names, shapes, types = builder.finished(inputs, outputs)
    with (directory / WEIGHTS).open("wb") as file:
        writer = Writer(file)
        for tensor, array in steps("tensors", builder.tensors.items()):
            dtype = array.dtype.name
            writer.numbers(tensor, [np.ascontiguousarray(array)], array.shape, dtype)
    try:
        description = Description.model_validate(dict(
            hwgen_model=1, name=name, source=source, inputs=tuple(x.name for x in inputs),
            outputs=names, arrays=shapes, tensors=dict(writer.tensors), nodes=nodes, types=types,
        ))  # fmt: skip
    except ValidationError as error:
        item = error.errors()[0]
        place = ".".join(map(str, item["loc"]))
        raise InputError(f"{source.file}: {place}: {item['msg']}") from None
    write_description(directory, description)
    return description


def shown(builder: Builder, name: str, value: Value) -> Value:
    """Return an output as an array that an operation makes."""
    builder.current = name
    made = {node.output for node in builder.nodes}
    if value.constant is not None:
        raise InputError(
            f"output {readable(name)!r:.80} depends on no input; there is nothing to run"
        )
    if value.name in made and builder.name_of(value) == readable(name):
        return value
    copy = builder.emit("reshape", {"x": value}, shape=value.shape)
    builder.called(copy, name)
    return copy
