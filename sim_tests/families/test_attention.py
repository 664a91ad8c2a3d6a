# SPDX-License-Identifier: Apache-2.0
"""Attention: the golden model against exact arithmetic, the RTL against the golden model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.bench.attention import SIZES
from flows.bench.attention import configuration as measured
from flows.simulation.run import run_job
from flows.simulation.runner import compile_design, run_module
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.families.attention.core import cycles_of_blocks
from hwgen.families.attention.formats import SCALE, bound_of
from hwgen.families.attention.golden import accumulated, attend, operate
from hwgen.families.attention.operands import quantised
from hwgen.families.attention.params import AttentionConfig
from hwgen.families.attention.schedule import Mask, Plan, blocks_of, draw_operands
from sim_tests.contract.contract import Contract, Mutations, Regressions
from sim_tests.support.cores import job_cycles
from sim_tests.support.designs import design_of
from sim_tests.support.mutations import Mutation

SMALL: dict[str, Any] = {"head": 8, "max_keys": 64, "array": {"rows": 4, "lanes": 4}}
DOUBLE: dict[str, Any] = {**SMALL, "array": {"rows": 4, "lanes": 4, "buffers": "double"}}

FLOATS: dict[str, Any] = {
    **SMALL, "query": "bf16", "key": "fp8_e4m3", "value": "bf16", "output": "bf16",
    "scales": "none",
}  # fmt: skip

BLOCKS: dict[str, Any] = {
    "head": 64, "max_keys": 64, "query": "fp16", "key": "fp4_e2m1", "value": "fp8_e4m3",
    "output": "fp16", "scales": "block", "array": {"rows": 2, "lanes": 16},
}  # fmt: skip

COVERING: list[dict[str, Any]] = [
    {"head": 1, "max_keys": 1, "array": {"rows": 1, "lanes": 1},
     "pipeline": {"dot": 0, "exponential": 0, "reciprocal": 0}},
    {"head": 13, "max_keys": 37, "scales": "none", "key": "int4", "value": "uint8",
     "output": "uint16", "array": {"rows": 3, "lanes": 5}, "pipeline": {"dot": 2}},
    {"head": 16, "max_keys": 100, "output": "int8", "array": {"rows": 5, "lanes": 16},
     "pipeline": {"dot": 0, "exponential": 0, "reciprocal": 0}},
    {"head": 20, "max_keys": 64, "query": "int12", "key": "uint5", "value": "uint4",
     "array": {"rows": 7, "lanes": 3}, "pipeline": {"exponential": 4, "reciprocal": 5},
     "softmax": {"weight_bits": 22, "fraction_bits": 16, "integer_bits": 16}},
    {"head": 6, "max_keys": 8, "query": "uint8", "key": "uint8", "value": "int2",
     "output": "int8", "scales": "none", "array": {"rows": 6, "lanes": 2, "units": 3},
     "softmax": {"weight_bits": 8, "fraction_bits": 6, "integer_bits": 4},
     "pipeline": {"dot": 2, "exponential": 1, "reciprocal": 1}},
    {"head": 2, "max_keys": 1000, "array": {"rows": 2, "lanes": 1},
     "softmax": {"weight_bits": 12}},
    {"head": 5, "max_keys": 33, "scales": "none", "value": "uint8", "output": "uint16",
     "array": {"rows": 5, "lanes": 5, "buffers": "double"},
     "pipeline": {"dot": 2, "exponential": 0, "reciprocal": 0}},
    {"head": 7, "max_keys": 20, "array": {"rows": 6, "lanes": 3, "buffers": "double"}},
    {"head": 1, "max_keys": 5, "array": {"rows": 1, "lanes": 1, "buffers": "double"},
     "pipeline": {"dot": 0}},
    {"head": 7, "max_keys": 20, "query": "fp16", "key": "fp8_e5m2", "value": "fp8_e4m3",
     "output": "fp16", "scales": "none", "array": {"rows": 6, "lanes": 3, "buffers": "double"},
     "pipeline": {"dot": 2, "exponential": 0, "reciprocal": 0}},
    {"head": 5, "max_keys": 33, "query": "bf16", "key": "fp16", "value": "fp8_e5m2",
     "output": "fp8_e4m3", "scales": "none", "alignment_bits": 14,
     "array": {"rows": 5, "lanes": 5}, "softmax": {"weight_bits": 12}},
    {"head": 3, "max_keys": 9, "query": "fp8_e4m3", "key": "fp8_e4m3", "value": "fp8_e4m3",
     "output": "fp8_e5m2", "scales": "none", "alignment_bits": 3,
     "array": {"rows": 2, "lanes": 1}, "pipeline": {"dot": 0}},
    {"head": 64, "max_keys": 20, "query": "fp16", "key": "fp4_e2m1", "value": "fp4_e2m1",
     "output": "fp16", "scales": "block", "array": {"rows": 2, "lanes": 16}},
    {"head": 32, "max_keys": 33, "query": "bf16", "key": "fp8_e4m3", "value": "fp4_e2m1",
     "output": "bf16", "scales": "block", "array": {"rows": 3, "lanes": 32, "buffers": "double"}},
    {"head": 128, "max_keys": 12, "query": "fp8_e5m2", "key": "fp8_e5m2", "value": "fp8_e4m3",
     "output": "fp16", "scales": "block", "array": {"rows": 2, "lanes": 8}},
    {"head": 256, "max_keys": 9, "query": "fp16", "key": "bf16", "value": "fp4_e2m1",
     "output": "bf16", "scales": "block", "array": {"rows": 1, "lanes": 4}},
]  # fmt: skip
"""Sizes of 1, primes, one and several rows a unit, all formats and registers, both buffers."""


def configuration(name: str = "attention_test", **values: Any) -> AttentionConfig:
    return AttentionConfig.model_validate({"name": name, **values})


def drawn(config: AttentionConfig, seed: int, **sizes: int) -> dict[str, np.ndarray]:
    """Return operands of some sizes."""
    (operation,) = config.operations
    given = {"kv_heads": 1, "group": 1, "queries": 3, "keys": 9, "elements": config.head, **sizes}
    return draw_operands(config, operation, given, "random", np.random.default_rng(seed))


def exact(
    config: AttentionConfig, mask: Mask, arrays: dict[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return results in units of V, weights and scaled scores, in double precision."""
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    scale = arrays["query_scale"].astype(np.int64)
    factor = (scale & SCALE.max) * 2.0 ** -(scale >> SCALE.width)
    x = np.einsum("hgmc,hnc->hgmn", wide["query"], wide["key"]) * factor[..., None]
    x *= 2.0**-config.softmax.fraction_bits
    values = wide["value"]
    if config.scaled_keys:
        x *= wide["key_scale"][:, None, None, :]
        values = values * wide["value_scale"][..., None] * 2.0**-SCALE.width
    queries, keys = x.shape[2:]
    seen = np.array([[looks(mask, m, n) for n in range(keys)] for m in range(queries)])
    x = np.where(seen, x, -np.inf)
    top = np.where(seen.any(axis=1), x.max(axis=-1), 0.0)
    powers = 2.0 ** (x - top[..., None])
    total = powers.sum(axis=-1, keepdims=True)
    weights = np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)
    return np.einsum("hgmn,hnc->hgmc", weights, values), weights, x


