# SPDX-License-Identifier: Apache-2.0
"""Speed of a core with a memory at its ports, and the commands that report it."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cost_model.configurations.configurations import Configurations
from cost_model.estimate.estimate import estimate
from cost_model.roofline.roofline import _beats, extra_cycles, traffic, weight_bytes
from cost_model.sweep.fitted import Fitted
from flows.build.load import load_config, parse_config
from hwgen.cli import main
from hwgen.config.dotted import flattened
from hwgen.core.params.off_chip import OffChip, Ports
from hwgen.core.post import PostSettings
from hwgen.core.registry import core_of
from hwgen.errors import ConfigError
from hwgen.families.gemm_stream.schedule import Plan
from hwgen.technologies.off_chip import memory_types
from hwgen.workloads import Gemm, Network, load_workload, network_of
from sim_tests.support.cores import cycles_of
from sim_tests.support.cores import plan as gemm_plan
from sim_tests.support.designs import estimate_of
from sim_tests.support.paths import ROOT

CONFIGS = ROOT / "configs"

CORES = {
    path.stem: load_config(path)
    for path in sorted(CONFIGS.glob("*.yaml"))
    if load_config(path).ports and load_config(path).multiplies
}
ODD = """
name: a
family: {family}
array: {array}
"""
VARIANTS = [
    ("systolic", "{rows: 7, cols: 5}", "activation: int5\nweight: int3"),
    ("systolic", "{rows: 3, cols: 9, dataflow: weight_stationary, accumulator_depth: 4}", ""),
    (
        "systolic",
        "{rows: 3, cols: 9, dataflow: input_stationary, accumulator_depth: 4}",
        "weight: int3",
    ),
    ("cube", "{rows: 3, cols: 5, depth: 7}", "activation: int5\nweight: uint3"),
    ("adder_tree", "{cols: 5, depth: 3}", ""),
    ("broadcast_2d", "{rows: 5, cols: 3}", "weight: int9"),
    ("ternary_lut", "{group_size: 3, tables: 5, fetch_ports: 7, accumulator_depth: 3}", ""),
    ("ternary_lut", "{method: select, group_size: 1, tables: 5, fetch_ports: 7}", ""),
    ("ternary_lut", "{group_size: 2, tables: 3, fetch_ports: 5}", "weight: int3"),
]


evaluate = Fitted()


def configurations_of(config: Any) -> Configurations:
    """Return the one configuration."""
    return Configurations(config.family, flattened(config.resolved()))


def variants() -> list[Any]:
    texts = [ODD.format(family=name, array=array) + more for name, array, more in VARIANTS]
    return [*CORES.values(), *(parse_config(text) for text in texts)]


# -- bytes of ports ------------------------------------------------------------------------------


@pytest.mark.parametrize("config", variants(), ids=lambda config: f"{config.family}-{config.name}")
@pytest.mark.parametrize("size", [(1, 1, 1), (3, 40, 17), (10, 16, 33)], ids=str)
def test_traffic_is_that_of_the_beats(config: Any, size: tuple[int, int, int]) -> None:
    gemm = Gemm(*size)
    result = traffic(configurations_of(config), gemm)
    plan = gemm_plan(config, *size)
    ports = {port.name: port for port in config.ports}
    assert result["activations"] == plan.input_beats(ports["act"]) * ports["act"].beat_bytes
    assert result["weights"] == plan.input_beats(ports["wgt"]) * ports["wgt"].beat_bytes
    assert result["outputs"] == plan.output_beats * ports["out"].beat_bytes


def test_traffic_of_an_engine_is_that_of_its_plan() -> None:
    config: Any = load_config(CONFIGS / "gemm_stream.yaml")
    gemm = Gemm(20, 300, 50)
    plan = Plan(config, *gemm)
    assert traffic(configurations_of(config), gemm) == {"memory port": plan.traffic.total}
    assert weight_bytes(configurations_of(config), gemm) == 300 * 50
    assert extra_cycles(configurations_of(config), gemm) == pytest.approx(cycles_of(config, [gemm]))


@pytest.mark.parametrize("settings", ["output: int8", "output: int8\nscale: 0.5\nbias: 3"])
def test_an_estimate_has_the_post_processing_of_a_run(
    settings: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "post.yaml").write_text(settings, encoding="utf-8")
    path = CONFIGS / "gemm_stream.yaml"
    core, size = core_of(load_config(path)), (100, 64, 200)
    post = PostSettings("int8", columns="bias" in settings)
    plan, raw = core.schedule(core.gemm(*size, post)), core.schedule(core.gemm(*size))
    assert isinstance(plan, Plan)
    assert isinstance(raw, Plan)
    assert plan.traffic.total != raw.traffic.total
    assert main([
        "estimate", "--config", str(path), "--gemm", "100,64,200", "--memory", "ddr4", "--json",
        "--post", str(tmp_path / "post.yaml"),
    ]) == 0  # fmt: skip
    entry = json.loads(capsys.readouterr().out)
    name = "100x64x200"
    cycles = entry["metrics"][f"cycles({name})"]
    assert cycles == core.cycles([core.gemm(*size, post)]).number
    assert cycles != core.cycles([core.gemm(*size)]).number
    assert entry["certainty"][f"cycles({name})"]["basis"] == "exact"
    assert entry["memory"]["workloads"][name]["moved_bytes"] == plan.traffic.total
    (layer,) = entry["roofline"]["workloads"][name]["layers"]
    assert layer["bytes"] == {"memory port": plan.traffic.total}


def test_post_processing_of_an_estimate_is_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "post.yaml"
    file.write_text("output: int8\nscale: [1, 2]\n", encoding="utf-8")
    command = ["estimate", "--config", str(CONFIGS / "gemm_stream.yaml"), "--post", str(file)]
    assert main(command) == 2
    assert "--post: belongs to products" in capsys.readouterr().err
    assert main([*command, "--gemm", "3,4,5"]) == 2
    assert "scale: must be a number or 5" in capsys.readouterr().err


def test_weights_are_as_dense_as_the_port_has_them() -> None:
    gemm = Gemm(1, 60, 10)
    for group, bits in ((1, 2), (2, 4), (5, 8)):
        text = f"{{group_size: {group}, tables: 2, fetch_ports: 4}}"
        core = parse_config(ODD.format(family="ternary_lut", array=text))
        assert weight_bytes(configurations_of(core), gemm) == pytest.approx(600 * bits / group / 8)
    four = parse_config("name: a\nfamily: systolic\nweight: int4\n")
    assert weight_bytes(configurations_of(four), gemm) == 300


# -- time ----------------------------------------------------------------------------------------

SYSTOLIC = """
name: a
family: systolic
array: {rows: 8, cols: 4, dataflow: weight_stationary}
target: {technology: nangate45, clock_mhz: 100, memory: %s}
"""
NETWORK = network_of([(2, 64, 40)] * 3 + [(500, 8, 4)])


def one(config: Any, network: Network, **options: Any) -> dict[str, Any]:
    metrics: dict[str, Any] = estimate_of(config, workloads={"w": network}, **options)["metrics"]
    return {name.removesuffix("(w)"): value for name, value in metrics.items()}


def test_the_time_by_hand() -> None:
    result = one(parse_config(SYSTOLIC % "{gb_s: 0.5, efficiency: 0.8, pj_per_bit: 10}"), NETWORK)
    plain = one(parse_config(SYSTOLIC % "{}"), NETWORK)
    # The first: 8 x 10 passes of 8 beats of 4 weights of 8 bits, and so many cycles, at 0.4 GB/s
    # 4 bytes take 10 ns, a cycle at 100 MHz: the memory just keeps up.
    assert result["latency_ms"] == pytest.approx(plain["latency_ms"])
    slow = one(parse_config(SYSTOLIC % "{gb_s: 0.5, efficiency: 0.4, pj_per_bit: 10}"), NETWORK)
    # Half of that: each of the three products takes its 640 cycles once more. The last product
    # moves 32 bytes in 500 cycles and is not limited.
    assert slow["latency_ms"] == pytest.approx(plain["latency_ms"] + 3 * 640 / 100e3)
    moved = 3 * 64 * 40 + 32
    assert slow["gb_s_used"] == pytest.approx(moved / slow["latency_ms"] * 1e-6)
    assert slow["gb_s_needed"] == pytest.approx(moved / plain["latency_ms"] * 1e-6)
    assert slow["ops_per_byte"] == pytest.approx(2 * (3 * 2 * 64 * 40 + 500 * 32) / moved)
    assert slow["floor_share"] == pytest.approx(moved / 0.2e6 / slow["latency_ms"])
    assert slow["energy_mj"] == pytest.approx(slow["latency_ms"] * slow["power_w"])
    assert "tokens_per_s" not in slow
    assert slow["cycles"] == plain["cycles"]


def test_keys_and_values_take_time() -> None:
    network = load_workload("bitnet_2b4t_decode")[1]
    core = load_config(CONFIGS / "lut_core.yaml")
    behind = OffChip(kind="lpddr4x", gb_s=17, efficiency=0.85)
    result = one(core, network, off_chip=behind)
    moved = network.weights * 2 / 8 + network.kv_moved  # two bits a weight, int8 activations
    assert result["latency_ms"] == pytest.approx(moved / 14.45e6, rel=0.001)
    assert result["floor_share"] == pytest.approx(1, rel=0.001)
    assert result["tokens_per_s"] == pytest.approx(1000 / result["latency_ms"])
    off_chip = moved * 8 * 7.4e-12
    assert result["j_per_token"] == pytest.approx(result["energy_mj"] * 1e-3 + off_chip)
    held = behind.model_copy(update={"ports": Ports(kv_cache="on_chip")})
    without = one(core, network, off_chip=held)
    assert without["gb_s_used"] * without["latency_ms"] == pytest.approx(network.weights / 4e6)
    twice = one(core, network.with_context(1025), off_chip=behind)
    cached = (twice["latency_ms"] - result["latency_ms"]) * 14.45e6
    assert cached == pytest.approx(network.kv_moved)


def test_ports_share_the_bandwidth() -> None:
    size = network_of([(64, 64, 64)])
    text = SYSTOLIC % "{gb_s: 0.1, ports: {weights: %s, activations: %s, outputs: %s}}"
    bytes_of = traffic(configurations_of(parse_config(SYSTOLIC % "{}")), Gemm(64, 64, 64))
    for chosen in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1), (0, 0, 0)):
        words = ("dram" if each else "on_chip" for each in chosen)
        core = parse_config(text % tuple(words))
        names = ("weights", "activations", "outputs")
        moved = sum(bytes_of[name] for name, each in zip(names, chosen, strict=True) if each)
        entry = estimate(core_of(core), workloads={"w": size})
        (layer,) = entry["roofline"]["workloads"]["w"]["layers"]
        assert layer["memory_ms"] == pytest.approx(moved / 0.1e6)
        assert set(layer["bytes"]) == {n for n, each in zip(names, chosen, strict=True) if each}
        slow = layer["memory_ms"] > layer["compute_ms"]
        assert layer["limit"].startswith("memory" if slow else "compute")
        intensity = entry["metrics"]["ops_per_byte(w)"]
        assert intensity == (pytest.approx(2 * 64**3 / moved) if moved else None)


@given(
    gb_s=st.floats(0.01, 1e5),
    share=st.floats(0.01, 1),
    rows=st.integers(1, 32),
    sizes=st.lists(st.tuples(*[st.integers(1, 200)] * 3), min_size=1, max_size=4),
    which=st.sampled_from(variants()),
)
def test_a_memory_makes_nothing_faster(
    gb_s: float, share: float, rows: int, sizes: list[tuple[int, int, int]], which: Any
) -> None:
    plain = flattened(which.resolved())
    numbers = np.array([gb_s, 10 * gb_s, 1e6])
    fixed = {**plain, "target.memory.efficiency": share}
    result = evaluate(
        which.family, fixed, {"target.memory.gb_s": numbers}, "nangate45", {"w": network_of(sizes)}
    )
    alone = evaluate(which.family, plain, {}, "nangate45", {"w": network_of(sizes)})
    base, times = alone["latency_ms(w)"], result["latency_ms(w)"]
    assert (times >= base * (1 - 1e-12)).all()
    assert times[0] >= times[1] >= times[2]
    assert times[2] == pytest.approx(base, rel=0.05)
    assert (result["floor_share(w)"] <= 1 + 1e-9).all()
    assert (result["gb_s_used(w)"] <= numbers * share * (1 + 1e-9)).all()


def test_without_limit_the_time_is_that_of_the_cycles() -> None:
    network = load_workload("gpt2_decode")[1]
    for config in variants():
        longest = max(gemm.k for gemm in network)
        if config.max_k < longest:
            continue
        plain = flattened(config.resolved())
        # As good as no limit: what is left is rounding.
        behind = {**plain, "target.memory.gb_s": 1e6, "target.memory.ports.kv_cache": "on_chip"}
        alone = evaluate(config.family, plain, {}, "nangate45", {"w": network})
        result = evaluate(config.family, behind, {}, "nangate45", {"w": network})
        assert result["latency_ms(w)"] == alone["latency_ms(w)"]


def test_many_points_are_as_each_alone() -> None:
    core = load_config(CONFIGS / "lut_core.yaml")
    fixed = flattened(core.resolved()) | {"target.memory.kind": "ddr4"}
    network = {"w": load_workload("gpt2_decode")[1]}
    varying = {
        "array.tables": np.array([4, 8, 16]),
        "array.fetch_ports": np.array([8, 64, 32]),
        "target.memory.gb_s": np.array([1.0, 12.8, 300.0]),
    }
    together = evaluate("ternary_lut", fixed, varying, "nangate45", network)
    assert together["valid"].all()
    for row in range(3):
        alone = {**fixed, **{name: values[row].item() for name, values in varying.items()}}
        single = evaluate("ternary_lut", alone, {}, "nangate45", network)
        for name, values in together.items():
            each = np.broadcast_to(values, (3,))[row]
            np.testing.assert_allclose(each, single[name], rtol=1e-12, err_msg=name)


def test_a_family_that_does_not_count_its_traffic(monkeypatch: pytest.MonkeyPatch) -> None:
    core = parse_config(SYSTOLIC % "{gb_s: 0.1}")
    monkeypatch.delattr("hwgen.families.systolic.schedule.Schedule.input_beats")
    _beats.cache_clear()
    unknown = estimate(core_of(core), workloads={"w": [(21, 30, 40)]})
    json.dumps(unknown, allow_nan=False)
    assert unknown["metrics"]["latency_ms(w)"] is None
    assert unknown["roofline"]["workloads"]["w"]["layers"][0]["limit"] == "unknown"


def test_engines_are_limited_by_their_port() -> None:
    config: Any = load_config(CONFIGS / "gemm_stream.yaml")
    network = network_of([(1, 512, 512), (256, 256, 256)])
    entry = estimate_of(config, workloads={"w": network}, off_chip=OffChip(gb_s=4.0))
    first, second = entry["roofline"]["workloads"]["w"]["layers"]
    assert first["limit"] == "memory: bandwidth"
    assert second["limit"] == "compute"
    moved = Plan(config, 1, 512, 512).traffic.total
    assert first["memory_ms"] == pytest.approx(moved / 4e6)
    plain = estimate_of(config, workloads={"w": network})["metrics"]["latency_ms(w)"]
    stall = first["memory_ms"] - first["compute_ms"]
    assert entry["metrics"]["latency_ms(w)"] == pytest.approx(plain + stall)
    assert entry["roofline"]["memory"]["ports"] == {"memory port": "dram", "kv_cache": "dram"}


# -- kinds of memory -----------------------------------------------------------------------------


def test_every_metric_of_a_memory_type_has_its_source() -> None:
    for name, kind in memory_types().items():
        assert all((kind.configuration, kind.energy_source, kind.efficiency_source)), name
        assert kind.peak_gb_s > 0
        assert 0 < kind.efficiency <= 1
        assert kind.energy_pj_per_bit is None or kind.energy_pj_per_bit > 0
    assert {"ddr4", "lpddr4x", "hbm2", "hbm2e", "hbm3", "gddr6"} < set(memory_types())


def test_the_energy_of_ddr4_follows_from_its_currents() -> None:
    # DDR4-2400 x8 of 8 Gbit at 1.2 V, currents in mA: activation and precharge of a row of 1 KiB,
    # and a burst of 8 in four cycles of the clock.
    idd0, idd2n, idd3n, idd4 = 60.0, 50.0, 55.0, 145.0
    row_ns, active_ns, cycle_ns = 46.16, 32.0, 0.833
    standby = idd3n * active_ns + idd2n * (row_ns - active_ns)
    activation = 1.2 * (idd0 * row_ns - standby) / 8192
    burst = 1.2 * idd4 * 4 * cycle_ns / 64
    result = memory_types()["ddr4"].energy_pj_per_bit
    assert result == pytest.approx(activation + burst, abs=5e-4)


def test_a_missing_energy_is_reported() -> None:
    core = load_config(CONFIGS / "lut_core.yaml")
    network = {"w": load_workload("bitnet_2b4t_decode")[1]}
    entry = estimate_of(core, workloads=network, off_chip=OffChip(kind="lpddr5"))
    assert entry["metrics"]["j_per_token(w)"] is None
    assert entry["metrics"]["tokens_per_s(w)"] > 0
    assert any("no public figure" in note and "pj_per_bit" in note for note in entry["notes"])
    known = estimate_of(core, workloads=network, off_chip=OffChip(kind="lpddr5", pj_per_bit=6))
    assert known["metrics"]["j_per_token(w)"] > 0
    assert not any("pj_per_bit" in note for note in known["notes"])


def test_a_name_is_a_kind_and_no_memory_changes_no_digest() -> None:
    short, long = (parse_config(SYSTOLIC % text) for text in ("ddr4", "{kind: ddr4}"))
    assert short == long
    assert short.target.memory.peak_gb_s == 19.2
    assert "memory" not in parse_config("name: a\nfamily: systolic\n").resolved()["target"]
    assert short.resolved()["target"]["memory"]["kind"] == "ddr4"
    assert math.isclose(OffChip(kind="hbm2", gb_s=100).share, 0.92)
    assert OffChip(gb_s=100).share == 1


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("lpddr9", "5:49: target.memory", "must be a kind of memory (ddr3, ddr4"),
        ("{kind: lpddr9}", "5:58: target.memory.kind", "(did you mean 'lpddr5'?)"),
        ("{gb_s: 0}", "5:58: target.memory.gb_s", "must be 0.001..1e+06, not 0"),
        ("{gb_s: -3}", "5:58: target.memory.gb_s", "must be 0.001..1e+06, not -3"),
        ("{gb_s: .nan}", "5:58: target.memory.gb_s", "must be a finite number, not .nan"),
        ("{kind: ddr4, efficiency: 0}", "target.memory.efficiency", "must be 0.001..1, not 0"),
        ("{kind: ddr4, efficiency: 1.5}", "target.memory.efficiency", "must be 0.001..1, not 1.5"),
        ("{efficiency: 0.5}", "target.memory.efficiency", "of which memory? give kind or gb_s"),
        ("{kind: ddr4, ports: {act: dram}}", "target.memory.ports.act", "legal here: weights"),
        ("{kind: ddr4, ports: {weights: rom}}", "target.memory.ports.weights", "dram or on_chip"),
        ("[ddr4]", "5:49: target.memory", "must hold parameters (kind, gb_s"),
    ],
)
def test_what_is_wrong_with_a_memory(
    text: str, position: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_config(SYSTOLIC % text)
    assert position in str(caught.value)
    assert message in str(caught.value)
    path = tmp_path / "core.yaml"
    path.write_text(SYSTOLIC % text)
    assert main(["estimate", "--config", str(path)]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


# -- the command ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--memory", "lpddr9"], "or pJ per bit, 0 or more, not 'lpddr9' (did you mean 'lpddr5'?)"),
        (["--memory", "-3"], "--memory: must be 0..1e+06, not -3.0"),
        (["--memory", "ddr4", "--gb-s", "0"], "--gb-s: must be 0.001..1e+06, not 0.0"),
        (["--gb-s", "nan"], "--gb-s: must be a finite number"),
        (["--gb-s", "fast"], "--gb-s: must be a number"),
        (["--memory", "ddr4", "--efficiency", "2"], "--efficiency: must be 0.001..1, not 2.0"),
        (["--efficiency", "0.5"], "--efficiency: of which memory? give kind or gb_s as well"),
    ],
)
def test_the_command_refuses(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(CONFIGS / "systolic.yaml")
    assert main(["estimate", "--config", path, *options]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_the_command_names_the_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    command = ["estimate", "--config", str(CONFIGS / "systolic_ws.yaml")]
    command += ["--workload", "gpt2_decode", "--context", "100"]
    assert main(command) == 0
    assert "every port is always served" in capsys.readouterr().out
    assert main([*command, "--memory", "ddr4", "--gb-s", "1"]) == 0
    shown = capsys.readouterr().out
    assert "behind ddr4, 0.75 GB/s (1 GB/s, 75 % achieved), 9.103 pJ a bit" in shown
    assert "memory: weights" in shown
    assert "memory: cached keys and values" in shown
    assert "of the bandwidth floor" in shown
    other = tmp_path / "other.yaml"
    other.write_text(SYSTOLIC % "hbm2")
    assert main([*command[:3], "--compare", str(other), "--gemm", "8,8,8"]) == 0
    shown = capsys.readouterr().out
    assert "a: behind hbm2" in shown
    assert "systolic_ws: No memory is named" in shown
    assert main([*command, "--memory", "ddr4", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)
    assert entry["roofline"]["memory"]["peak_gb_s"] == 19.2
    assert entry["certainty"]["latency_ms(gpt2_decode)"]["basis"] == "modelled"
    assert entry["certainty"]["ops_per_byte(gpt2_decode)"]["basis"] == "exact"


def test_the_page_has_the_memory_types() -> None:
    page = (ROOT / "docs" / "roofline.md").read_text()
    for name, kind in memory_types().items():
        energy = "-" if kind.energy_pj_per_bit is None else f"{kind.energy_pj_per_bit:g}"
        cells = (f"`{name}`", kind.configuration, f"{kind.peak_gb_s:g}", energy)
        assert f"| {' | '.join(cells)} | {kind.efficiency:g} |" in page
        assert (
            f"- `{name}`: energy: {kind.energy_source}; achieved: {kind.efficiency_source}." in page
        )


# -- sweeps --------------------------------------------------------------------------------------


@pytest.mark.rotate(16)
def test_the_shipped_sweep_of_decoding_at_a_small_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (CONFIGS / "sweeps" / "decode.yaml").read_text()
    small = text.replace("{from: 2, to: 32, step: 2}", "[4, 8]")
    small = small.replace("{from: 4, to: 64, step: 4}", "[8, 16]")
    assert small.count("[") == text.count("[") + 2
    Path("decode.yaml").write_text(small)
    assert main(["sweep", "--config", "decode.yaml", "--output", "out", "--jobs", "1"]) == 0
    with open("out/pareto.csv", newline="") as stream:
        front = list(csv.DictReader(stream))
    assert front
    for row in front:
        figures = {key: float(row[f"{key}(decode)"]) for key in ("tokens_per_s", "gb_s_needed")}
        assert figures["tokens_per_s"] >= 20
        assert figures["gb_s_needed"] <= 14.45
        assert float(row["area_mm2"]) <= 0.25
        # Each point is written as a configuration with its memory, and estimated alike.
        config = load_config(Path("out/configs") / row["config"])
        assert config.target.memory == OffChip(kind="lpddr4x", gb_s=17, efficiency=0.85)
        alone = one(config, load_workload("bitnet_2b4t_decode")[1])
        for metric in ("tokens_per_s", "j_per_token", "floor_share", "gb_s_used"):
            assert alone[metric] == pytest.approx(float(row[f"{metric}(decode)"]))


SWEEP = """\
name: s
family: systolic
parameters: {array: {rows: [4, 8]}}
targets: {memory: %s}
workloads: {w: %s}
objectives: {minimize: [area_mm2]}
"""


def test_sweeps_over_memories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    network = "{network: gpt2_decode, context: 64}"
    for memory, points in (("ddr4", 2), ("[ddr4, hbm2]", 4), ("{gb_s: [1, 10, 100]}", 6)):
        Path("s.yaml").write_text(SWEEP % (memory, network) + "keep: all\n")
        command = ["sweep", "--config", "s.yaml", "--output", "out", "--force", "--jobs", "1"]
        assert main(command) == 0
        result = parquet.read_table("out/results.parquet").to_pylist()
        assert len(result) == points
        assert all(row["tokens_per_s(w)"] > 0 for row in result)
    times = [row["latency_ms(w)"] for row in result if row["array.rows"] == 4]
    assert times == sorted(times, reverse=True)
    Path("s.yaml").write_text(SWEEP % ("{}", network) + "keep: all\n")
    assert main(["sweep", "--config", "s.yaml", "--output", "out", "--force", "--jobs", "1"]) == 0
    assert "tokens_per_s(w)" not in parquet.read_table("out/results.parquet").column_names


@pytest.mark.parametrize(
    ("memory", "network", "position", "message"),
    [
        ("lpddr9", "gpt2_decode", "4:11: targets.memory", "(did you mean 'lpddr5'?)"),
        ("[ddr4, lpddr9]", "gpt2_decode", "4:26: targets.memory.1", "(did you mean 'lpddr5'?)"),
        ("{gb_s: [0, 5]}", "gpt2_decode", "4:27: targets.memory.gb_s.0", "must be 0.001..1e+06"),
        ("{efficiency: 1.5}", "gpt2_decode", "targets.memory.efficiency", "must be 0.001..1"),
        ("{port: {}}", "gpt2_decode", "targets.memory.port", "has no parameter"),
        ("ddr4", "gpt2_decod", "5:13: workloads.w", "of a shipped workload (did you mean 'gpt2"),
        ("ddr4", "{network: gpt2_decode, context: -1}", "5:39:", "an integer in 0.."),
        ("ddr4", "{network: gpt2_decode, contexts: 1}", "5:39:", "did you mean 'context'?"),
        ("ddr4", "{tokens: 1, layers: [{k: 5}]}", "5:37: workloads.w.layers.0", "n missing"),
    ],
)
def test_errors_of_a_sweep_with_off_chip_memory(
    memory: str,
    network: str,
    position: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(SWEEP % (memory, network))
    assert main(["sweep", "--config", "s.yaml", "--output", "out"]) == 2
    said = capsys.readouterr().err.replace("\n", " ")
    assert position in said
    assert message in said
