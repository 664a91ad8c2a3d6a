# SPDX-License-Identifier: Apache-2.0
"""Array files that are corrupt, hostile, or no files at all."""

from __future__ import annotations

import io
import os
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build.load import parse_config
from flows.power.netlist_power import workload
from hwgen.cli import main
from hwgen.core.files import arrays
from hwgen.core.files.arrays import read_npy, read_npz
from hwgen.core.post import PostFeatures
from hwgen.core.post.settings_file import load_post
from hwgen.errors import ConfigError, InputError
from hwgen.formats import integer

SOURCE = "name: tiny\nfamily: systolic\narray: {rows: 2, cols: 2}\n"

TOKENS = [b"(", b")", b"[", b"{", b"'", b"\\", b"\x00", b"L", b"-", b"9" * 30, b"e999", b"None",
          b"True", b"'<i8'", b"'<U9'", b"'|O'", b"[('a', '<i8')]", b"10**9", b"#", b"\n", b"\xff",
          b"__import__('os')", b"(" * 200, b"1_0", b"0x", b"lambda: 0", b"f'{1}'"]  # fmt: skip


def saved(array: np.ndarray, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, **options)
    return buffer.getvalue()


def with_header(header: bytes, data: bytes = b"", version: int = 1) -> bytes:
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + data


def declared(shape: str, descr: str = "'<i8'") -> bytes:
    return with_header(
        f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    )


def mutated(rng: np.random.Generator, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        at = int(rng.integers(0, min(len(changed), 130)))
        kind = rng.integers(4)
        if kind == 0:
            changed[at] = rng.integers(256)
        elif kind == 1:
            del changed[at : at + int(rng.integers(1, 20))]
        elif kind == 2:
            changed[at:at] = TOKENS[rng.integers(len(TOKENS))]
        else:
            token = TOKENS[rng.integers(len(TOKENS))]
            changed[at : at + len(token)] = token
    return bytes(changed) or b"\x93"


def test_mutated_headers_are_read_or_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    sources = [
        saved(np.arange(12).reshape(3, 4)),
        saved(np.ones((3, 4), np.int8), version=(2, 0)),
        saved(np.asfortranarray(np.ones((3, 4))), version=(3, 0)),
    ]
    path = tmp_path / "a.npy"
    messages: list[str] = []
    for number in range(3000):
        path.write_bytes(mutated(rng, sources[number % 3]))
        try:
            array = read_npy(path)
        except InputError as error:
            messages.append(str(error))
        else:
            assert array.nbytes <= path.stat().st_size
            array.tobytes()
    assert len(messages) < 2990  # some can still be read
    assert all(m.startswith(f"{path} is not a readable .npy file: ") for m in messages)
    assert not any("\n" in m for m in messages)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "EOF"),
        (with_header(b"{'descr': '<i8', 'shape': (3, 4"), "."),  # ended in a TokenError
        (declared("(1, -1)"), "its shape is"),
        (declared("(99999999999999999999, 4)"), "takes 3199999999999999999968 bytes"),
        (declared("(1000000000, 1000000000)"), "takes 8000000000000000000 bytes, and it holds 0"),
        (declared("(4, 4)", "'|O'"), "Python objects"),
        (declared("(" * 500), "."),
        (with_header(b" " * 20_000, version=2), "its header has 20000 bytes"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff", "its header has 4294967295 bytes"),
        (b"\x93NUMPY\x09\x00\x10\x00" + b" " * 16, "."),
    ],
)
def test_a_corrupt_matrix_is_bad_input(
    content: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, path = tmp_path / "tiny.yaml", tmp_path / "a.npy"
    config.write_text(SOURCE)
    path.write_bytes(content)
    np.save(tmp_path / "w.npy", np.ones((4, 4), int))
    command = ["run", "--config", str(config), "--output", str(tmp_path / "c.npy")]
    operands = ["--activations", str(path), "--weights", str(tmp_path / "w.npy")]
    tracemalloc.start()
    try:
        assert main([*command, *operands]) == 2
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()
    error = capsys.readouterr().err
    assert f"{path} is not a readable .npy file" in error
    assert message in error


def test_arrays_of_post_processing_are_read_the_same_way(tmp_path: Path) -> None:
    post = tmp_path / "post.yaml"
    post.write_text("output: int8\nbias: b.npy\n")
    features = PostFeatures(integer("int32"), outputs=("int8",), columns=True)
    for content in (with_header(b"{'descr': '<i8', 'shape': (3, 4"), declared("(10**9,)")):
        (tmp_path / "b.npy").write_bytes(content)
        with pytest.raises(ConfigError, match=r"2:1: bias: .*b\.npy is not a readable \.npy"):
            load_post(post, features, 3)


@pytest.mark.parametrize("reader", [read_npy, lambda path: read_npz(path, ["activations"])])
def test_pipes_and_directories_are_refused(reader: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="pipe is a pipe or device; arrays are read from regular"):
        reader(tmp_path / "pipe")
    with pytest.raises(InputError, match="is a directory"):
        reader(tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        reader(tmp_path / "none.npy")
    with pytest.raises(InputError, match="no name of a file"):
        reader(tmp_path / "a\0.npy")


def test_archives_are_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "work.npz"
    np.savez_compressed(path, activations=np.ones((8, 32), int), weights=np.ones((32, 8), int))
    config = parse_config(SOURCE)
    assert workload(config, str(path)).macs == 8 * 32 * 8
    content = path.read_bytes()
    rng = np.random.default_rng(2)
    read = 0
    for _ in range(600):
        changed = bytearray(content)
        for at in rng.integers(0, len(content), rng.integers(1, 4)):
            changed[at] = rng.integers(256)
        path.write_bytes(changed)
        try:
            workload(config, str(path))
            read += 1
        except InputError:
            pass
    assert read < 300


def test_an_array_of_an_archive_has_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("activations.npy", declared("(1000000000, 1000000000)"))
    with pytest.raises(InputError, match="takes 8000000000000000000 bytes, and it holds 0"):
        read_npz(path, ["activations"])
    monkeypatch.setattr(arrays, "MAX_MEMBER", 1 << 20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("activations.npy", bytes((1 << 20) + 1))
    with pytest.raises(InputError, match="activations is larger than"):
        read_npz(path, ["activations"])
    with pytest.raises(InputError, match=r"lacks an array: .*weights\.npy"):
        read_npz(path, ["weights"])
