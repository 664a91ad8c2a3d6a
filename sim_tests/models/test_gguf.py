# SPDX-License-Identifier: Apache-2.0
"""Import of models: every type of GGUF as the `gguf` package reads it, and files that lie."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from hwgen.cli import main
from hwgen.errors import InputError
from hwgen.formats.registry import block_format
from hwgen.models.files.gguf_blocks import TYPES, i2_s
from hwgen.models.files.store import DESCRIPTION, WEIGHTS, Model
from hwgen.models.graph.decoder_shape import neighbours
from hwgen.models.graph.passes import kv_bits, passes_of, speeds
from hwgen.models.graph.work import kv_elements, work_of
from hwgen.models.import_model import import_model
from hwgen.models.run.group_weights import misfit
from hwgen.reports.roofline import number
from hwgen.technologies import devices
from sim_tests.models.fuzz_models import campaign
from sim_tests.models.model_files import Ggml, Small, random_blocks, write_gguf
from sim_tests.support.selection import commit_seed

WIDE = replace(Small(), width=256, hidden=256)  # for blocks of 256
BLOCKS = [t.name for t in TYPES.values() if t.unpack is not None]


def imported(directory: Path, small: Small, **options: Any) -> tuple[Model, dict[str, Any]]:
    path = directory / "small.gguf"
    expected = write_gguf(path, small)
    model = directory / "model"
    model.mkdir()
    import_model(path, model, **options)
    return Model(model), expected


@pytest.mark.parametrize("name", BLOCKS)
def test_all_codes_of_a_type_are_what_the_gguf_package_reads(name: str) -> None:
    rng = np.random.default_rng(3)
    weight_type = Ggml[name]
    rows = random_blocks(weight_type, (64, 512), rng)
    # Scales of every size, signs included; NaNs and infinities are refused by the import.
    random = rng.integers(0, 256, rows.shape, np.uint8)
    mine = next(t for t in TYPES.values() if t.name == name)
    for data in (rows, random):
        with np.errstate(all="ignore"):
            expected = gguf.quants.dequantize(data, weight_type)
        result = mine.rows(data).numbers()  # type: ignore[union-attr]
        np.testing.assert_array_equal(result, expected)
        usual = np.isfinite(expected)
        np.testing.assert_array_equal(
            result[usual].view(np.uint32), expected[usual].view(np.uint32)
        )


def test_scales_of_tensors_are_read(tmp_path: Path) -> None:
    """NVFP4 has a scale in single precision beside each tensor."""
    model, expected = imported(tmp_path, replace(WIDE, weight_type=Ggml.NVFP4, tensor_scale=0.37))
    for name, tensor in (("layers.0.value", "blk.0.attn_v"), ("layers.1.up", "blk.1.ffn_up")):
        np.testing.assert_allclose(model.numbers(name), expected[f"{tensor}.weight"], rtol=1e-6)
        groups = model.groups(name)
        assert groups is not None
        assert np.float32(groups.tensor_scale) == np.float32(0.37)
        assert not misfit(block_format("nvfp4"), groups)
        assert "blocks of 32" in misfit(block_format("mxfp4"), groups)


@pytest.mark.parametrize("weight_type", [t.name for t in TYPES.values()])
def test_models_of_every_type_are_what_the_gguf_package_reads(
    weight_type: str, tmp_path: Path
) -> None:
    wide = TYPES[Ggml[weight_type].value].elements > 32
    model, expected = imported(
        tmp_path, replace(WIDE if wide else Small(), weight_type=Ggml[weight_type])
    )
    pairs = {"layers.0.query": "blk.0.attn_q", "layers.1.down": "blk.1.ffn_down",
             "layers.1.key": "blk.1.attn_k", "embedding": "token_embd",
             "layers.0.feed_norm": "blk.0.ffn_norm"}  # fmt: skip
    for name, tensor in pairs.items():
        np.testing.assert_array_equal(model.numbers(name), expected[f"{tensor}.weight"])
    origin = model.description.tensors["layers.0.up"]
    assert origin.origin == weight_type
    assert (origin.group is None) == (TYPES[Ggml[weight_type].value].unpack is None)


def test_a_bitnet_decoder_rotates_neighbours_and_normalises_attention_and_gate(
    tmp_path: Path,
) -> None:
    small = replace(
        WIDE,
        architecture="bitnet-b1.58",
        weight_type=Ggml.TQ1_0,
        embedding=Ggml.F16,
        sub_norms=True,
    )
    model, expected = imported(tmp_path, small)
    order = neighbours(256, 64)
    assert order[:4] == [0, 32, 1, 33]
    np.testing.assert_array_equal(
        model.numbers("layers.1.query"), expected["blk.1.attn_q.weight"][order]
    )
    np.testing.assert_array_equal(model.numbers("layers.1.value"), expected["blk.1.attn_v.weight"])
    operations = [node.operation for node in model.description.nodes if node.layer == 0]
    assert operations == [
        "rms_norm", "gemm", "gemm", "gemm", "rope", "rope", "attention", "rms_norm", "gemm", "add",
        "rms_norm", "gemm", "gemm", "gated", "rms_norm", "gemm", "add",
    ]  # fmt: skip
    gates = {n.attributes["gate"] for n in model.description.nodes if n.operation == "gated"}
    assert gates == {"relu2"}
    groups = model.groups("layers.0.up")
    assert groups is not None
    assert set(np.unique(groups.values)) == {-1, 0, 1}


def test_biases_are_added_and_permuted_with_their_rows(tmp_path: Path) -> None:
    model, expected = imported(tmp_path, replace(Small(), architecture="qwen2", bias=True))
    order = neighbours(32, 16)
    np.testing.assert_array_equal(
        model.numbers("layers.1.key.bias"), expected["blk.1.attn_k.bias"][order]
    )
    node = next(n for n in model.description.nodes if n.name == "layers.1.key")
    assert node.inputs["bias"] == "layers.1.key.bias"


def test_the_work_of_a_model_is_that_of_its_sizes(tmp_path: Path) -> None:
    model, _ = imported(tmp_path, Small())
    network = work_of(model.description, tokens=1, context=9)
    layer = 64 * 64 * 2 + 32 * 64 * 2 + 3 * 64 * 96
    assert network.macs == 2 * layer + 272 * 64
    assert network.attention_macs == 2 * 2 * 10 * 64
    assert kv_elements(model.description) == 2 * 2 * 32
    assert network.kv_moved == 10 * kv_elements(model.description)
    prompt = work_of(model.description, tokens=5)
    assert prompt.macs == 5 * 2 * layer + 272 * 64  # logits of the last token only


@pytest.mark.parametrize(("layout", "count"), [("x86", 128), ("arm", 64)])
def test_i2_s_is_read_in_the_order_that_is_named(layout: str, count: int) -> None:
    rng = np.random.default_rng(0)
    wanted = rng.integers(-1, 2, 1024).astype(np.int8)
    packed = bytearray(256)
    for place, value in enumerate(wanted):
        group, at = divmod(place, count)
        quarter, byte = divmod(at, count // 4)
        packed[group * count // 4 + byte] |= (int(value) + 1) << (6 - 2 * quarter)
    np.testing.assert_array_equal(i2_s(np.frombuffer(bytes(packed), np.uint8), layout), wanted)


def patched(data: bytes, name: str, change: Any) -> bytes:
    """Return a file with another type or offset in a tensor's entry; `change` takes its place."""
    at = data.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name)
    dims = struct.unpack_from("<I", data, at)[0]
    out = bytearray(data)
    change(out, at + 4 + 8 * dims)
    return bytes(out)