def looks(mask: Mask, query: int, key: int) -> bool:
    """Return whether a query looks at a key."""
    at = query + mask.offset
    return not (mask.causal and key > at) and not (mask.window and key <= at - mask.window)


MASKS = st.builds(Mask, st.booleans(), st.integers(-9, 20), st.integers(0, 9))


@settings(max_examples=60)
@given(
    st.sampled_from([SMALL, *COVERING[1:3]]), MASKS, st.integers(1, 3), st.integers(1, 7),
    st.integers(1, 30), st.integers(0, 999),
)  # fmt: skip
def test_golden_is_as_near_as_is_proven(
    values: dict[str, Any], mask: Mask, group: int, queries: int, keys: int, seed: int
) -> None:
    config = configuration(**values)
    arrays = drawn(config, seed, group=group, queries=queries, keys=keys)
    wanted, _, x = exact(config, mask, arrays)
    got = attend(config, mask, arrays) * 2.0**-config.fraction
    limit = 2.0**config.softmax.integer_bits - 1
    fair = (np.abs(np.where(np.isfinite(x), x, 0)) < limit).all(axis=-1)
    # Results at the end of their format saturate; exact ones are never beyond by more than a unit.
    assert np.abs(got - wanted)[fair].max(initial=0) <= bound_of(config, keys).output
    nothing = ~np.isfinite(x).any(axis=-1)
    assert not got[nothing].any()


