# SPDX-License-Identifier: Apache-2.0
"""A layer of a decoder with DDR4 memory: simulations, and the section of the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.bench import ddr4_layer
from flows.bench.common import ROOT, section
from flows.build.load import load_config
from hwgen.board.ddr4 import ddr4_memories
from hwgen.core.params.target import Target
from hwgen.families.transformer.params import TransformerConfig
from sim_tests.engines.decoder_engines import small_engine
from sim_tests.models.test_model_compile import SMALL
from sim_tests.models.test_model_golden import quantised


def test_the_page_has_the_stored_layer() -> None:
    stored = ddr4_layer.stored()
    page = (ROOT / "docs" / "engines-on-boards.md").read_text(encoding="utf-8")
    assert section(page, ddr4_layer.SECTION).strip() == ddr4_layer.section(stored).strip()
    config = load_config(ddr4_layer.CONFIG)
    assert isinstance(config, TransformerConfig)
    assert [each["interconnect_ns"] for each in stored] == list(ddr4_layer.INTERCONNECT_NS)
    for each in stored:
        assert (each["engine"], each["device"]) == (config.name, config.target.device)
        assert each["fits"]
        assert each["equal_memory_bytes"] > 0
        assert each["least_cycles"] <= each["ideal_cycles"] <= each["most_cycles"]
        assert abs(each["modelled_cycles"] / each["ideal_cycles"] - 1) < 0.02
        moved, bus = ddr4_layer.shares_of_peak(each, ddr4_memories()[each["memory"]])
        assert 0 < moved <= bus < 1
        estimated, measured = ddr4_layer.tokens_per_s(each)
        assert 0 < measured < estimated


@pytest.mark.slow
@pytest.mark.rotate(96)
def test_a_layer_is_golden_with_the_memory(tmp_path: Path) -> None:
    model = quantised(tmp_path, SMALL)
    memory = {"data_width": 32, "max_burst": 8, "outstanding": 2, "address_width": 32}
    target = Target(technology="xcup", device="xck26", clock_mhz=300)
    config = small_engine(shared=True, memory=memory).model_copy(update={"target": target})
    near, far = ddr4_layer.measure(model, config, "kv260", (0.0, 100.0), 8)
    assert near["ideal_cycles"] < near["cycles"] < far["cycles"]
    assert near["equal_memory_bytes"] == far["equal_memory_bytes"] > 0
    assert near["reads"] * 64 >= near["port_bytes"] - near["writes"] * 64
    assert near["reads"] == far["reads"]
    assert near["refreshes"] == near["cycles"] * 4 // 9360 or near["cycles"] < 100_000
    text = ddr4_layer.section([near, far])
    assert f"{near['cycles']:,}" in text
    assert "| 4 GB of a KV260 | 100 |" in text
