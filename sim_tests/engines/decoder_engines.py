# SPDX-License-Identifier: Apache-2.0
"""Small engines that decoders are compiled for."""

from __future__ import annotations

from typing import Any

from hwgen.families.transformer.params import TransformerConfig

BETWEEN = (
    "quantise_fp32_int8", "dequantise_rows_int32_fp32", "dequantise_fp32_int16",
    "dequantise_int16_fp32",
)  # fmt: skip
"""Operations of a unit that does all that a decoder does with rows, beside those in fp32."""


def rows(operations: list[str], source: str, target: str, **array: Any) -> dict[str, Any]:
    """Return a vector unit in a stream engine."""
    lanes = {"int4": 4, "int8": 4, "fp8_e4m3": 4, "fp4_e2m1": 8}.get(target, 2)
    given = {"operations": operations, "lanes": lanes, "longest_row": 512, **array}
    return {
        "family": "stream_engine",
        "compute": {"family": "vector", "input": source, "output": target, "parameters": "fp32",
                    "array": given},
        "queue": 2,
        "buffers": {"port_beats": 16},
    }  # fmt: skip


def small_engine(
    *,
    ternary: bool = False,
    blocks: str = "",
    gate: str = "silu",
    norm: str = "rms_norm",
    without: str = "",
    hadamard: int = 0,
    mxfp8: bool = False,
    int4: bool = False,
    keys: str = "",
    shared: bool = False,
    **changes: Any,
) -> TransformerConfig:
    """Return an engine for heads of up to 24 elements, but for a unit that is left out.

    With a format of elements for `keys`, keys and values are in blocks, and heads have 32.

    Its weights are int8, ternary, or a format of `blocks` with scales; rows before products are
    int8, with `mxfp8` blocks, or with `int4` integers of 4 bits.  With `shared` one unit does all
    operations on rows.
    """
    integers = rows(["quantise"], "fp32", "int8")
    if hadamard:
        operations = ["quantise", "hadamard_quantise"]
        integers = rows(operations, "fp32", "int8", hadamard=hadamard)
    core: dict[str, Any] = {
        "family": "systolic",
        "max_k": 65536,
        "array": {"rows": 2, "cols": 2, "dataflow": "weight_stationary"},
    }
    if ternary:
        core = {"family": "ternary_lut", "accumulator": "int32", "max_k": 65536,
                "array": {"tables": 2, "fetch_ports": 2}}  # fmt: skip
    if blocks:
        activation = "mxfp8_e4m3" if mxfp8 else "int4" if int4 else "int8"
        core = {"family": "adder_tree", "activation": activation, "weight": blocks,
                "accumulator": "fp32", "max_k": 128, "array": {"cols": 2, "depth": 8}}  # fmt: skip
    kib = dict.fromkeys(("activation_kib", "weight_kib", "output_kib", "column_kib"), 1)
    units: dict[str, Any] = {
        "products": {
            "family": "gemm_stream", "compute": core, "post": {"outputs": ["raw"]}, "buffers": kib,
        },
        "rows": rows([norm, "rope", "gated", "add", "argmax"], "fp32", "fp32", gate=gate),
        "integers": integers,
        **({"short": rows(["quantise"], "fp32", "int4")} if int4 else {}),
        "sums": rows(["dequantise_rows"], "fp32" if blocks else "int32", "fp32"),
        **({"blocks": rows(["quantise_block"], "fp32", "fp8_e4m3")} if mxfp8 else {}),
        "scales": rows(["dequantise"], "fp32", "int16"),
        "results": rows(["dequantise"], "int16", "fp32"),
        "heads": {
            "family": "stream_engine",
            "compute": {"family": "attention", "head": 24, "max_keys": 64,
                        "array": {"rows": 4, "lanes": 4}},
            "buffers": {"port_beats": 16},
        },
    }  # fmt: skip
    if shared:
        for name in ("integers", "sums", "scales", "results"):
            del units[name]
        operations = [norm, "rope", "gated", "add", "argmax", *BETWEEN]
        units["rows"] = rows(operations, "fp32", "fp32", gate=gate)
    if keys:
        del units["scales"]
        units["queries"] = rows(["dequantise"], "fp32", "fp16")
        units["keys"] = rows(["quantise_block"], "fp32", keys)
        units["results"] = rows(["dequantise"], "fp16", "fp32")
        units["heads"]["compute"] |= {
            "head": 32, "query": "fp16", "key": keys, "value": keys, "output": "fp16",
            "scales": "block",
        }  # fmt: skip
    memory = {"data_width": 64, "max_burst": 8, "outstanding": 4, "address_width": 40}
    values = {
        "name": "decoder",
        "family": "transformer",
        "units": {name: unit for name, unit in units.items() if name != without},
        "memory": memory,
        **changes,
    }
    return TransformerConfig.model_validate(values)
