# SPDX-License-Identifier: Apache-2.0
"""Decoder layers as command lists: golden units against real numbers, the RTL against them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flows.build import verilog_of
from flows.simulation.bus.list_host import ListHost
from flows.simulation.command_lists import Image
from flows.simulation.engine_program import Model, compile_model
from hwgen.core.lists.commands import BYTES
from hwgen.core.lists.golden import Interpreter
from hwgen.core.lists.units import units_of
from hwgen.errors import InputError
from hwgen.families.gemm_stream.jobs import plan_of
from hwgen.families.transformer.params import TransformerConfig
from hwgen.models.compile.decoder_lists import (
    POSITION,
    LayerBuilder,
    LayerScales,
    LayerShape,
    arrays_of,
)

BF16 = ml_dtypes.bfloat16
LIST, BASE = 0x100_0000, 0x4000
"""Addresses of the list and of the first array."""


@dataclass(frozen=True)
class Sizes:
    """Sizes of an engine's units."""

    lanes: int = 2
    longest: int = 64
    rows: int = 4
    elements: int = 8
    head_lanes: int = 4
    max_keys: int = 64
    side: int = 2
    kib: int = 1
    bits: int = 64


SMALL = Sizes()
LARGE = Sizes(lanes=8, longest=3072, rows=6, elements=64, head_lanes=16, max_keys=512, side=16,
              kib=32, bits=256)  # fmt: skip


def rows_of(
    sizes: Sizes, operations: list[str], source: str, target: str, **array: Any
) -> dict[str, Any]:
    """Return a vector unit in a stream engine."""
    lanes = max(sizes.lanes, 4 if target == "int8" else 2)
    found = {"operations": operations, "lanes": lanes, "longest_row": sizes.longest}
    return {
        "family": "stream_engine",
        "compute": {"family": "vector", "input": source, "output": target,
                    "array": {**found, **array}},
        "queue": 2,
        "buffers": {"port_beats": 16},
    }  # fmt: skip


def engine(*, ternary: bool, sizes: Sizes = SMALL) -> TransformerConfig:
    """Return an engine with all units of a layer."""
    array: dict[str, Any] = {"rows": sizes.side, "cols": sizes.side,
                             "dataflow": "weight_stationary"}  # fmt: skip
    core: dict[str, Any] = {"family": "systolic", "array": array}
    if ternary:
        core = {
            "family": "ternary_lut",
            "array": {"tables": sizes.side, "fetch_ports": sizes.side},
        }
    gate = "relu2" if ternary else "silu"
    behind = ["rms_norm"] if ternary else ["quantise"]
    buffers = dict.fromkeys(("activation_kib", "weight_kib", "output_kib"), sizes.kib)
    units = {
        "products": {
            "family": "gemm_stream", "compute": core, "post": {"outputs": ["raw"]},
            "buffers": {**buffers, "column_kib": 1},
        },
        "rows": rows_of(sizes, ["rms_norm", "rope", "gated", "add"], "bf16", "bf16", gate=gate),
        "integers": rows_of(sizes, ["quantise"], "bf16", "int8"),
        "sums": rows_of(sizes, ["dequantise_rows"], "int32", "bf16"),
        "behind": rows_of(sizes, behind, "int16", "bf16" if ternary else "int8"),
        "heads": {
            "family": "stream_engine",
            "compute": {"family": "attention", "head": sizes.elements, "scales": "none",
                        "max_keys": sizes.max_keys,
                        "array": {"rows": sizes.rows, "lanes": sizes.head_lanes},
                        "softmax": {"weight_bits": 12, "fraction_bits": 10}},
            "buffers": {"port_beats": 16},
        },
    }  # fmt: skip
    values = {
        "name": "bitnet" if ternary else "llama",
        "family": "transformer",
        "units": units,
        "memory": {"data_width": sizes.bits, "max_burst": 8, "outstanding": 4,
                   "address_width": 40},
    }  # fmt: skip
    return TransformerConfig.model_validate(values)


SHAPE = LayerShape(tokens=1, width=24, hidden=32, heads=4, kv_heads=2, elements=8, context=16)


SMOLLM2 = LayerShape(tokens=1, width=576, hidden=1536, heads=9, kv_heads=3, elements=64, context=64)
"""A layer of SmolLM2-135M."""


