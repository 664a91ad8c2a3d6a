# SPDX-License-Identifier: Apache-2.0
"""Post-processing of sums in single precision: golden model, settings, and `hwgen run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.load import parse_config
from hwgen.cli import main
from hwgen.cli.support.run_post import post_processing, with_second_scales
from hwgen.core.golden.post import apply
from hwgen.core.post import (
    ACTIVATIONS,
    OUTPUTS,
    ROUNDINGS,
    SINGLE,
    Columns,
    PostFeatures,
    PostSettings,
)
from hwgen.core.post.settings_file import load_post
from hwgen.errors import ConfigError, InputError
from hwgen.formats import floating, integer
from sim_tests.support.selection import commit_seed
from sim_tests.support.single_vectors import check_singles, single_vectors


def features(*arguments: Any, **options: Any) -> PostFeatures:
    return PostFeatures(SINGLE, *arguments, **options)


ALL = features(OUTPUTS, ACTIVATIONS, ROUNDINGS)


# -- golden model ---------------------------------------------------------------------------------


def test_golden() -> None:
    met = check_singles(single_vectors(ALL, 4_000, 3, seed=3))
    assert min(met.values()) > 5


@pytest.mark.long
def test_golden_campaign() -> None:
    check_singles(single_vectors(ALL, 300_000, 3, seed=commit_seed()))


def test_golden_by_hand() -> None:
    """Ties in every mode; what is no number; the order of bias, scale, zero point and limits."""
    acc = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 1.25, -1.25], np.float32)
    for rounding, wanted in (
        ("half_even", [-2, -2, 0, 0, 2, 2, 1, -1]),
        ("half_away", [-3, -2, -1, 1, 2, 3, 1, -1]),
        ("half_up", [-2, -1, 0, 1, 2, 3, 1, -1]),
        ("floor", [-3, -2, -1, 0, 1, 2, 1, -2]),
    ):
        settings = PostSettings.scaled("int8", rounding=rounding, single=True)
        assert apply(settings, SINGLE, acc).tolist() == wanted
    odd = np.array([np.nan, np.inf, -np.inf, 1e30, -0.0], np.float32)
    settings = PostSettings.scaled("uint8", 0.5, zero=7, minimum=1, single=True)
    assert apply(settings, SINGLE, odd).tolist() == [7, 255, 1, 255, 7]
    columns = Columns.scaled("bf16", [2.0, 0.5], bias=[0.25, 1.5], slopes=0.125, single=True)
    settings = PostSettings("bf16", "leaky", columns=True, single=True)
    result = apply(settings, SINGLE, np.array([[1, -3], [-4.25, 0.5]], np.float32), columns)
    assert result.astype(float).tolist() == [[2.5, -0.09375], [-1.0, 1.0]]
    relu = apply(PostSettings("raw", "relu"), SINGLE, odd)
    assert relu.view(np.uint32).tolist() == [SINGLE.nan, 0x7F800000, 0, 0x7149F2CA, 0]


# -- settings -------------------------------------------------------------------------------------


def test_wrong_settings() -> None:
    for arguments, message in (
        ({"multiplier": 3}, "multiplier: int8 outputs of sums in fp32 have none; give scale"),
        ({"shift": 3}, "shift: int8 outputs of sums in fp32 have none; give scale instead"),
        ({"scale": float("inf")}, "scale: must be a finite number of single precision, not inf"),
    ):
        with pytest.raises(InputError, match=f"^{message}"):
            PostSettings("int8", single=True, **arguments)
    with pytest.raises(InputError, match=r"^bias: must be finite numbers of single precision"):
        Columns.scaled("int8", bias=[np.nan], single=True)
    with pytest.raises(InputError, match=r"^single: accumulators of this hardware are fp32; its"):
        PostSettings("int8").check(ALL)
    with pytest.raises(InputError, match=r"^single: accumulators of this hardware are int32; its"):
        PostSettings("int8", single=True).check(PostFeatures(integer("int32"), ("int8",)))
    with pytest.raises(InputError, match=r"^accumulator: must be fp32, or an integer, not bf16"):
        PostFeatures(floating("bf16"), ("raw",))
    with pytest.raises(InputError, match=r"^accumulators: must be floating-point numbers, not int"):
        apply(PostSettings("raw"), SINGLE, np.array([1]))


# -- files of settings ----------------------------------------------------------------------------

FILES: list[tuple[str, str]] = [
    ("output: int8\nmultiplier: 3", r"p\.yaml:2:1: multiplier: sums in fp32 have none; give scale"),
    ("output: int8\nbias: 1", r"p\.yaml:2:1: bias: must be floating-point numbers, such as 1\.0"),
    ("output: int8\nbias: b.npy", r"p\.yaml:2:1: bias: must be floating-point .* not int64"),
    ("output: fp32\nbias: [1.0, 1.0e+39]", r"p\.yaml:2:1: bias: must be finite numbers of single"),
    ("output: fp32\nzero: 3", r"p\.yaml:2:1: zero: fp32 outputs have no zero point"),
    ("output: int4", r"p\.yaml:1:1: output: this hardware has raw, fp32, int8, not int4; build it"),
]


@pytest.mark.parametrize(("text", "message"), FILES, ids=[text for text, _ in FILES])
def test_wrong_files(text: str, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", np.array([1, 2]))
    (tmp_path / "p.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        load_post(tmp_path / "p.yaml", features(("raw", "fp32", "int8")), 2)


ENGINE = """
name: engine
family: gemm_stream
compute: {family: cube, activation: nvfp4, weight: nvfp4, array: {rows: 2, cols: 2, depth: 8}}
buffers: {activation_kib: 4, weight_kib: 4, output_kib: 2}
memory: {data_width: 64}
"""


def test_second_scales_are_multipliers(tmp_path: Path) -> None:
    """A result with them is what the scale of a file is of, and a bias is in its unit."""

    def engine(post: str) -> Any:
        return parse_config(f"{ENGINE}post: {post}", "e.yaml")

    tensor, columns = np.array([0.25], np.float32), np.array([0.5, 2], np.float32)
    both = engine("{outputs: [raw, fp32, int8]}")
    settings, none = post_processing(both, None, 2, tensor, tensor)  # type: ignore[misc]
    assert (settings.output, settings.scale, none) == ("fp32", 0.0625, None)
    settings, records = post_processing(both, None, 2, tensor, columns)  # type: ignore[misc]
    assert settings.columns
    assert records is not None
    assert records.multiplier.view(np.float32).tolist() == [0.125, 0.5]
    raw = np.ones((3, 2), np.float32)
    for post, of_rows in (
        ("{outputs: [raw, int8]}", tensor),
        ("{outputs: [raw, fp32], columns: false}", tensor),
        ("{outputs: [raw, fp32]}", np.array([1, 2, 3], np.float32)),
    ):
        done = post_processing(engine(post), None, 2, of_rows, columns)
        assert done == (PostSettings("raw"), None)
        assert (with_second_scales(raw, of_rows, columns, done)[0] == of_rows[0] * columns).all()
    only = engine("{outputs: [bf16]}")
    done = post_processing(only, None, 2, tensor)
    assert done[0].output == "bf16"  # type: ignore[misc]
    assert with_second_scales(raw, tensor, None, done) is raw
    with pytest.raises(InputError, match="gives no raw results but bf16; say with --post what"):
        post_processing(only, None, 2)

    path = tmp_path / "p.yaml"
    path.write_text("output: int8\nscale: 8\nbias: 3.0\nactivation: relu", encoding="utf-8")
    settings, records = post_processing(both, path, 2, tensor, columns)  # type: ignore[misc]
    assert records is not None
    assert records.multiplier.view(np.float32).tolist() == [1.0, 4.0]
    assert records.bias.view(np.float32).tolist() == [24.0, 6.0]
    with pytest.raises(InputError, match="--post: rows of A have second scales, which are no"):
        post_processing(both, path, 2, np.ones(3, np.float32))
    path.write_text("output: raw\nactivation: relu", encoding="utf-8")
    done = post_processing(both, path, 2, np.ones(3, np.float32))
    assert done == (PostSettings("raw", "relu", single=True), None)


@pytest.mark.long
def test_a_layer_by_hwgen_run(tmp_path: Path) -> None:
    """The same product with its second scales by the host, and by the engine."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", rng.normal(0, 1, (3, 50)).astype(np.float32))
    np.save(tmp_path / "w.npy", rng.normal(0, 0.02, (50, 5)).astype(np.float32))
    (tmp_path / "p.yaml").write_text("output: int8\nscale: 64\nbias: 0.5\n", encoding="utf-8")
    result = {}
    for name, post, more in (
        ("host", "{outputs: [raw], columns: false}", []),
        ("engine", "{outputs: [raw, fp32, int8]}", []),
        ("layer", "{outputs: [raw, fp32, int8]}", [f"--post={tmp_path / 'p.yaml'}"]),
    ):
        (tmp_path / "e.yaml").write_text(f"{ENGINE}post: {post}", encoding="utf-8")
        files = [f"--{o}={tmp_path / f}" for o, f in
                 (("config", "e.yaml"), ("activations", "a.npy"), ("weights", "w.npy"),
                  ("output", f"{name}.npy"))]  # fmt: skip
        assert main(["run", *files, "--check", *more]) == 0
        result[name] = np.load(tmp_path / f"{name}.npy")
    assert np.allclose(result["host"], result["engine"], rtol=1e-6)
    assert np.abs(result["layer"] - (result["host"] + 0.5) * 64).max() < 0.51