@pytest.mark.parametrize("scales", ["token", "none"])
@pytest.mark.parametrize("bits", [8, 16, 20])
def test_weights_are_as_near_as_is_proven(bits: int, scales: str) -> None:
    config = configuration(
        max_keys=512, scales=scales, value="int16", softmax={"weight_bits": bits}
    )
    rng = np.random.default_rng(bits)
    spread = np.array([0.2, 1, 3, 10, 30])[:, None]
    unit = 2.0**config.softmax.fraction_bits
    for keys in (1, 2, 37, 512):
        x = np.round(rng.standard_normal((5, keys)) * spread * unit).astype(np.int64)
        one = 32767 * np.eye(keys, dtype=np.int64)
        scale = np.full(keys, SCALE.max, np.int64) if config.scaled_keys else None
        sums = accumulated(config, x, np.ones(x.shape, bool), one, scale)
        share = SCALE.max / (1 << SCALE.width) if config.scaled_keys else 1.0
        got = sums.values / 32767 * 2.0**-bits / (sums.weights * 2.0**-config.sum_fraction)[:, None]
        wanted = 2.0 ** ((x - x.max(axis=1, keepdims=True)) / unit)
        wanted /= wanted.sum(axis=1, keepdims=True)
        bound = bound_of(config, keys)
        # Of what sums of values lose when they are shifted, 2 units, little is left here.
        lost = 4 * 2.0**-bits / 32767
        assert (
            np.abs(got - share * wanted) <= bound.relative * wanted + bound.absolute + lost
        ).all()


def test_mean_error_of_weights() -> None:
    """At most 0.14 % of a weight, for scores that are normally distributed by the usual scale."""
    config = configuration(max_keys=512)
    rng = np.random.default_rng(5)
    unit = 2.0**config.softmax.fraction_bits
    x = np.round(rng.standard_normal((64, 512)) * math.log2(math.e) * unit).astype(np.int64)
    one = 127 * np.eye(512, dtype=np.int64)
    sums = accumulated(config, x, np.ones(x.shape, bool), one, np.full(512, SCALE.max, np.int64))
    got = sums.values / (127 * SCALE.max) * 2.0 ** (SCALE.width - config.softmax.weight_bits)
    got /= sums.weights[:, None] * 2.0**-config.sum_fraction
    wanted = 2.0 ** ((x - x.max(axis=1, keepdims=True)) / unit)
    wanted /= wanted.sum(axis=1, keepdims=True)
    assert np.abs(got / wanted - 1).mean() < 0.0005