def refused(tmp_path: Path, data: bytes, **options: Any) -> str:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        import_model(path, tmp_path, **options)
    return str(caught.value)


def test_i2_s_is_refused_unless_its_layout_is_named(tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    write_gguf(path, replace(Small(), weight_type=Ggml.F32))
    name = "blk.0.ffn_up.weight"
    bad = patched(path.read_bytes(), name, lambda out, at: struct.pack_into("<I", out, at, 36))
    text = refused(tmp_path, bad)
    assert f"{name}: I2_S names several layouts" in text
    assert "--i2s-layout" in text
    # The tensor's floats are now read as codes, three quarters of which are ternary.
    assert "holds the code 3" in refused(tmp_path, bad, i2s_layout="x86")


def test_everything_that_is_not_supported_is_listed_at_once(tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    write_gguf(path, Small())
    data = path.read_bytes()
    for name, code in (("blk.0.ffn_up.weight", 16), ("blk.1.attn_k.weight", 99)):
        data = patched(data, name, lambda out, at, c=code: struct.pack_into("<I", out, at, c))
    data = data.replace(b"blk.1.ffn_norm.weight", b"blk.1.ffn_nerd.weight")
    text = refused(tmp_path, data)
    assert "blk.0.ffn_up.weight: the type IQ2_XXS is not read" in text
    assert "blk.1.attn_k.weight: the type number 99 is not read" in text
    assert "blk.1.ffn_nerd.weight: no operation takes this tensor" in text
    assert "the tensor of layers.1.feed_norm is missing" in text


def test_a_type_that_is_not_read_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    write_gguf(path, Small())
    data = path.read_bytes()
    names = [
        f"blk.{layer}.ffn_{part}.weight" for layer in (0, 1) for part in ("gate", "up", "down")
    ]
    for name in names:
        data = patched(data, name, lambda out, at: struct.pack_into("<I", out, at, 19))
    text = refused(tmp_path, data)
    assert text.count("IQ1_S") == 1
    assert "and 5 more: the type IQ1_S is not read; supported are BF16" in text


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"llama.rope.scaling.type": "dynamic"}, "'dynamic': supported are none, linear, yarn"),
        ({"llama.rope.scaling.type": "yarn"}, "the metadata lack llama.rope.scaling.factor"),
        ({"llama.rope.dimension_count": 7}, "rotation of 7 of 16 elements of a head"),
        ({"llama.rope.freq_base": 0.5}, "rope.freq_base: must be above 1, not 0.5"),
        ({"llama.expert_count": 8}, "use a dense model"),
        ({"llama.attention.value_length": 8}, "values have 8 elements a head, keys 16"),
    ],
)
def test_metadata_that_are_not_supported_are_named(
    more: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = tmp_path / "small.gguf"
    write_gguf(path, replace(Small(), more=more))
    assert words in refused(tmp_path, path.read_bytes())


def test_tensors_beyond_the_file_or_upon_each_other_are_named(tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    write_gguf(path, Small())
    data = path.read_bytes()
    name = "blk.1.ffn_down.weight"
    far = patched(data, name, lambda out, at: struct.pack_into("<Q", out, at + 4, 1 << 40))
    text = refused(tmp_path, far)
    assert f"tensor '{name}': takes 3840 bytes from byte" in text
    assert "but the file ends at" in text
    same = patched(data, name, lambda out, at: struct.pack_into("<Q", out, at + 4, 0))
    assert "share bytes" in refused(tmp_path, same)


def test_a_scale_that_is_no_number_is_named_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    write_gguf(path, Small())
    reader = gguf.GGUFReader(path)
    tensor = next(t for t in reader.tensors if t.name == "blk.0.attn_v.weight")
    data = bytearray(path.read_bytes())
    at = tensor.data_offset + 40 * 3 + 20  # the second block of the fourth row
    data[at : at + 2] = b"\x00\x7e"
    text = refused(tmp_path, bytes(data))
    assert "tensor 'blk.0.attn_v.weight': scale 1 of row 3 is nan" in text
    assert f"byte {tensor.data_offset + 120}" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d[:20], "20 bytes, in its header; the file is incomplete: fetch it again"),
        (lambda d: b"NO" + d[2:20], "no model that is read"),
        (lambda d: b"GGML" + d[4:], "no model that is read"),
        (lambda d: d[:4] + b"\0\0\0\3" + d[8:], "big-endian"),
        (lambda d: d[:8] + struct.pack("<Q", 1 << 60) + d[16:], "must be at most"),
        (lambda d: d[:24] + struct.pack("<Q", 1 << 60) + d[32:], "more than 1024"),
        (lambda d: d[:200], "the file ends after"),
        (lambda d: d.replace(b"llama", b"gptj2"), "is not supported"),
        (lambda d: d[: len(d) // 2], "incomplete: fetch it again"),
    ],
)
def test_files_that_lie_are_refused(change: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    write_gguf(path, Small())
    assert words in refused(tmp_path, change(path.read_bytes()))


def test_the_command_says_what_it_read_and_ends_with_2_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.gguf"
    write_gguf(path, Small())
    arguments = ["model", "import", str(path), "--output", str(tmp_path / "out")]
    assert main([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["operations"]["gemm"] == 15
    assert result["macs_per_token"] == 78848
    assert main(arguments) == 0  # it may replace what it wrote
    assert "2 layers: 1 embed, 5 rms_norm" in capsys.readouterr().out
    path.write_bytes(b"GGUF")
    assert main(arguments) == 2
    assert (tmp_path / "out" / WEIGHTS).exists()
    assert main(["model", "import", str(tmp_path), "--output", str(tmp_path / "out")]) == 2


def test_a_description_that_was_changed_is_checked(tmp_path: Path) -> None:
    model, _ = imported(tmp_path, Small())
    path = model.path / DESCRIPTION
    document = json.loads(path.read_text())

    def problem(change: Any) -> str:
        changed = json.loads(json.dumps(document))
        change(changed)
        path.write_text(json.dumps(changed))
        with pytest.raises(InputError) as caught:
            Model(model.path)
        return str(caught.value)

    assert "hwgen_model must be 1" in problem(lambda d: d.update(hwgen_model=7))
    assert "nothing before it makes" in problem(lambda d: d["nodes"].reverse())
    assert "no operation is called 'conc'" in problem(
        lambda d: d["nodes"][1].update(operation="conc")
    )
    large = {"dtype": "int8", "shape": [1 << 20, 1 << 20], "offset": 0}
    text = problem(lambda d: d["tensors"].update(more={"values": large, "origin": "x", "bits": 8}))
    assert "takes 1099511627776 bytes" in text
    assert "do not fit" in problem(
        lambda d: d["tensors"]["layers.0.up"]["scales"].update(shape=[96, 5])
    )


CORE = """\
name: core
family: systolic
array: {rows: 4, cols: 4}
max_k: 128
target: {technology: nangate45, clock_mhz: 300, memory: {kind: lpddr4x}}
"""


def test_passes_are_those_of_the_model(tmp_path: Path) -> None:
    model, _ = imported(tmp_path, Small())
    result = passes_of(model.description, 7, 20)
    assert (result["prefill"].tokens, result["prefill"].context) == (7, 0)
    assert (result["decode"].tokens, result["decode"].context) == (1, 20)
    assert kv_bits(model.description) is None
    with pytest.raises(InputError, match="65 positions do not fit"):
        passes_of(model.description, 7, 64)
    metrics = {"latency_ms(decode)": 2.0, "energy_mj(decode)": 5.0, "latency_ms(prefill)": None}
    entry = {"metrics": {**metrics, "power_w": 2.5}, "memories_w": 0.5, "roofline": None}
    fast = speeds(entry, result)
    assert fast["decode"]["tokens_per_s"] == 500
    assert fast["decode"]["j_per_token"] == 0.005
    assert fast["decode"]["joules"] == {"core": 0.004, "memories": 0.001, "off_chip": None}
    assert fast["prefill"]["tokens_per_s"] is None


def estimating(directory: Path) -> tuple[list[str], Path]:
    """Return the arguments that estimate a small model on `CORE`, and the configuration."""
    model, _ = imported(directory, Small())
    config = directory / "core.yaml"
    config.write_text(CORE)
    named = ["--config", str(config), "--prompt", "5"]
    return ["model", "estimate", str(model.path), *named], config


def test_the_estimate_of_a_model_is_that_of_its_products(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, config = estimating(tmp_path)
    assert main([*arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    layers = result["estimate"]["roofline"]["workloads"]["decode"]["layers"]
    assert {layer["name"]: layer["size"] for layer in layers}["down"] == [1, 96, 64]
    cycles = result["estimate"]["metrics"]["cycles(decode)"]
    decode = result["passes"]["decode"]
    assert decode["ms"] >= cycles / 300e3
    assert decode["tokens_per_s"] == pytest.approx(1e3 / decode["ms"])
    assert 0 < decode["floor_share"] <= 1
    assert main(arguments) == 0
    assert "time to the first token" in capsys.readouterr().out
    config.write_text(CORE.replace("max_k: 128", "max_k: 64"))
    assert main(arguments) == 2
    assert "must be 96 or more for this model, not 64" in capsys.readouterr().err
    assert main([*arguments, "--context", "64"]) == 2


def test_estimates_for_several_targets_stand_in_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, _ = estimating(tmp_path)
    memory, targets = ["--memory", "ddr4"], ["--target", "nangate45", "--target", "ecp5"]
    assert main([*arguments, *memory, *targets, "--json"]) == 0
    cells, fabric = json.loads(capsys.readouterr().out)["targets"]
    assert cells["estimate"]["technology"] == "nangate45"
    assert fabric["estimate"]["metrics"]["luts"] > 0
    metrics, decode = cells["estimate"]["metrics"], cells["passes"]["decode"]
    assert decode["j_per_token"] == metrics["j_per_token(decode)"]
    assert decode["j_per_token"] > metrics["energy_mj(decode)"] * 1e-3  # the memory's is added
    assert sum(decode["joules"].values()) == pytest.approx(decode["j_per_token"])
    assert decode["joules"]["off_chip"] > 0
    assert main([*arguments, *memory, *targets]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert {"target", "nangate45", "ecp5"} <= set(rows)
    assert main([*arguments, "--target", "nangate46"]) == 2
    assert "no technology or device is called 'nangate46'" in capsys.readouterr().err


def test_several_designs_stand_in_one_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row each, with the figures of each alone."""
    arguments, config = estimating(tmp_path)
    other = tmp_path / "other.yaml"
    other.write_text(config.read_text().replace("name: ", "name: other_"))
    several = [*arguments, "--config", str(other), "--memory", "ddr4"]
    assert main([*several, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["designs"]
    assert main([*arguments, "--memory", "ddr4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first
    assert second["estimate"]["name"] == f"other_{first['estimate']['name']}"
    assert second["passes"] == first["passes"]
    assert main(several) == 0
    shown = capsys.readouterr().out
    rows = [line.split()[0] for line in shown.splitlines() if line.strip()]
    assert {"design", config.name, other.name} <= set(rows)
    assert "J/token is of the core, memories on the chip, and the memory" in " ".join(shown.split())
    assert main([*several, "--report", str(tmp_path / "x.md")]) == 2
    assert "--report is of one --config, not 2" in capsys.readouterr().err


def test_the_energy_of_a_token_has_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, config = estimating(tmp_path)
    without = CORE.replace(", memory: {kind: lpddr4x}", "")
    for text, end in ((CORE, r"[\d.e-]+"), (without, "not included, as none is named")):
        config.write_text(text)
        assert main(arguments) == 0
        shown = capsys.readouterr().out
        number = r"[\d.e-]+"
        parts = rf"core {number}, memories on the chip {number}, memory behind the ports {end}$"
        assert len(re.findall(rf"^\w+: {number} J/token: {parts}", shown, re.M)) == 2


def test_every_device_is_a_target_and_an_unknown_clock_is_never_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # no cell of the table is wrapped
    arguments, config = estimating(tmp_path)
    named = [text for name in devices() for text in ("--target", name)]
    assert main([*arguments, *named, "--json"]) == 0
    entries = [each["estimate"] for each in json.loads(capsys.readouterr().out)["targets"]]
    assert [entry["device"]["name"] for entry in entries] == list(devices())
    for name in devices():
        assert main(["estimate", "--config", str(config), "--target", name, "--json"]) == 0
        entries.append(json.loads(capsys.readouterr().out))
    unknown = [entry for entry in entries if entry["metrics"]["fmax_mhz"] is None]
    assert 0 < len(unknown) < len(entries)
    for entry in entries:
        known = entry["metrics"]["fmax_mhz"] is not None
        assert (entry["meets_clock"] is not None) == known, entry["device"]["name"]
        assert (entry["clock_basis"] != "assumed") == known
    assert main([*arguments, *named]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if ", Fmax unknown" in line]
    assert len(rows) == len(unknown) / 2


def test_the_report_of_a_model_has_its_passes_and_their_rooflines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, _ = estimating(tmp_path)
    sheet = tmp_path / "sheet.md"
    written = [*arguments, "--memory", "ddr4", "--report", str(sheet)]
    assert main([*written, "--target", "asap7", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    text = sheet.read_text()
    passes = text[text.index("## Model") : text.index("## Speed")]
    assert number(result["passes"]["decode"]["tokens_per_s"]) in passes
    assert "Time to the first token" in passes
    assert "asap7, 300 MHz" in text
    for name in ("prefill", "decode"):
        layers = result["estimate"]["roofline"]["workloads"][name]["layers"]
        drawn = (tmp_path / f"sheet.{name}.svg").read_text()
        for layer in layers:
            assert (f"<title>{layer['name']}: " in drawn) == (layer["tops"] is not None)
    assert main(written) == 2  # it is there
    assert main([*written, "--force"]) == 0
    assert main([*arguments, "--report", str(tmp_path / "sheet.pdf")]) == 2
    assert main([*written, "--target", "ecp5", "--target", "asap7"]) == 2
    assert main([*arguments, "--force"]) == 2


def test_figures_are_at_the_clock_that_is_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, _ = estimating(tmp_path)
    assert main([*arguments, "--clock-mhz", "5000", "--json"]) == 0
    met = json.loads(capsys.readouterr().out)["estimate"]["figures_at_mhz"]
    assert met < 5000
    assert main([*arguments, "--clock-mhz", "5000"]) == 0
    assert f"at {met:.4g} MHz" in capsys.readouterr().out


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    counts = campaign(tmp_path, files=150, seed=commit_seed())
    assert sum(counts.values()) == 150
    assert counts["refused"] > 50
