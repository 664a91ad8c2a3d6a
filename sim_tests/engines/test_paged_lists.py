# SPDX-License-Identifier: Apache-2.0
"""A cache that a command list appends to, in pages and in a row: RTL and golden model."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from flows.simulation.bus.list_host import ListHost
from flows.simulation.command_lists import Image
from flows.simulation.engine_program import Model, compile_model
from hwgen.core.lists.commands import BYTES
from hwgen.core.lists.golden import Interpreter
from hwgen.core.lists.units import units_of
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.families.attention.golden import operate
from hwgen.families.transformer.params import TransformerConfig
from hwgen.models.compile.list_builder import ListBuilder, Number, Offer, Pages, Rows
from sim_tests.support.designs import design_of

CONFIG: dict[str, Any] = {
    "name": "cached",
    "family": "transformer",
    "units": {
        "products": {
            "family": "gemm_stream",
            "compute": {"family": "systolic", "array": {"rows": 1, "cols": 1}},
            "buffers": dict.fromkeys(
                ("activation_kib", "weight_kib", "output_kib", "column_kib"), 1
            ),
        },
        "copies": {
            "family": "stream_engine",
            "compute": {"family": "vector", "input": "int8", "output": "int8",
                        "array": {"operations": ["add"], "lanes": 4, "longest_row": 16}},
            "queue": 2,
            "buffers": {"port_beats": 16},
        },
        "heads": {
            "family": "stream_engine",
            "compute": {"family": "attention", "head": 8, "scales": "none", "max_keys": 64,
                        "array": {"rows": 4, "lanes": 4}, "softmax": {"weight_bits": 10}},
            "buffers": {"port_beats": 16},
            "paged": ["key", "value"],
        },
    },
    "memory": {"data_width": 64, "max_burst": 8, "outstanding": 4, "address_width": 40},
}  # fmt: skip
KEYS, ROW, STEPS, GROUP, PREFILL = 4, 8, 10, 2, 3
"""Keys of a page, bytes of a key, tokens, heads of queries, tokens that are there already."""

PAGE = 2 * KEYS * ROW  # keys, and then values
LIST, TABLE, ZERO, NEW, SCALE, QUERY, OUT, POOL, LINE, END = (
    0x8000, 0x40, 0x80, 0x100, 0x300, 0x400, 0x800, 0xA04, 0x2000, 0x3000,
)  # fmt: skip
"""Addresses; what belongs to pages counts from an odd one."""

POSITION, OFFSET, ENTRY, COUNT, FILLED, WHOLE, AT = range(1, 8)
"""Registers; where the new key is, is found from the position alone."""


@cache
def config() -> TransformerConfig:
    return TransformerConfig.model_validate(CONFIG)


def appended(paged: bool) -> bytes:
    """Return a list that appends the key and the value of a token and looks at all up to it."""
    builder = ListBuilder(config())
    program = builder.program
    program.multiply(OFFSET, POSITION, ROW)
    if paged:
        program.set(WHOLE, KEYS * ROW)
        program.set(ENTRY, TABLE)
        program.set(COUNT, 1)
        builder.label("page")
        program.branch("found", "below", OFFSET, WHOLE)
        program.add(OFFSET, OFFSET, value=-KEYS * ROW)
        program.add(ENTRY, ENTRY, value=4)
        program.add(COUNT, COUNT, value=1)
        program.branch("page")
        builder.label("found")
        program.load(AT, ENTRY, size=4)
        program.multiply(AT, AT, config().memory.data_width // 8, OFFSET)
    else:
        program.add(AT, OFFSET)
    program.add(FILLED, OFFSET)
    program.multiply(OFFSET, POSITION, ROW)  # of the new rows
    base = POOL if paged else LINE
    values = base + (KEYS * ROW if paged else STEPS * ROW)
    zero = Rows("zero", ZERO, stride=0)
    for name, source, target in (("key", NEW, base), ("value", NEW + STEPS * ROW, values)):
        arrays = {
            "x": Rows("new", source, register=OFFSET),
            "y": zero,
            "result": Rows(name, target, register=AT),
        }
        builder.rows(Offer("copies", "add"), ROW, arrays)
    program.multiply(ENTRY, POSITION, GROUP * ROW)
    program.multiply(OFFSET, POSITION, 4 * GROUP)
    program.multiply(WHOLE, POSITION, 2 * GROUP * ROW)
    query = {"rows": GROUP, "stride": ROW}
    builder.attention(
        {
            "query": Rows("query", QUERY, **query, register=ENTRY),
            "query_scale": Rows("scale", SCALE, rows=GROUP, stride=4, register=OFFSET),
            "key": Rows("key", base), "value": Rows("value", values),
            "output": Rows("out", OUT, GROUP, 2 * ROW, register=WHOLE),
        },
        unit="heads", queries=1, group=GROUP, keys=Number(1, POSITION),
        key_bytes=Number(ROW, FILLED), last=Number(1, POSITION), causal=False,
        pages=Pages(TABLE, KEYS, Number(0, COUNT)) if paged else None,
    )  # fmt: skip
    program.halt()
    return program.encode()


class Tokens:
    """Tokens with their queries, keys and values, and memory as it is before the first step."""

    def __init__(self, paged: bool, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.paged = paged
        self.query = rng.integers(-128, 128, (STEPS, GROUP, ROW)).astype(np.int8)
        self.key, self.value = rng.integers(-128, 128, (2, STEPS, ROW)).astype(np.int8)
        self.scale = rng.integers(1 << 15, 1 << 16, (STEPS, GROUP)) | 20 << 16
        self.pages = rng.permutation(24)[: -(-STEPS // KEYS)] * PAGE
        self.image = np.frombuffer(rng.bytes(END), np.uint8).copy()
        entries = (self.pages // (config().memory.data_width // 8)).astype("<u4")
        for address, array in (
            (TABLE, entries), (ZERO, np.zeros(ROW, np.uint8)), (SCALE, self.scale.astype("<u4")),
            (NEW, self.key), (NEW + STEPS * ROW, self.value), (QUERY, self.query),
        ):  # fmt: skip
            content = np.frombuffer(array.tobytes(), np.uint8)
            self.image[address : address + content.size] = content
        for token in range(PREFILL):
            for array, address in zip((self.key, self.value), self.rows(token), strict=True):
                self.image[address : address + ROW] = array[token].view(np.uint8)

    def rows(self, token: int) -> tuple[int, int]:
        """Return the addresses of the key and the value of a token."""
        if not self.paged:
            return LINE + token * ROW, LINE + (STEPS + token) * ROW
        at = POOL + int(self.pages[token // KEYS]) + token % KEYS * ROW
        return at, at + KEYS * ROW

    def expected(self) -> np.ndarray:
        """Return results of all steps by the golden model of the core alone."""
        core = config().units["heads"].compute
        operation = core_of(core).select_operation("attention")
        result = []
        for token in range(PREFILL, STEPS):
            operands = {
                "query": self.query[token][None, :, None],
                "query_scale": self.scale[token].astype(np.uint32)[None, :, None],
                "key": self.key[None, : token + 1],
                "value": self.value[None, : token + 1],
            }
            given = operation.check_scalars({})
            result.append(operate(core, operation, operands, given)["output"].reshape(GROUP, ROW))
        return np.stack(result)

    def check(self, memory: bytes) -> None:
        """Compare results and the cache with what they should be."""
        first = OUT + PREFILL * 2 * GROUP * ROW
        size = (STEPS - PREFILL) * 2 * GROUP * ROW
        result = np.frombuffer(memory[first : first + size], "<i2").reshape(-1, GROUP, ROW)
        assert np.array_equal(result, self.expected())
        for token in range(STEPS):
            for array, address in zip((self.key, self.value), self.rows(token), strict=True):
                assert memory[address : address + ROW] == array[token].tobytes()


def golden(tokens: Tokens, data: bytes) -> bytes:
    memory = Image(bytearray(tokens.image.tobytes()) + bytearray(LIST - END) + bytearray(data))
    for token in range(PREFILL, STEPS):
        registers = [0] * config().lists.registers
        registers[POSITION] = token
        interpreter = Interpreter(
            memory,
            units_of(config(), memory),
            config().register_width,
            config().lists.calls,
            registers,
        )
        outcome = interpreter.run(LIST, len(data) // BYTES)
        assert outcome.state == "done", outcome
    return bytes(memory.data[:END])


@pytest.mark.parametrize("paged", [True, False], ids=["pages", "row"])
def test_a_list_appends_and_looks_at_all(paged: bool) -> None:
    for seed in range(5):
        tokens = Tokens(paged, seed)
        tokens.check(golden(tokens, appended(paged)))


@pytest.mark.long
def test_hardware_is_the_golden_model() -> None:
    library = compile_model("cached", design_of(config()).verilog, config().buses, cycles=10_000)
    timings: tuple[dict[str, Any], ...] = (
        {"read_latency": 1, "write_latency": 1},
        {"stalls": 0.3, "read_latency": 9},
        {"stalls": 0.6, "read_latency": 40, "write_latency": 3},
    )
    for seed, timing in enumerate(timings):
        for paged in (True, False):
            tokens, data = Tokens(paged, seed), appended(paged)
            with Model(library, seed=seed, longest_burst=8, **timing) as model:
                host = ListHost(config(), model)
                model.map(0, END)
                model.map(LIST, 1 << 16)
                model.store(0, tokens.image.tobytes())
                for token in range(PREFILL, STEPS):
                    registers = [0] * config().lists.registers
                    registers[POSITION] = token
                    host.begin(data, registers, 0, LIST)
                    assert model.wait(200_000), "the list does not end"
                    outcome = host.outcome()
                    assert outcome.state == "done", outcome
                memory = bytes(model.load(0, END))
            tokens.check(memory)
            assert memory == golden(tokens, data)


def test_rows_in_pages_need_a_unit_that_takes_them() -> None:
    heads = {**CONFIG["units"]["heads"], "paged": ["key"]}
    values = {**CONFIG, "units": {**CONFIG["units"], "heads": heads}}
    builder = ListBuilder(TransformerConfig.model_validate(values))
    rows = {name: Rows(name, 64) for name in ("query", "query_scale", "key", "value", "output")}
    with pytest.raises(InputError, match="value: its rows cannot lie in pages; name it in `paged`"):
        builder.attention(
            rows, unit="heads", queries=1, group=1, keys=Number(4), key_bytes=Number(32),
            last=Number(4), pages=Pages(TABLE, KEYS, Number(1)),
        )  # fmt: skip