@settings(max_examples=60)
@given(
    st.sampled_from([SMALL, *COVERING]), MASKS, st.integers(1, 2), st.integers(1, 9),
    st.integers(1, 9), st.integers(1, 30), st.integers(0, 99),
)  # fmt: skip
def test_jobs_are_the_whole(
    values: dict[str, Any], mask: Mask, heads: int, group: int, queries: int, keys: int, seed: int
) -> None:
    """Jobs hold every row once and all keys that it looks at; what they stream is unpacked."""
    config = configuration(**values)
    keys = min(keys, config.max_keys)
    sizes = {"kv_heads": heads, "group": group, "queries": queries, "keys": keys}
    arrays = drawn(config, seed, **sizes)
    (operation,) = config.operations
    reach = config.max_keys
    offset = max(-reach, min(mask.offset, reach))
    numbers = {"causal": mask.causal, "offset": offset, "window": min(mask.window, reach)}
    scalars = operation.check_scalars(numbers)
    mask = Mask.of(scalars)
    plan = Plan(config, operation.check_operands(arrays), mask)
    count = np.zeros((heads, group, queries), int)
    for block in plan.blocks:
        rows, size, per_token, first, last, moves = block.command
        assert rows <= config.array.rows
        assert size == len(block.keys)
        for row in range(rows):
            token, head = divmod(row, per_token)
            query = block.queries[token]
            count[block.head, block.heads[head], query] += 1
            low, high = first + token * (moves & 1), last + token * (moves >> 1)
            seen = {block.keys.start + n for n in range(size) if low <= n < high}
            assert seen == {n for n in range(keys) if looks(mask, query, n)}
    assert (count == 1).all()
    wanted = operate(config, operation, arrays, scalars)["output"]
    out = config.ports[-1]
    parts = []
    for block in plan.blocks:
        rows_of = wanted[
            block.head,
            block.heads.start : block.heads.stop,
            block.queries.start : block.queries.stop,
        ].swapaxes(0, 1)
        wide = np.zeros((block.rows, config.steps * out.lanes), wanted.dtype)
        wide[:, : config.head] = rows_of.reshape(block.rows, -1)
        parts.append(wide.reshape(-1, out.lanes))
    beats = out.pack(np.concatenate(parts))
    assert len(beats) == plan.output_beats == len(list(plan.output_last()))
    result = plan.unpack(beats)["output"]
    assert result.shape == wanted.shape
    assert result.tobytes() == wanted.tobytes(), "also where it is no number"
    index = (heads - 1, group - 1, queries - 1, config.head - 1)
    beat = out.unpack(beats[plan.locate("output", index)][None])[0]
    assert beat[(config.head - 1) % out.lanes].tobytes() == wanted[index].tobytes()


def test_smaller_heads_are_filled_up() -> None:
    config = configuration(**SMALL)
    arrays = drawn(config, 1, elements=5)
    filled = {
        name: np.pad(array, [*[(0, 0)] * (array.ndim - 1), (0, 3)])
        if array.ndim > 2 and not name.endswith("scale")
        else array
        for name, array in arrays.items()
    }
    wide = attend(config, Mask(), filled)
    assert np.array_equal(wide[..., :5], attend(config, Mask(), arrays))


def reals(seed: int, keys: int = 200) -> list[np.ndarray]:
    """Return queries, keys and values, tokens of different sizes among them and one of zeros."""
    rng = np.random.default_rng(seed)
    shapes = ((2, 3, 9, 64), (2, keys, 64), (2, keys, 64))
    result = [
        rng.standard_normal(s) * np.exp(0.5 * rng.standard_normal((*s[:-1], 1))) for s in shapes
    ]
    for array in result:
        array[..., 3, :] = 0
    return result


@pytest.mark.parametrize(("scales", "cosine"), [("token", 0.9995), ("none", 0.999)])
def test_quantised_attention_is_near_that_of_reals(scales: str, cosine: float) -> None:
    config = configuration(scales=scales)
    query, key, value = reals(2)
    operands, unit = quantised(config, query, key, value)
    mask = Mask(causal=True, offset=191, window=150)
    got = attend(config, mask, operands) * unit
    x = np.einsum("hgmc,hnc->hgmn", query, key) / 8
    seen = [[looks(mask, m, n) for n in range(200)] for m in range(9)]
    weights = np.exp(np.where(seen, x, -np.inf))
    weights /= weights.sum(axis=-1, keepdims=True)
    wanted = np.einsum("hgmn,hnc->hgmc", weights, value)
    assert (got * wanted).sum() >= cosine * np.linalg.norm(got) * np.linalg.norm(wanted)