class Layer:
    """A layer with random weights: its memory, and what it computes in real numbers."""

    def __init__(self, config: TransformerConfig, shape: LayerShape, seed: int = 0) -> None:
        self.config, self.shape = config, shape
        rng = np.random.default_rng(seed)
        d, f = shape.width, shape.hidden
        sizes = {"joined": (d, shape.joined), "out": (shape.queries, d), "gate_up": (d, 2 * f),
                 "down": (f, d)}  # fmt: skip
        low, high = config.job_unit.weight.min, config.job_unit.weight.max
        self.weights = {n: rng.integers(low, high, s, endpoint=True).astype(np.int8)
                        for n, s in sizes.items()}  # fmt: skip
        self.columns = {
            n: (rng.uniform(0.7, 1.3, s[1]) / high / np.sqrt(s[0])).astype(BF16)
            for n, s in sizes.items()
        }
        norms = {"norm": d, "ffn_norm": d}
        if shape.sub_norms:
            norms |= {"attention_norm": shape.queries, "hidden_norm": f}
        self.norms = {n: rng.uniform(0.8, 1.2, k).astype(BF16) for n, k in norms.items()}
        angle = np.arange(shape.context)[:, None] / 100.0 ** (
            np.arange(0, shape.elements, 2) / shape.elements
        )
        turns = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        self.turns = turns.reshape(shape.context, -1).astype(BF16)
        step = 4 / 127
        fraction = config.units["heads"].compute.fraction
        self.scales = LayerScales(step, step, step, step / 2**fraction)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return what the host puts into memory, but for the tokens."""
        shape, core = self.shape, self.config.units["heads"].compute
        factor = 2**core.softmax.fraction_bits * np.log2(math.e) / np.sqrt(shape.elements)
        factor *= self.scales.query * self.scales.key
        shift = 15 - int(np.floor(np.log2(factor)))
        word = np.array([round(factor * 2**shift) | shift << 16], "<u4")
        unit = self.config.job_unit
        packed = {
            name: plan_of(unit, shape.tokens, *w.shape).pack_weights(w)
            for name, w in self.weights.items()
        }
        scales = {f"{name}_scales": s for name, s in self.columns.items()}
        return {**packed, **scales, **self.norms, "turns": self.turns, "query_scale": word}

    def place(self, tokens: int) -> tuple[dict[str, int], int]:
        """Return the address of each array of a list for so many tokens."""
        sizes = {name: a.nbytes for name, a in self.arrays().items()}
        at, found = BASE, {}
        for name, size in arrays_of(replace(self.shape, tokens=tokens), sizes).items():
            found[name] = at
            at += -(-size // 64) * 64 + 64
        return found, at

    def build(self, tokens: int, at: Mapping[str, int]) -> bytes:
        """Return the list for so many tokens."""
        shape = replace(self.shape, tokens=tokens)
        builder = LayerBuilder(self.config, shape, self.scales, dict(at))
        builder.begin()
        builder.layer()
        return builder.finish()

    def real(self, x: np.ndarray) -> np.ndarray:
        """Return what the layer computes, in double precision, from the first position on."""
        shape, size = self.shape, self.shape.elements

        def norm(v: np.ndarray, name: str) -> np.ndarray:
            mean = (v**2).mean(axis=1, keepdims=True)
            return v / np.sqrt(mean + shape.epsilon) * self.norms[name].astype(float)

        def product(v: np.ndarray, name: str) -> np.ndarray:
            return v @ self.weights[name].astype(float) * self.columns[name].astype(float)

        t, q = len(x), shape.queries
        mixed = product(norm(x, "norm"), "joined")
        split = np.split(mixed, [q, q + shape.kv_heads * size], axis=1)
        query, key, value = (part.reshape(t, -1, size) for part in split)
        turns = self.turns[:t].astype(float)[:, None]

        def turned(v: np.ndarray) -> np.ndarray:
            c, s = turns[..., ::2], turns[..., 1::2]
            u, w = v[..., ::2], v[..., 1::2]
            return np.stack([u * c - w * s, w * c + u * s], axis=-1).reshape(v.shape)

        group = shape.heads // shape.kv_heads
        key, value = (np.repeat(v, group, axis=1) for v in (turned(key), value))
        scores = np.einsum("qhe,khe->hqk", turned(query), key) / np.sqrt(size)
        scores = np.where(np.tri(t, dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        o = np.einsum("hqk,khe->qhe", weights, value).reshape(t, -1)
        x = x + product(norm(o, "attention_norm") if shape.sub_norms else o, "out")
        gate, up = np.split(product(norm(x, "ffn_norm"), "gate_up"), 2, axis=1)
        sides = np.maximum(gate, 0) ** 2 if shape.sub_norms else gate / (1 + np.exp(-gate))
        hidden = sides * up
        return x + product(norm(hidden, "hidden_norm") if shape.sub_norms else hidden, "down")


class Runs:
    """Runs of a layer's lists, first some tokens at once, then one after the other."""

    def __init__(self, layer: Layer, tokens: int, prefill: int) -> None:
        self.layer, self.prefill = layer, prefill
        rng = np.random.default_rng(1)
        self.x = rng.standard_normal((tokens, layer.shape.width)).astype(BF16)
        self.at, self.end = layer.place(max(prefill, 1))
        self.lists = {count: layer.build(count, self.at) for count in {prefill, 1}}

    @property
    def steps(self) -> list[range]:
        """The tokens of each run."""
        rest = range(self.prefill, len(self.x))
        return [range(self.prefill), *(range(token, token + 1) for token in rest)]

    def golden(self) -> tuple[np.ndarray, bytes]:
        """Return results, and the memory in the end."""
        config, memory = self.layer.config, Image(bytearray(self.end))
        for name, array in self.layer.arrays().items():
            memory.write(self.at[name], array.tobytes())
        results = []
        for tokens in self.steps:
            data = self.lists[len(tokens)]
            memory.write(self.at["x"], self.x[tokens].tobytes())
            registers = [0] * config.lists.registers
            registers[POSITION] = tokens.start
            both = _Both(memory, data)
            interpreter = Interpreter(
                both, units_of(config, memory), config.register_width, config.lists.calls, registers
            )
            outcome = interpreter.run(LIST, len(data) // BYTES)
            assert outcome.state == "done", outcome
            results.append(self._x(memory.data, len(tokens)))
        return np.concatenate(results), bytes(memory.data[BASE:])

    def hardware(self, model: Model) -> tuple[np.ndarray, bytes, list[int]]:
        """Return the same of the RTL, and the cycles of each list."""
        config = self.layer.config
        host = ListHost(config, model)
        model.map(0, self.end)
        model.map(LIST, 1 << 20)
        model.store(BASE, bytes(self.end - BASE))
        for name, array in self.layer.arrays().items():
            model.store(self.at[name], array.tobytes())
        results, cycles = [], []
        for tokens in self.steps:
            data = self.lists[len(tokens)]
            model.store(self.at["x"], self.x[tokens].tobytes())
            registers = [0] * config.lists.registers
            registers[POSITION] = tokens.start
            host.begin(data, registers, 0, LIST)
            assert model.wait(2_000_000), "the list does not end"
            outcome = host.outcome()
            assert outcome.state == "done", outcome
            cycles.append(host.read("CYCLES"))
            size = len(tokens) * self.layer.shape.width * 2
            results.append(self._x(bytes(model.load(self.at["x"], size)), len(tokens), 0))
        rest = bytes(model.load(BASE, self.end - BASE))
        return np.concatenate(results), rest, cycles

    def _x(self, data: bytes | bytearray, tokens: int, start: int | None = None) -> np.ndarray:
        first = self.at["x"] if start is None else start
        width = self.layer.shape.width
        raw = bytes(data[first : first + 2 * tokens * width])
        return np.frombuffer(raw, BF16).reshape(tokens, width)


class _Both:
    """The memory, and a list beside it."""

    def __init__(self, memory: Image, data: bytes) -> None:
        self.memory, self.data = memory, data

    def read(self, address: int, count: int) -> bytes:
        if address >= LIST:
            return self.data[address - LIST :][:count]
        return self.memory.read(address, count)

    def write(self, address: int, data: bytes) -> None:
        self.memory.write(address, data)


def layer_of(*, ternary: bool) -> Layer:
    return Layer(engine(ternary=ternary), replace(SHAPE, sub_norms=ternary))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(float).ravel(), b.astype(float).ravel()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


@pytest.mark.parametrize("ternary", [False, True], ids=["int8", "ternary"])
def test_layers_compute_what_they_should(ternary: bool) -> None:
    """Prefill, then a token after the other, against double precision."""
    layer = layer_of(ternary=ternary)
    runs = Runs(layer, tokens=7, prefill=4)
    found, _ = runs.golden()
    assert cosine(found, layer.real(runs.x.astype(float))) > 0.999


def test_tokens_one_by_one_are_those_of_a_prefill() -> None:
    """One list serves all tokens: nothing but the position differs."""
    layer = layer_of(ternary=False)
    together, _ = Runs(layer, tokens=5, prefill=5).golden()
    alone, _ = Runs(layer, tokens=5, prefill=1).golden()
    assert np.array_equal(together, alone)


def test_an_engine_without_a_unit_says_so() -> None:
    layer = layer_of(ternary=False)
    with pytest.raises(InputError, match="no unit of 'llama' offers rms_norm with x int16"):
        LayerBuilder(layer.config, replace(SHAPE, sub_norms=True), layer.scales, {})


def assert_alike(layer: Layer, runs: Runs) -> None:
    """Compare every byte of memory, with a memory that stalls and one that does not."""
    expected, memory = runs.golden()
    config = layer.config
    library = compile_model(config.name, verilog_of(config), config.buses, cycles=100_000)
    timings: tuple[dict[str, Any], ...] = (
        {"read_latency": 1, "write_latency": 1},
        {"stalls": 0.3, "read_latency": 9},
    )
    for timing in timings:
        with Model(library, seed=5, longest_burst=8, **timing) as model:
            found, rest, cycles = runs.hardware(model)
        assert np.array_equal(found.view(np.uint16), expected.view(np.uint16))
        assert rest == memory
        assert all(cycles)


@pytest.mark.long
@pytest.mark.parametrize("ternary", [False, True], ids=["int8", "ternary"])
def test_hardware_is_the_golden_model(ternary: bool) -> None:
    layer = layer_of(ternary=ternary)
    assert_alike(layer, Runs(layer, tokens=6, prefill=4))


@pytest.mark.long
def test_a_layer_of_135_million_parameters() -> None:
    """At the sizes of a published network: close to double precision, and RTL as golden model."""
    layer = Layer(engine(ternary=False, sizes=LARGE), SMOLLM2)
    runs = Runs(layer, tokens=5, prefill=4)
    found, _ = runs.golden()
    assert cosine(found, layer.real(runs.x.astype(float))) > 0.999
    assert_alike(layer, runs)
