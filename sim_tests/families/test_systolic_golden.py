# SPDX-License-Identifier: Apache-2.0
"""Golden model, packing and schedule of the systolic family against plain Python integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwgen.core.port import StreamPort
from hwgen.errors import InputError
from hwgen.families.systolic.params import SystolicConfig
from hwgen.families.systolic.schedule import Schedule
from hwgen.formats import IntegerFormat, dot_format, enclosing_format, integer
from sim_tests.support.cores import golden

FORMATS = st.builds(IntegerFormat, st.integers(2, 16), st.booleans())
DATAFLOWS = st.sampled_from(["output_stationary", "weight_stationary", "input_stationary"])


@st.composite
def systolic_configs(draw: st.DrawFn) -> SystolicConfig:
    dataflow = draw(DATAFLOWS)
    array: dict[str, Any] = {
        "rows": draw(st.integers(1, 9)),
        "cols": draw(st.integers(1, 9)),
        "dataflow": dataflow,
    }
    if dataflow != "output_stationary":
        array["accumulator_depth"] = draw(st.integers(1, 12))
    data: dict[str, Any] = {
        "name": "drawn",
        "activation": draw(FORMATS).name,
        "weight": draw(FORMATS).name,
        "max_k": draw(st.sampled_from([40, 65536])),
        "array": array,
    }
    if draw(st.booleans()):
        signed = SystolicConfig.model_validate(data).product.signed or draw(st.booleans())
        data["accumulator"] = IntegerFormat(draw(st.integers(2, 64)), signed).name
        data["overflow"] = draw(st.sampled_from(["wrap", "saturate"]))
    return SystolicConfig.model_validate(data)


@st.composite
def products(draw: st.DrawFn) -> tuple[SystolicConfig, np.ndarray, np.ndarray]:
    config = draw(systolic_configs())
    m, k, n = draw(st.integers(1, 20)), draw(st.integers(1, 40)), draw(st.integers(1, 20))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def matrix(fmt: IntegerFormat, shape: tuple[int, int]) -> np.ndarray:
        if draw(st.booleans()):
            return rng.integers(fmt.min, fmt.max, shape, endpoint=True)
        return rng.choice([fmt.min, fmt.max], shape)

    return config, matrix(config.activation, (m, k)), matrix(config.weight, (k, n))


def reference(config: SystolicConfig, a: np.ndarray, w: np.ndarray) -> list[list[int]]:
    """Return C by Python's unbounded integers, addition by addition."""
    step = 1 if config.output_stationary else config.array.rows
    fmt = config.result
    result = []
    for row in a.tolist():
        line = []
        for column in w.T.tolist():
            total = 0
            for start in range(0, len(row), step):
                part = slice(start, start + step)
                total += sum(x * y for x, y in zip(row[part], column[part], strict=True))
                if config.overflow == "saturate":
                    total = max(fmt.min, min(fmt.max, total))
                else:
                    total = (total - fmt.min) % (1 << fmt.width) + fmt.min
            line.append(total)
        result.append(line)
    return result


@settings(max_examples=400)
@given(products())
def test_golden_is_integer_arithmetic(case: tuple[SystolicConfig, np.ndarray, np.ndarray]) -> None:
    config, a, w = case
    assert golden(config, a, w).tolist() == reference(config, a, w)


