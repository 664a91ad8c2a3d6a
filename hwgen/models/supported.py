# SPDX-License-Identifier: Apache-2.0
"""The page of what is read of model files, from the tables that reading goes by.

``python -m hwgen.models.supported`` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from hwgen.models.files.checkpoint_config import FAMILIES
from hwgen.models.files.gguf_architectures import ARCHITECTURES
from hwgen.models.files.gguf_blocks import I2_S_LAYOUTS, OTHERS, TYPES
from hwgen.models.files.safetensors_file import DTYPES
from hwgen.models.graph.operations import OPERATIONS as DESCRIBED
from hwgen.models.onnx.file import ARRAYS, WIDENED
from hwgen.models.onnx.file import TYPES as ONNX_TYPES
from hwgen.models.onnx.import_onnx import OPSETS
from hwgen.models.onnx.operator_table import OPERATORS
from hwgen.models.onnx.operators import ALTERNATIVES, QONNX
from hwgen.models.tflite.file import TYPES as LITE_TYPES
from hwgen.models.tflite.operators import NOTES

_HEAD = """# Supported operators and types

What `hwgen model import` reads, written by `make docs` from the tables that it goes by. What else a
file has is refused, all of it in one message; [Models](models.md) says how networks are run,
quantised and estimated.
"""


def markdown() -> str:
    """Return the page."""
    lines = [*_HEAD.splitlines(), *_onnx(), *_lite(), *_files(), *_operations()]
    return "\n".join(lines) + "\n"


def _onnx() -> Iterator[str]:
    arrays = ", ".join(ARRAYS)
    stored = ", ".join(name for name, _ in ONNX_TYPES.values())
    yield from ("", "## ONNX", "")
    yield f"Versions {OPSETS[0]} to {OPSETS[1]} of ONNX's own operators. Computed are {arrays};"
    yield f"initialisers may be {stored}."
    wide = ", ".join(f"{name} by {other}" for name, other in WIDENED.items())
    yield f"Other types of initialisers and inputs are replaced at import: {wide};"
    yield "integers do not wrap around at 16 bits. Lengths are fixed then, and what follows"
    yield 'from them and from constants is computed: "constant" below means constant after that.'
    yield from ("", "| operator | becomes | restrictions |", "| --- | --- | --- |")
    for name in sorted(OPERATORS, key=lambda name: (name.rpartition(":")[0], name)):
        if not name.startswith(QONNX[1:]):
            each = OPERATORS[name]
            yield f"| {_name(name)} | {each.becomes} | {each.restrictions} |"
    yield ""
    others = " and ".join(f"`{domain[:-1]}`" for domain in QONNX[1:])
    yield f"QONNX's operators are read in the domains {others}, too."
    yield from ("", "What to do about some that are not read:", "")
    yield from ("| operator | way out |", "| --- | --- |")
    for name, alternative in sorted(ALTERNATIVES.items()):
        yield f"| {_name(name)} | {alternative} |"


def _name(name: str) -> str:
    domain, _, kind = name.rpartition(":")
    return f"`{kind}` of `{domain}`" if domain else f"`{kind}`"


def _lite() -> Iterator[str]:
    types = ", ".join(LITE_TYPES.values())
    yield from ("", "## TensorFlow Lite", "")
    yield "Networks of one graph whose activations and weights are int8, weights with zero points"
    yield f"of 0 and scales for each channel or one; tensors are {types}. Integers are those of"
    yield "the reference kernels."
    yield from ("", "| operator | becomes |", "| --- | --- |")
    for name in sorted(NOTES):
        yield f"| `{name}` | {NOTES[name]} |"


def _files() -> Iterator[str]:
    names = ", ".join(f"`{name}`" for name in ARCHITECTURES)
    yield from ("", "## GGUF", "")
    yield f"Decoders of the architectures {names}, with tensors of these types:"
    yield from ("", "| type | elements of a block | bytes | bits | group of a scale |")
    yield "| --- | --- | --- | --- | --- |"
    for kind in TYPES.values():
        group = str(kind.group) if kind.unpack is not None else "no scales"
        yield f"| `{kind.name}` | {kind.elements} | {kind.bytes} | {kind.bits} | {group} |"
    layouts = " and ".join(f"`{name}`" for name in I2_S_LAYOUTS)
    yield ""
    yield f"`I2_S` is read with `--i2s-layout`, in the layouts {layouts}. Not read are"
    yield ", ".join(f"`{name}`" for name in OTHERS.values() if name != "I2_S") + "."
    kinds, types = (", ".join(f"`{n}`" for n in names) for names in (FAMILIES, DTYPES))
    yield from ("", "## safetensors", "")
    yield f"Decoders whose `model_type` is {kinds}, with tensors of {types}; the last"
    yield "of these holds four rows of ternary weights in each byte."


def _operations() -> Iterator[str]:
    yield from ("", "## Operations of the description", "")
    yield "What all of it becomes in `model.json`; operands in brackets may be left out."
    yield from ("", "| operation | operands | attributes | result |", "| --- | --- | --- | --- |")
    for name, kind in DESCRIBED.items():
        operands = [*kind.operands, *(f"[{name}]" for name in kind.optional)]
        operands += ["x0", "x1", "..."] if kind.repeated else []
        names = [*kind.attributes, *(f"[{key}]" for key in kind.defaults)]
        yield f"| `{name}` | {', '.join(operands)} | {', '.join(names)} | {kind.summary} |"


if __name__ == "__main__":
    sys.stdout.write(markdown())