def test_what_cannot_be_quantised() -> None:
    query, key, value = reals(1, keys=9)
    config = configuration()
    with pytest.raises(InputError, match=r"key: must be finite numbers"):
        quantised(config, query, key + np.inf, value)
    with pytest.raises(InputError, match=r"scale: must be a positive number, not 0"):
        quantised(config, query, key, value, 0.0)
    with pytest.raises(InputError, match=r"query: its scales times those of the keys are out of"):
        quantised(config, query, key, value, 1e12)
    with pytest.raises(InputError, match=r"value: uint8 has no sign"):
        quantised(configuration(value="uint8"), query, key, value)


# -- cycles ----------------------------------------------------------------------------------------


def test_prefill_and_decode_use_the_array() -> None:
    """Prefill of 512 x 512 uses 0.9 of the array, decode 0.95 of the cycles of its beats."""
    for rows, lanes, buffers in (
        (16, 16, "single"),
        (32, 16, "single"),
        (32, 64, "single"),
        (64, 64, "double"),
    ):
        config = configuration(array={"rows": rows, "lanes": lanes, "buffers": buffers})
        sizes = {"kv_heads": 1, "group": 1, "queries": 512, "keys": 512, "elements": 64}
        (operation,) = config.operations
        cycles = job_cycles(config, operation.name, sizes)
        work = operation.work(sizes)
        assert work / (config.operations_per_cycle * cycles) >= 0.9
        token = {**sizes, "kv_heads": 3, "group": 3, "queries": 1}
        cycles = job_cycles(config, operation.name, token)
        assert 3 * 512 * config.steps / cycles >= 0.95


@pytest.mark.parametrize("buffers", ["single", "double"])
@pytest.mark.parametrize(("rows", "lanes"), SIZES)
def test_a_single_short_job_of_decode_uses_its_beats(rows: int, lanes: int, buffers: str) -> None:
    config = measured(rows, lanes, buffers)
    (operation,) = config.operations
    sizes = {"kv_heads": 1, "group": 3, "queries": 1, "keys": 512, "elements": 64}
    cycles = job_cycles(config, operation.name, sizes)
    assert 512 * config.steps / cycles >= 0.95


def test_cycles_of_long_jobs_are_those_of_their_keys() -> None:
    """Skipping the steady state changes no cycle."""
    for values in ({}, SMALL, *COVERING):
        config = configuration(**values)
        for rows in (1, config.array.rows):
            counts = [cycles_of_blocks(config, [(rows, n), (rows, 3), (1, n)]) for n in (200, 201)]
            assert counts[1] - counts[0] == 2 * config.steps


def test_causal_jobs_leave_keys_out() -> None:
    config = configuration()
    sizes = {"kv_heads": 1, "group": 1, "queries": 64, "keys": 64, "elements": 64}
    read = [len(block.keys) for block in blocks_of(config, sizes, Mask(causal=True))]
    assert read == [16, 32, 48, 64]
    window = [len(b.keys) for b in blocks_of(config, sizes, Mask(causal=True, window=8))]
    assert window == [16, 23, 23, 23]


# -- bad input -------------------------------------------------------------------------------------


def keys_of(count: int) -> dict[str, np.ndarray]:
    """Return operands of so many keys."""
    return {
        **dict.fromkeys(("key", "value"), np.zeros((1, count, 8), np.int8)),
        **dict.fromkeys(("key_scale", "value_scale"), np.zeros((1, count), np.uint16)),
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (keys_of(65), r"keys must be 1..64, not 65"),
        (keys_of(0), r"keys must be 1..64, not 0"),
        ({"query": np.zeros((1, 1, 3, 9), np.int8)}, r"elements must be 1..8, not 9|elements = 9"),
        ({"value": np.zeros((1, 8, 8), np.int8)}, r"value: must be .* keys = 9"),
        ({"value": np.full((1, 9, 8), 200)}, r"value: must be -128..127"),
        ({"query_scale": np.full((1, 1, 3), 1 << 22)}, r"query_scale: must be 0..4194303"),
    ],
)
def test_refused_operands(change: dict[str, np.ndarray], message: str) -> None:
    config = configuration(**SMALL)
    with pytest.raises(InputError, match=message):
        core_of(config).job({**drawn(config, 0), **change})


