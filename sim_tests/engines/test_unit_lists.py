# SPDX-License-Identifier: Apache-2.0
"""Command lists over bf16 units: golden units against real numbers, the RTL against them.

`hwgen model compile` keeps rows in single precision and scales of keys for each token; here rows
are bf16 and queries, keys and values have one scale, which other units of an engine compute.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flows.simulation.bus.list_host import ListHost
from flows.simulation.command_lists import Image
from flows.simulation.engine_program import Model, compile_model
from hwgen.core.lists.commands import BYTES
from hwgen.core.lists.golden import Interpreter
from hwgen.core.lists.units import units_of
from hwgen.errors import InputError
from hwgen.families.gemm_stream.params import GemmStreamConfig
from hwgen.families.gemm_stream.schedule import plan_of
from hwgen.families.transformer.params import TransformerConfig
from hwgen.models.compile.list_builder import ListBuilder, Number, Rows
from sim_tests.support.designs import design_of

BF16 = ml_dtypes.bfloat16
BASE = 0x4000
"""Address of the first array."""

T, WIDTH, HEADS, ELEMENTS = 3, 24, 2, 8
"""Tokens, their elements, and heads of queries, which share a head of keys."""

QUERIES, JOINED = HEADS * ELEMENTS, (HEADS + 2) * ELEMENTS
STEP = 4 / 127


def rows_unit(operations: list[str], source: str, target: str, **array: Any) -> dict[str, Any]:
    array |= {"operations": operations, "lanes": 4 if target == "int8" else 2, "longest_row": 64}
    compute = {"family": "vector", "input": source, "output": target, "array": array}
    return {"family": "stream_engine", "compute": compute, "queue": 2,
            "buffers": {"port_beats": 16}}  # fmt: skip


def engine(*, ternary: bool) -> TransformerConfig:
    """Return an engine with a unit for each operation of the list."""
    core: dict[str, Any] = {
        "family": "systolic",
        "array": {"rows": 2, "cols": 2, "dataflow": "weight_stationary"},
    }
    if ternary:
        core = {"family": "ternary_lut", "array": {"tables": 2, "fetch_ports": 2}}
    gate, last, result = ("relu2", "rms_norm", "bf16") if ternary else ("silu", "quantise", "int8")
    kib = ("activation_kib", "weight_kib", "output_kib", "column_kib")
    units = {
        "products": {"family": "gemm_stream", "compute": core, "post": {"outputs": ["raw"]},
                     "buffers": dict.fromkeys(kib, 1)},
        "rows": rows_unit(["rms_norm", "rope", "gated", "add"], "bf16", "bf16", gate=gate),
        "integers": rows_unit(["quantise"], "bf16", "int8"),
        "sums": rows_unit(["dequantise_rows"], "int32", "bf16"),
        "results": rows_unit([last], "int16", result),
        "heads": {"family": "stream_engine", "buffers": {"port_beats": 16},
                  "compute": {"family": "attention", "head": ELEMENTS, "scales": "none",
                              "max_keys": 64, "array": {"rows": 4, "lanes": 4},
                              "softmax": {"weight_bits": 12, "fraction_bits": 10}}},
    }  # fmt: skip
    return TransformerConfig.model_validate({
        "name": "bitnet" if ternary else "llama", "family": "transformer", "units": units,
        "memory": {"data_width": 64, "max_burst": 8, "outstanding": 4, "address_width": 40},
    })  # fmt: skip


class Attention:
    """Attention with its norm, product and gate: memory, list, and real numbers."""

    def __init__(self, *, ternary: bool) -> None:
        self.config, self.ternary = engine(ternary=ternary), ternary
        rng = np.random.default_rng(1)
        unit, compute = self.config.job_unit, self.config.units["heads"].compute
        assert isinstance(unit, GemmStreamConfig)
        low, high = int(unit.weight.min), int(unit.weight.max)
        self.weights = rng.integers(low, high, (WIDTH, JOINED), endpoint=True)
        angle = np.arange(T)[:, None] / 100.0 ** (np.arange(0, ELEMENTS, 2) / ELEMENTS)
        factor = 2**compute.softmax.fraction_bits * np.log2(math.e) / np.sqrt(ELEMENTS) * STEP**2
        shift = 15 - int(np.floor(np.log2(factor)))
        self.output_step = STEP / 2**compute.fraction
        self.arrays: dict[str, np.ndarray] = {
            "x": rng.standard_normal((T, WIDTH)).astype(BF16),
            "gamma": rng.uniform(0.8, 1.2, WIDTH).astype(BF16),
            "result_gamma": rng.uniform(0.8, 1.2, QUERIES).astype(BF16),
            "scales": (rng.uniform(0.7, 1.3, JOINED) / high / np.sqrt(WIDTH)).astype(BF16),
            "turns": np.stack([np.cos(angle), np.sin(angle)], -1).reshape(T, -1).astype(BF16),
            "query_scale": np.array([round(factor * 2**shift) | shift << 16], "<u4"),
            "weights": plan_of(unit, T, WIDTH, JOINED).pack_weights(self.weights.astype(np.int8)),
        }
        sizes = {name: array.nbytes for name, array in self.arrays.items()} | {
            "normed": 2 * T * WIDTH, "codes": T * WIDTH, "steps": 4 * T, "sums": 4 * T * JOINED,
            "joined": 2 * T * JOINED, "turned": 2 * T * QUERIES, "turned_keys": 2 * T * ELEMENTS,
            "query": T * QUERIES, "keys": T * ELEMENTS, "values": T * ELEMENTS,
            "heads": 2 * T * QUERIES, "result": 2 * T * QUERIES, "result_steps": 4 * T,
            "gated": 2 * T * QUERIES, "added": 2 * T * QUERIES,
        }  # fmt: skip
        self.at, self.end = {}, BASE
        for name, size in sizes.items():
            self.at[name] = self.end
            self.end += -(-size // 64) * 64 + 64
        self.data = self._list()
        self.list_at = self.end
        self.end += len(self.data)

    def rows(self, array: str, count: int = T, offset: int = 0, **others: Any) -> Rows:
        return Rows(array, self.at[array] + offset, count, **others)

    def _list(self) -> bytes:
        builder, rows = ListBuilder(self.config), self.rows
        real = {
            name: builder.offer(name, x="bf16", result="bf16")
            for name in ("rms_norm", "rope", "gated", "add")
        }
        integers = builder.offer("quantise", x="bf16", result="int8")
        sums = builder.offer("dequantise_rows", x="int32", result="bf16")
        builder.rows(real["rms_norm"], WIDTH, {"x": rows("x"), "gamma": rows("gamma", stride=0),
                     "result": rows("normed")}, {"epsilon": 1e-5})  # fmt: skip
        builder.rows(integers, WIDTH, {"x": rows("normed"), "result": rows("codes"),
                     "scales": rows("steps")})  # fmt: skip
        builder.gemm(rows("codes"), rows("weights", 1), rows("sums"), WIDTH, JOINED)
        builder.rows(sums, JOINED, {"x": rows("sums"), "row_scales": rows("steps"),
                     "scales": rows("scales", stride=0), "result": rows("joined")},
                     {"scale": 1.0})  # fmt: skip
        joined = {"stride": 2 * ELEMENTS, "blocks": T, "step": 2 * JOINED}
        for array, heads, offset in (("turned", HEADS, 0), ("turned_keys", 1, 2 * QUERIES)):
            builder.rows(real["rope"], ELEMENTS, {
                "x": rows("joined", heads, offset, **joined),
                "turns": rows("turns", heads, stride=0, blocks=T, step=2 * ELEMENTS),
                "result": rows(array, T * heads),
            })  # fmt: skip
        value = rows("joined", 1, 2 * (QUERIES + ELEMENTS), **joined)
        for x, target, count in (
            (rows("turned", T * HEADS), "query", T * HEADS),
            (rows("turned_keys"), "keys", T),
            (value, "values", T),
        ):
            builder.rows(integers._replace(operation="quantise_tensor"), ELEMENTS,
                         {"x": x, "result": rows(target, count)}, {"scale": 1 / STEP})  # fmt: skip
        at_once = self.config.units["heads"].compute.array.rows // HEADS
        for first in range(0, T, at_once):
            count = min(at_once, T - first)
            queries = count * HEADS
            builder.attention({
                "query": rows("query", queries, first * QUERIES),
                "query_scale": rows("query_scale", queries, stride=0),
                "key": rows("keys", 1), "value": rows("values", 1),
                "output": rows("heads", queries, 2 * first * QUERIES),
            }, unit=builder.offer("attention").unit, queries=count, group=HEADS,
                keys=Number(first + count), key_bytes=Number((first + count) * ELEMENTS),
                last=Number(first + 1))  # fmt: skip
        if self.ternary:
            builder.rows(builder.offer("rms_norm", x="int16", result="bf16"), QUERIES, {
                "x": rows("heads"), "gamma": rows("result_gamma", stride=0),
                "result": rows("result"),
            }, {"epsilon": 1e-5 / self.output_step**2})  # fmt: skip
        else:
            builder.rows(
                builder.offer("quantise", x="int16", result="int8"),
                QUERIES,
                {"x": rows("heads"), "result": rows("result"), "scales": rows("result_steps")},
            )
        for name, y in (("gated", "turned"), ("add", "gated")):
            builder.rows(real[name], QUERIES, {
                "x": rows("turned"), "y": rows(y),
                "result": rows({"gated": "gated", "add": "added"}[name]),
            })  # fmt: skip
        builder.program.halt()
        return builder.program.encode()

    def golden(self) -> bytes:
        """Return the memory after a run of the golden interpreter."""
        memory = Image(bytearray(self.end))
        for name, array in self.arrays.items():
            memory.write(self.at[name], array.tobytes())
        memory.write(self.list_at, self.data)
        config = self.config
        interpreter = Interpreter(memory, units_of(config, memory), config.register_width,
                                  config.lists.calls, [0] * config.lists.registers)  # fmt: skip
        assert interpreter.run(self.list_at, len(self.data) // BYTES).state == "done"
        return bytes(memory.data)

    def hardware(self, model: Model) -> bytes:
        """Return the memory after a run of the RTL."""
        host = ListHost(self.config, model)
        model.map(0, self.end)
        model.store(BASE, bytes(self.end - BASE))
        for name, array in self.arrays.items():
            model.store(self.at[name], array.tobytes())
        host.begin(self.data, [0] * self.config.lists.registers, 0, self.list_at)
        assert model.wait(2_000_000), "the list does not end"
        assert host.outcome().state == "done"
        return bytes(BASE) + bytes(model.load(BASE, self.end - BASE))

    def number(self, memory: bytes, name: str, dtype: Any, columns: int) -> np.ndarray:
        data = memory[self.at[name] :][: T * columns * np.dtype(dtype).itemsize]
        return np.frombuffer(data, dtype).reshape(T, columns).astype(float)

    def real(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return results of attention, the gated product and its sum, in double precision."""
        numbers = {name: array.astype(float) for name, array in self.arrays.items()}

        def norm(x: np.ndarray, gamma: str) -> np.ndarray:
            return x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * numbers[gamma]

        joined = norm(numbers["x"], "gamma") @ self.weights * numbers["scales"]
        parts = np.split(joined, [QUERIES, QUERIES + ELEMENTS], axis=1)
        query, key, value = (part.reshape(T, -1, ELEMENTS) for part in parts)
        c, s = (numbers["turns"][:, None, start::2] for start in (0, 1))

        def rotate(x: np.ndarray) -> np.ndarray:
            u, w = x[..., ::2], x[..., 1::2]
            return np.stack([u * c - w * s, w * c + u * s], axis=-1).reshape(x.shape)

        scores = np.einsum("qhe,ke->hqk", rotate(query), rotate(key)[:, 0]) / np.sqrt(ELEMENTS)
        weights = np.exp(np.where(np.tri(T, dtype=bool), scores, -np.inf))
        weights /= weights.sum(axis=-1, keepdims=True)
        heads = np.einsum("hqk,ke->qhe", weights, value[:, 0]).reshape(T, -1)
        turned = rotate(query).reshape(T, -1)
        gate = np.maximum(turned, 0) ** 2 if self.ternary else turned / (1 + np.exp(-turned))
        gated = gate * turned
        return norm(heads, "result_gamma") if self.ternary else heads, gated, turned + gated


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a.ravel() @ b.ravel() / np.sqrt((a**2).sum() * (b**2).sum()))


