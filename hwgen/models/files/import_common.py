# SPDX-License-Identifier: Apache-2.0
"""Functions that importers of decoders share: description, readable names, refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hwgen.errors import InputError
from hwgen.models.graph.decoder import DecoderShape, arrays_of, nodes_of
from hwgen.models.graph.description import Description, Source, Tensor

_LISTED = 12  # problems that are written out


def readable(text: str) -> str:
    """Return a text without what is no character, not longer than a description has it."""
    return text.encode("utf-8", "replace").decode()[:300]


def refused(path: Path, problems: Sequence[str]) -> InputError:
    """Return the error that lists what stands against importing a file."""
    more = len(problems) - _LISTED
    lines = [*problems[:_LISTED], *([f"and {more} more"] if more > 0 else [])]
    return InputError(f"{path} cannot be imported:\n  " + "\n  ".join(lines))


def described(
    shape: DecoderShape, tensors: Mapping[str, Tensor], name: str, source: Source
) -> Description:
    """Return the description of a decoder.

    Parameters
    ----------
    shape : DecoderShape
    tensors : mapping of Tensor
        What was written, by hwgen's names.
    name : str
        Of the model; it may be empty.
    source : Source
    """
    nodes = nodes_of(shape, set(tensors))
    return Description(
        hwgen_model=1,
        name=name or "model",
        source=source,
        inputs=("tokens",),
        outputs=("logits:0",),
        arrays=arrays_of(shape, nodes),
        tensors=dict(tensors),
        nodes=nodes,
        context=shape.context,
        vocabulary=shape.vocabulary,
    )