def test_refused_scalars() -> None:
    (operation,) = configuration(**SMALL).operations
    with pytest.raises(InputError, match=r"window must be 0..64, not 65"):
        operation.check_scalars({"window": 65})
    with pytest.raises(InputError, match=r"causal must be 0..1, not 2"):
        operation.check_scalars({"causal": 2})


def test_bounds_that_cannot_be_had() -> None:
    config = configuration(max_keys=1 << 20, value="int8", softmax={"weight_bits": 8})
    with pytest.raises(ValueError, match=r"take more softmax.weight_bits"):
        bound_of(config)


# -- hardware --------------------------------------------------------------------------------------

SMALL_CORES = [
    configuration(**{"name": name, **values})
    for name, values in (
        ("single", SMALL), ("double", DOUBLE), ("floats", FLOATS), ("blocks", BLOCKS),
    )
]  # fmt: skip


@pytest.mark.parametrize("config", SMALL_CORES, ids=lambda config: config.name)
@pytest.mark.rotate(9)
def test_commands_that_no_plan_makes(config: AttentionConfig, tmp_path: Path) -> None:
    bench, plan = "sim_tests.families.cocotb_attention", {"config": config.resolved()}
    (outcome,) = run_module(config.name, compile_design(design_of(config)), bench, plan, tmp_path)
    assert outcome.passed, outcome.message


LONG = {"head": 8, "max_keys": 64, "array": {"rows": 8, "lanes": 2}}
LONG_DOUBLE = {**LONG, "array": {"rows": 8, "lanes": 2, "buffers": "double"}}


@pytest.mark.long
@pytest.mark.parametrize("bits", [8, 10, 15, 16, 17])
def test_a_weight_of_one_times_the_largest_scale(bits: int) -> None:
    """Scores at the end of their range, whose weights are rounded up, and so is the product."""
    config = configuration(**SMALL, softmax={"weight_bits": bits})
    keys = 4
    arrays: dict[str, Any] = {
        "query": np.full((1, 1, 1, 8), 127, np.int8),
        "query_scale": np.full((1, 1, 1), SCALE.max, np.uint32),
        "key": np.full((1, keys, 8), 127, np.int8),
        "value": np.arange(-50, 150, 50, dtype=np.int8)[None, :keys, None].repeat(8, axis=2),
        "key_scale": np.full((1, keys), SCALE.max, np.uint16),
        "value_scale": np.arange(SCALE.max - 3, SCALE.max + 1, dtype=np.uint16)[None],
    }
    operation = core_of(config).select_operation("attention")
    result = run_job(design_of(config), core_of(config).job(arrays), arrays).result
    given = operation.check_scalars({})
    assert np.array_equal(result, operate(config, operation, arrays, given)["output"])


MUTATIONS = [
    Mutation("sums are not shifted", "weighted_lane", r"\$signed\(total\) >>> rise",
             "$signed(total)", SMALL),
    Mutation("sums of weights are not shifted", "softmax_unit", r"(sums\[\d+:0\]) >> \w+", r"\1",
             SMALL),
    Mutation("a key too many", "score_row", r"\$signed\(key\) < ", "$signed(key) <= ", SMALL),
    Mutation("negative scores have no sign", "softmax_unit", r"\$signed\(of_key\)",
             "$signed({1'b0, of_key})", SMALL),
    Mutation("sums overwritten while results leave", "core", r"assign sums_free = .*;",
             "assign sums_free = 1'h1;", SMALL),
    Mutation("queries swapped early", "score_row", r"swap \? next_queries", "starts ? next_queries",
             DOUBLE),
    Mutation("scales swapped early", "core", r"if \(scale_swap_\d+\)( scale_\d+ )",
             r"if (swap_1)\1", DOUBLE),
    Mutation("results overwritten while they leave", "core", r"assign results_stay = .*;",
             "assign results_stay = 1'h0;", LONG_DOUBLE, ("stalls_7", "stalls_8")),
    Mutation("sums of weights stay", "core", r"moves_row_up_1 \? \{[^}]*\}", "1'h1 ? drained_sums",
             DOUBLE),
    Mutation("values' maximum without exponents", "softmax_unit",
             r"\$signed\(\{ 1'h0, value_exponent_2 \}\)", "$signed(9'h001)", FLOATS),
    Mutation("scores without the exponents of keys", "softmax_unit",
             r"\$signed\(\{ 1'h0, key_scale\[3:0\] \}\)", "$signed(5'h07)", FLOATS),
    Mutation("a NaN is forgotten", "softmax_unit", r"assign is_bad = .*;",
             "assign is_bad = odd_2;", FLOATS),
    Mutation("only the last beat is looked at", "core", r"assign value_above = .*;",
             "assign value_above = 1'h1;", FLOATS),
    Mutation("largest exponent without powers of two of blocks", "core",
             r"(assign key_raised = .*) \+ key_power;", r"\1;", BLOCKS),
    Mutation("numbers of blocks aligned alike", "core",
             r"(value_below \} = .*) - .*;", r"\1;", BLOCKS),
    Mutation("a power of two that is no number", "core",
             r"= & value_power;", "= 1'h0;", BLOCKS),
    Mutation("no room in the queue of results", "core", r"assign pushes = .*;",
             "assign pushes = draining;", LONG, ("stalls_7", "stalls_8")),
]  # fmt: skip