@pytest.mark.parametrize("ternary", [False, True], ids=["int8", "ternary"])
def test_golden_units_compute_attention(ternary: bool) -> None:
    layer = Attention(ternary=ternary)
    memory = layer.golden()
    if ternary:
        result = layer.number(memory, "result", BF16, QUERIES)
    else:
        steps = layer.number(memory, "result_steps", np.float32, 1)
        result = layer.number(memory, "result", np.int8, QUERIES) * steps * layer.output_step
    others = (layer.number(memory, name, BF16, QUERIES) for name in ("gated", "added"))
    for actual, wanted in zip((result, *others), layer.real(), strict=True):
        assert cosine(actual, wanted) > 0.999


def test_an_engine_without_a_unit_says_so() -> None:
    builder = ListBuilder(engine(ternary=False))
    with pytest.raises(InputError, match="no unit of 'llama' offers rms_norm with x int16"):
        builder.offer("rms_norm", x="int16", result="bf16")


@pytest.mark.long
@pytest.mark.parametrize("ternary", [False, True], ids=["int8", "ternary"])
def test_hardware_is_the_golden_model(ternary: bool) -> None:
    """Every byte of memory, with a memory that stalls and one that does not."""
    layer = Attention(ternary=ternary)
    expected, config = layer.golden(), layer.config
    library = compile_model(config.name, design_of(config).verilog, config.buses, cycles=100_000)
    timings: tuple[dict[str, Any], ...] = (
        {"read_latency": 1, "write_latency": 1},
        {"stalls": 0.3, "read_latency": 9},
    )
    for timing in timings:
        with Model(library, seed=5, longest_burst=8, **timing) as model:
            assert layer.hardware(model) == expected
