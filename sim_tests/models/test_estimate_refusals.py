# SPDX-License-Identifier: Apache-2.0
"""Models that an engine cannot execute have no estimate on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.build.load import load_config
from hwgen.errors import InputError
from hwgen.models.compile.engine_passes import engine_passes
from hwgen.models.graph.passes import passes_of
from sim_tests.models.model_files import Small
from sim_tests.models.test_model_golden import quantised
from sim_tests.support.paths import ROOT


def test_weights_of_another_format_are_refused_as_by_compile(tmp_path: Path) -> None:
    model = quantised(tmp_path, Small(), weights="int4", group=16)
    config = load_config(ROOT / "configs" / "decoder_engine" / "int8.yaml")
    with pytest.raises(InputError, match="products takes int8 by int8"):
        engine_passes(model, [config], passes_of(model.description, 5, 5))
