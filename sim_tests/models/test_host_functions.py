# SPDX-License-Identifier: Apache-2.0
"""Functions of the host in NumPy and in C: the same in every bit, also of NaN and infinity."""

from __future__ import annotations

import ctypes
import inspect
from typing import Any

import numpy as np
import pytest

from flows.build.drivers.c_functions import name_in_c, needed_functions
from flows.build.drivers.c_templates import blocks
from flows.build.load import load_config
from hwgen.models.run import host_functions
from hwgen.models.run.host_functions import TRANSLATED
from sim_tests.support.c_programs import built
from sim_tests.support.paths import ROOT

HEAD = """#include <stddef.h>
#include <stdint.h>
#include <string.h>
#pragma GCC optimize("fp-contract=off")
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    config = load_config(ROOT / "configs" / "gemm_stream.yaml")
    names = {name_in_c(each): tuple(inspect.signature(each).parameters) for each in TRANSLATED}
    loops = ""
    for name, parameters in names.items():
        types = {"x": "double", "y": "double", "f": "double", "ahead": "int64_t"}
        arguments = ", ".join(f"const {types[each]} *{each}" for each in parameters)
        called = ", ".join(f"{each}[i]" for each in parameters)
        loops += (
            f"void all_{name}(size_t count, {arguments}, double *z);\n"
            f"void all_{name}(size_t count, {arguments}, double *z)\n{{\n    size_t i;\n\n"
            f"    for (i = 0; i < count; i++)\n        z[i] = {name}({called});\n}}\n\n"
        )
    text = HEAD + needed_functions(loops, blocks(config.name, "host_numbers.c", {})) + loops
    files = {"functions.c": text}
    return built(files, tmp_path_factory.mktemp("c"), "-std=c99", "-O2")


def numbers() -> np.ndarray:
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 700.0, -700.0, 1e300, -1e300, 5e-324]
    parts: list[Any] = [special, [np.inf, -np.inf, np.nan], rng.uniform(-9, 9, 4000)]
    parts += [rng.uniform(-800, 800, 2000), rng.standard_normal(4000) * 2.0 ** rng.uniform(-60, 40)]
    return np.concatenate(parts)


@pytest.mark.parametrize("function", TRANSLATED, ids=lambda each: each.__name__)
def test_c_is_numpy_in_every_bit(function, library: ctypes.CDLL) -> None:
    x = numbers()
    if function.__name__ == "inverse_root":
        x = np.abs(x[np.isfinite(x) & (x != 0)])
    others = {"y": np.roll(x, 7), "ahead": np.arange(len(x)) % 4}
    names = list(inspect.signature(function).parameters)
    arguments = [x, *(others[name] for name in names[1:])]
    with np.errstate(all="ignore"):
        wanted = np.asarray(function(*arguments))
    result = np.empty(len(x))
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (*arguments, result)]
    getattr(library, f"all_{name_in_c(function)}")(ctypes.c_size_t(len(x)), *pointers)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(wanted))
    same = np.isnan(wanted) | (result.view(np.int64) == wanted.view(np.int64))
    assert same.all(), x[~same][:8]


def test_constants_in_c_are_those_of_the_source() -> None:
    text = needed_functions("exponential_of", {})
    assert repr(host_functions.LOG_2_LOW) in text
    assert f"for (step = 0; step != {host_functions.ROOT_STEPS}; step++)" in needed_functions(
        "inverse_root_of", {}
    )
