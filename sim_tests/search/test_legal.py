# SPDX-License-Identifier: Apache-2.0
"""The engines that a search refuses are those that `hwgen build` refuses."""

from __future__ import annotations

import itertools
import random
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.build.build import Build
from flows.build.design import Design
from flows.build.load import load_config
from flows.search import space as spaces
from flows.search.space import (
    PRODUCTS,
    Frame,
    Needs,
    Option,
    Space,
    frames_of,
    space_of,
    unit_options,
    units_file,
)
from hwgen.errors import HwgenError
from hwgen.families.transformer.params import TransformerConfig
from sim_tests.support.paths import CONFIGS

POINTS = 200

TERNARY = Needs("int8", "ternary", ("rms_norm", "rope", "gated", "add", "argmax"), "silu", 0,
                longest_row=768, longest_k=768, head=64, group=4, context=64)  # fmt: skip
INT8 = Needs("int8", "int8", ("layer_norm", "add", "argmax"), "", 8,
             longest_row=192, longest_k=192, head=48, group=1, context=100)  # fmt: skip
BLOCKS = Needs("int8", "int4_g32", ("rms_norm", "rope", "gated", "add", "argmax"), "gelu", 0,
               longest_row=320, longest_k=640, head=32, group=2, context=20)  # fmt: skip


MIXED = Needs("int8", "int4_g32", ("rms_norm", "rope", "gated", "add", "argmax"), "silu", 0,
              longest_row=320, longest_k=640, head=32, group=2, context=20,
              others=("int8_g32",))  # fmt: skip
SHARED = replace(TERNARY, shared=True)
VOCABULARY = replace(TERNARY, longest_row=49152)
NEEDS = (TERNARY, INT8, BLOCKS, MIXED, SHARED, VOCABULARY)


def wide_file() -> dict[str, Any]:
    """Return the units with more sizes, of which many are against a rule."""
    file = deepcopy(units_file())
    file["port"]["data_width"] = [8, 32, 64, 128, 1024]
    for name, unit in file.items():
        if "lanes" in unit:
            unit["lanes"] = [1, 2, 3, 4, 6, 8, 24, 48]
            if name != "heads":
                unit["least"] = 1
    file[PRODUCTS]["buffer_kib"] = [1, 4, 512]
    for core in file[PRODUCTS]["cores"]:
        core["sizes"] = {
            name: sizes if name == "method" else [1, *sizes, 3]
            for name, sizes in core["sizes"].items()
        }
    return file


def write(path: Path, engine: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(engine), encoding="utf-8")
    return path


def drawn(needs: Needs, frame: Frame, chosen: random.Random) -> list[Option]:
    return [chosen.choice(every) for every in unit_options(needs, frame).values() if every]


def complete(space: Space, frame: Frame, options: list[Option]) -> bool:
    """Return whether all options of an engine are of the space."""
    known = space.options.get(frame)
    return known is not None and all(
        any(each.values == option.values for each in known[option.unit]) for option in options
    )


def built(engine: dict[str, Any], path: Path) -> bool:
    """Return whether `hwgen build` takes a configuration."""
    try:
        load_config(write(path, engine))
    except HwgenError:
        return False
    return True


def compare_refusals(
    monkeypatch: pytest.MonkeyPatch, directory: Path, seed: int
) -> dict[bool, int]:
    """Compare spaces with `hwgen build` on random points; return how many are legal, and not."""
    file = wide_file()
    monkeypatch.setattr(spaces, "units_file", lambda: file)
    chosen = random.Random(seed)
    seen = {True: 0, False: 0}
    every = [(needs, space_of(needs, {"technology": "asap7"})) for needs in NEEDS]
    while sum(seen.values()) < POINTS:
        needs, space = chosen.choice(every)
        frame = chosen.choice(frames_of(needs, file["port"]["data_width"]))
        options = drawn(needs, frame, chosen)
        if len(options) < (3 if needs.shared else 7 + len(needs.others)):
            assert frame not in space.options
            continue
        expected = complete(space, frame, options)
        if seen[expected] > 0.7 * POINTS:
            continue
        engine = space.engine("engine", frame, options)
        assert built(engine, directory / "engine.yaml") == expected, engine
        seen[expected] += 1
    return seen


def test_refused_is_what_build_refuses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = compare_refusals(monkeypatch, tmp_path, 20)
    assert min(seen.values()) > 0.2 * POINTS


@pytest.mark.slow
@pytest.mark.rotate(20)
@pytest.mark.parametrize("seed", range(10))
def test_other_points_are_refused_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int
) -> None:
    assert sum(compare_refusals(monkeypatch, tmp_path, seed).values()) == POINTS


@pytest.mark.slow
@pytest.mark.rotate(240)
@pytest.mark.parametrize("seed", range(POINTS))
def test_what_is_ranked_is_built(tmp_path: Path, seed: int) -> None:
    chosen = random.Random(seed)
    needs = chosen.choice(NEEDS)
    space = space_of(needs, {"technology": "asap7"})
    frame = chosen.choice(list(space.options))
    options = [chosen.choice(each) for each in space.options[frame].values()]
    config = load_config(write(tmp_path / "engine.yaml", space.engine("engine", frame, options)))
    files = Build(Design.of(config))
    assert "module engine" in files.design.verilog


@pytest.mark.parametrize("shared", [False, True])
def test_memories_have_no_place_for_a_large_vocabulary(shared: bool) -> None:
    """Units store the rows that products take, and those of the vocabulary pass."""
    needs = replace(VOCABULARY, shared=shared)
    options = unit_options(needs, Frame(32, 8, 4))
    for unit in ("rows",) if shared else ("rows", "sums"):
        for option in options[unit]:
            array = option.values["compute"]["array"]
            assert array["longest_row"] == 49152
            assert array["stored_row"] == (768 if unit == "rows" else 0)


def test_the_decoder_of_a_board_is_of_the_space() -> None:
    shipped = yaml.safe_load((CONFIGS / "boards" / "decoder.yaml").read_text("utf-8"))
    needs = Needs(
        "int8", "ternary", ("rms_norm", "rope", "gated", "add", "argmax"), "relu2", 0,
        longest_row=1280, longest_k=2048, head=64, group=4, context=512, shared=True,
    )  # fmt: skip
    space = space_of(needs, shipped["target"], (32,))

    def plain(engine: dict[str, Any]) -> dict[str, Any]:
        values = TransformerConfig.model_validate({**engine, "name": "decoder"}).resolved()
        operations = values["units"]["rows"]["compute"]["array"]["operations"]
        values["units"]["rows"]["compute"]["array"]["operations"] = sorted(operations)
        return values

    wanted = plain(shipped)
    assert any(
        plain(space.engine("decoder", frame, options)) == wanted
        for frame, units in space.options.items() if frame.registered and frame.queue == 1
        for options in itertools.product(*units.values())
    )  # fmt: skip