@settings(max_examples=400)
@given(products())
def test_streams_carry_the_product(case: tuple[SystolicConfig, np.ndarray, np.ndarray]) -> None:
    """Packed streams, multiplied pass by pass, give the product after unpacking."""
    config, a, w = case
    plan = Schedule(config, a.shape[0], a.shape[1], w.shape[1])
    blocks = {"act": plan.pack_activations(a), "wgt": plan.pack_weights(w)}
    x_chunks = list(plan.stream(config.row_port, blocks[config.row_port.name]))
    y_chunks = list(plan.stream(config.column_port, blocks[config.column_port.name]))
    assert sum(len(beats) for beats, _ in x_chunks) == plan.input_beats(config.row_port)
    assert sum(len(beats) for beats, _ in y_chunks) == plan.input_beats(config.column_port)
    out: list[np.ndarray] = []
    total = np.zeros((1, 1), np.int64)
    for number, (x_chunk, y_chunk) in enumerate(zip(x_chunks, y_chunks, strict=True)):
        x = config.row_port.unpack(x_chunk[0]).astype(np.int64)
        y = config.column_port.unpack(y_chunk[0]).astype(np.int64)
        if config.output_stationary:
            out.append(x.T @ y)
        else:
            total = total + x @ y if number % plan.blocks[1] else x @ y
            if y_chunk[1]:
                out.append(total)
    beats = config.output_port.pack(np.concatenate(out))
    assert len(beats) == plan.output_beats == len(list(plan.output_last()))
    exact = a.astype(object) @ w.astype(object)
    unpacked = plan.unpack_outputs(beats)
    mask = (1 << config.output_port.lane_width) - 1
    assert (unpacked.astype(object) & mask).tolist() == (exact & mask).tolist()


@given(FORMATS, st.integers(1, 200), st.integers(1, 5), st.data())
def test_pack_and_unpack_invert(
    fmt: IntegerFormat, lanes: int, beats: int, data: st.DataObject
) -> None:
    port = StreamPort("act", "in", fmt, lanes, fmt.width, "")
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = rng.integers(fmt.min, fmt.max, (beats, lanes), endpoint=True)
    packed = port.pack(values)
    assert packed.shape == (beats, port.beat_bytes)
    assert port.unpack(packed).tolist() == values.tolist()
    # Element 0 sits in the least significant bits.
    beat = int.from_bytes(packed[0].tobytes(), "little")
    assert beat & ((1 << fmt.width) - 1) == int(values[0, 0]) & ((1 << fmt.width) - 1)


@given(FORMATS, FORMATS, st.integers(1, 1000))
def test_dot_format_is_tight(a: IntegerFormat, w: IntegerFormat, terms: int) -> None:
    corners = [x * y * terms for x in (a.min, a.max) for y in (w.min, w.max)]
    fmt = dot_format(a, w, terms)
    assert fmt.min <= min(corners)
    assert max(corners) <= fmt.max
    if fmt.width > 1:
        narrower = IntegerFormat(fmt.width - 1, fmt.signed)
        assert min(corners) < narrower.min or max(corners) > narrower.max


@pytest.mark.parametrize(
    ("low", "high", "name"),
    [(0, 0, "uint1"), (0, 255, "uint8"), (-1, 0, "int1"), (-128, 127, "int8"), (-128, 128, "int9")],
)
def test_enclosing_format(low: int, high: int, name: str) -> None:
    assert enclosing_format(low, high) == integer(name)


@pytest.mark.parametrize("name", ["int0", "int65", "float8", "int", "int08", ""])
def test_unknown_formats(name: str) -> None:
    with pytest.raises(ValueError, match=r"^must be int1\.\.int64 or uint1\.\.uint64, not "):
        integer(name)


CONFIG = SystolicConfig.model_validate({"name": "tiny", "max_k": 8, "activation": "int4"})


@pytest.mark.parametrize(
    ("a", "w", "message"),
    [
        (np.zeros((2, 3), int), np.zeros((4, 2), int), r"^weights: shape must be \(3, 2\)"),
        (np.zeros((2, 9), int), np.zeros((9, 2), int), r"^K = 9 exceeds max_k = 8 .* raise max_k"),
        (np.full((2, 3), 8), np.zeros((3, 2), int), r"^activations: must be -8\.\.7 \(int4\), f"),
        (np.zeros((2, 3)), np.zeros((3, 2), int), r"^activations: must be integers, not float64"),
        (np.zeros((0, 3), int), np.zeros((3, 2), int), r"^M must be at least 1, not 0"),
    ],
)
def test_operands_that_do_not_fit(a: np.ndarray, w: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        golden(CONFIG, a, w)
