# SPDX-License-Identifier: Apache-2.0
"""Fixtures of searches."""

from __future__ import annotations

import pytest

from flows.search.space import units_file
from hwgen.models.files.store import Model
from sim_tests.models.test_model_golden import quantised
from sim_tests.search.searching import SMALL, by_tables


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return quantised(tmp_path_factory.mktemp("model"), SMALL)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, model: Model) -> Model:
    monkeypatch.setattr("flows.search.search.complete", by_tables)
    small = {**units_file(), "port": {**units_file()["port"], "data_width": [64]}}
    small["products"] = {**small["products"], "buffer_kib": [4]}
    monkeypatch.setattr("flows.search.space.units_file", lambda: small)
    return model
