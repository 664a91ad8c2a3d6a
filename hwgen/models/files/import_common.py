# SPDX-License-Identifier: Apache-2.0
"""Functions that importers of decoders share: description, folded factors, refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.errors import InputError
from hwgen.models.graph.decoder import arrays_of, nodes_of
from hwgen.models.graph.decoder_shape import DecoderShape
from hwgen.models.graph.description import Description, Source, Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.models.files.store import Writer

_LEAST, _MOST = 1e-30, 1e30  # of numbers in configurations: single precision has these

INCOMPLETE = "; the file is incomplete: fetch it again"
"""What to do about a file that ends too early."""

_LISTED = 12  # problems that are written out


def readable(text: str) -> str:
    """Return a text without what is no character, not longer than a description has it."""
    return text.encode("utf-8", "replace").decode()[:300]


def positive_real(value: object) -> float | None:
    """Return a value of a configuration as a positive number, None if it is none."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value) if _LEAST <= value <= _MOST else None
    return None


def refused(path: Path, problems: Sequence[str]) -> InputError:
    """Return the error that lists what stands against importing a file."""
    more = len(problems) - _LISTED
    lines = [*problems[:_LISTED], *([f"and {more} more"] if more > 0 else [])]
    return InputError(f"{path} cannot be imported:\n  " + "\n  ".join(lines))


def is_folded(name: str, offset: float, logit_scale: float) -> bool:
    """Return whether `folded` changes a tensor."""
    last = name.startswith("output_norm")
    return (last and logit_scale != 1.0) or (offset != 0.0 and name.endswith("norm"))


def folded(name: str, piece: NDArray[Any], offset: float, logit_scale: float) -> NDArray[Any]:
    """Return numbers of a tensor with constants of the architecture in them.

    Parameters
    ----------
    name : str
        Of the tensor.
    piece : ndarray
        Some of its rows.
    offset : float
        What the factors of normalisations are more than the file has them.
    logit_scale : float
        Factor of logits: the last normalisation applies it.
    """
    if not is_folded(name, offset, logit_scale):
        return piece
    result = piece.astype(np.float32)
    if name.endswith("norm"):
        result = result + np.float32(offset)
    if name.startswith("output_norm"):
        result = result * np.float32(logit_scale)
    return result


def write_factors(writer: Writer, shape: DecoderShape) -> None:
    """Write the factors of rotations that follow from a file's sizes."""
    if shape.factors:
        array = np.array(shape.factors, np.float32)
        writer.numbers("rope_factors", [array], array.shape, "F32")


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
        outputs=(nodes[-1].output,),
        arrays=arrays_of(shape, nodes),
        tensors=dict(tensors),
        nodes=nodes,
        context=shape.context,
        vocabulary=shape.vocabulary,
    )
