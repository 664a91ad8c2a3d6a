# SPDX-License-Identifier: Apache-2.0
"""Cores that add as a tensor core: what follows from its name, and what it does not have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.fields import FieldInfo

from hwgen.core.params.block_operands import BlockOperands
from hwgen.formats.block.accumulator import TENSOR_CORES, TensorCore


def with_tensor_core(data: Mapping[str, Any], fields: Mapping[str, FieldInfo]) -> dict[str, Any]:
    """Return a configuration with the processing element and the depth of its tensor core.

    Parameters
    ----------
    data : mapping
        With the name of a tensor core as its accumulator.
    fields : mapping of FieldInfo
        The fields of its model, with an array that may have no depth.
    """
    core = TENSOR_CORES[str(data["accumulator"])]
    step = core.step(*(data.get(name, fields[name].default) for name in ("activation", "weight")))
    array = data.get("array") or {}
    if step is None or not isinstance(array, Mapping):
        return dict(data)
    defaults: dict[str, Any] = {"pe": "fused"} if step.accumulator else {}
    if "depth" in getattr(fields["array"].annotation, "model_fields", {}):
        defaults["depth"] = step.depth
    return {**data, "array": {**defaults, **array}}


def tensor_core_errors(core: TensorCore, operands: BlockOperands, pe: str) -> list[str]:
    """Return why a tensor core has no step of these operands and this depth."""
    step = core.step(operands.activation, operands.weight)
    steps = f"{core} adds " + "; ".join(map(str, core.steps))
    if step is None:
        return [f"accumulator: must not be {core} with {operands}: {steps}"]
    errors = []
    if operands.depth != step.depth:
        if not operands.depth_field:
            text = (
                f"accumulator: must not be {core}: a PE of this array takes {operands.depth}"
                f" product at a time, and {steps}"
            )
            return [text]
        errors.append(
            f"{operands.depth_field}: must be {step.depth} with accumulator {core} and {operands},"
            f" not {operands.depth}: {steps}"
        )
    if step.accumulator is not None and pe != "fused":
        errors.append(
            f"array.pe: must be fused with accumulator {core} and {operands}, not {pe}: each"
            " product is aligned by itself"
        )
    return errors