BF16 = "query: bf16\nkey: bf16\nvalue: bf16"

CONTRACT = Contract(
    "attention",
    "attention",
    small=(SMALL_CORES[0],),
    regressions=(
        Regressions(SMALL_CORES, every=9),
        Regressions(
            [configuration(**{"name": f"cover_{i}", **v}) for i, v in enumerate(COVERING)],
            seed=2,
            long=True,
        ),
    ),
    shipped=("attention.yaml",),
    shipped_every=0,
    clean=SMALL_CORES[:1],
    mutations=(
        Mutations(
            AttentionConfig,
            ("attention_shapes", "stalls_4", "back_to_back_full_rate", "back_to_back_stalled"),
            MUTATIONS,
            long=True,
        ),
    ),
    refused=(
        ("array: {units: 5}", r"array.units: must divide the 16 rows, not 5; use auto, or one of"),
        ("array: {units: 2}", r"array.units: must be at least 4, not 2: a unit takes 8 rows"),
        ("array: {units: 0}", r"array.units: must be auto or 1..64, not 0"),
        ("array: {units: few}", r"array.units: must be auto or 1..64, not 'few'"),
        ("array: {lanes: 1}\npipeline: {dot: 2}", r"pipeline.dot: must be 0 or 1 with one lane"),
        ("query: int16\nkey: int16", r"query: int16 x int16 with 64 elements gives scores of"),
        ("value: int16\noutput: int8", r"output: must hold V, int16"),
        (
            "value: int16\nmax_keys: 1048576\nsoftmax: {weight_bits: 22}\narray: {rows: 65}",
            r"array.rows: must be 1..64",
        ),
        ("output: uint16", r"output: must be signed as V is, int8, not uint16"),
        ("value: int2\noutput: int16\nsoftmax: {weight_bits: 8}", r"up to 8 bits behind the point"),
        ("head: 0", r"head: must be 1..256, not 0"),
        ("key: bf16", r"key: query, key, value and output must be all"),
        (f"{BF16}\noutput: bf16", r"scales: must be none or block with"),
        ("scales: block", r"scales: must be token or none with integers, not block"),
        (f"{BF16}\noutput: bf16\nscales: block\nhead: 96", r"head: must be 32, 64, 128 or 256"),
        (
            f"{BF16}\noutput: bf16\nscales: block\narray: {{lanes: 12}}",
            r"array.lanes: must divide 32 with scales: block, not 12",
        ),
        (
            "query: fp16\nkey: bf16\nvalue: bf16\noutput: bf16\nscales: none\nalignment_bits: 9",
            r"alignment_bits: must be at least 10",
        ),
        (
            f"{BF16}\noutput: fp16\nscales: none\nalignment_bits: 14\nmax_keys: 1048576",
            r"times a reciprocal have 6\d bits, more than 63",
        ),
    ),
)
