# SPDX-License-Identifier: Apache-2.0
"""Which tests run: configurations of a covering set, slices of the long tests, allowed skips."""

from __future__ import annotations

import itertools
import re
import subprocess
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from allpairspy import AllPairs

from sim_tests.support.paths import ROOT

SLICES = 20
"""Parts of the long tests.  Every commit begins with the next, so 20 commits begin with all."""

COSTLY = 3
"""Commits of which one simulates a costly configuration of a covering set."""

OVER = "not begun: the time for this slice was over"
"""Reason of tests that come up in another commit's slice."""

ALLOWED_SKIPS = (
    re.escape(OVER),
    # What depends on who runs the tests and where, and cannot be installed.
    r"root reads every file",
    r"cocotb's runner cannot compile where a path has a space",
    r"the interpreter is not a shared library",
    r"this processor has no fused multiplications",
    # Place and route of further families: extras of their own, 33 to 172 MB each.
    r"pip install 'hwgen\[(nexus|machxo2|gowin|gatemate)\]'",
    # Published models, fetched on demand: up to 93 MB, and calibrated for minutes.
    r"`make demo-(llm` has not run|onnx` fetches it)",
    # Liberty files are other people's and not in any package.
    r"HWGEN_PDK_DIR",
    # There are wheels for Linux on x86-64 up to Python 3.13 only.
    r"could not import 'pylibfst'",
)
"""Reasons, as regular expressions, for which a test may be skipped in continuous integration."""


ROTATING: Mapping[str, tuple[int, str]] = {
    # Pages of the documentation; those that a commit changes are always among them.
    "test_docs.py::test_commands_of_a_page": (6, ""),
    # Formats in blocks, and floating point in lookup tables.
    "test_fast.py::test_shipped_configurations": (4, ""),
    "test_spatial_blocks.py::test_shipped_configurations": (4, ""),
    "test_spatial_blocks.py::test_emitted_verilog_is_clean": (4, ""),
    "test_spatial_bit_serial.py::test_covering_set": (4, ""),
    "test_spatial_scalable.py::test_covering_set": (4, ""),
    "test_spatial_scalable.py::test_formats_follow_one_another_on_the_same_hardware": (4, ""),
    "test_block_engines.py::test_covering_set": (12, ""),
    "test_systolic_blocks.py::test_covering_set": (9, ""),
    "test_stream_engine.py::test_rows_in_pages": (3, ""),
    "test_systolic_blocks.py::test_cycles_are_those_of_the_hardware": (3, ""),
    "test_ternary_lut.py::test_shipped_configurations": (3, "fp16"),
    # The largest tables: groups of seven.
    "test_ternary_lut.py::test_a_table_costs_one_adder_an_entry": (3, "^7$"),
    "test_ternary_lut_aligned.py::test_covering_set": (3, ""),
    "test_ternary_lut_aligned.py::test_large_tables": (2, ""),
    "test_ternary_lut_aligned.py::test_scaled_to_float": (3, ""),
    "test_ternary_lut_float.py::test_covering_set": (2, ""),
    "test_ternary_lut_float.py::test_a_table_costs_one_adder_an_entry": (3, ""),
    "test_ternary_lut_bit_planes.py::test_adders_of_a_table": (3, ""),
    # Blocks by themselves.
    "test_float.py::test_adder": (2, ""),
    "test_float.py::test_pipelined_adder": (4, ""),
    "test_float.py::test_enabled_adder": (2, ""),
    "test_float.py::test_multiplier": (2, ""),
    "test_float.py::test_pipelined_multiplier": (3, ""),
    "test_float.py::test_widening": (3, ""),
    "test_function_blocks.py::test_every_16_bit_floating_point_input": (4, ""),
    "test_function_blocks.py::test_every_fixed_point_input": (4, ""),
    "test_function_blocks.py::test_corners_and_samples_of_wide_inputs": (3, ""),
    "test_qor.py::test_published_datapath_accumulates_products": (4, ""),
    # Structures, estimates and synthesis.
    "test_structure.py::test_every_shipped_configuration_has_a_structure": (4, ""),
    "test_fabric_structure.py::test_every_family_has_resources": (4, ""),
    "test_fabric_structure.py::test_nothing_is_null_without_a_reason": (3, ""),
    "test_timing_graph.py::test_the_limiting_path_of_a_core_is_in_its_verilog": (4, ""),
    "test_component_counts.py::test_bills_count_what_netlists_have": (4, ""),
    "test_component_counts.py::test_estimates_of_an_fpga_are_what_is_mapped": (2, ""),
    "test_synth.py::test_fpga_families": (3, ""),
    "test_macros.py::test_designs_with_macros_do_what_they_did": (2, ""),
    "test_synth.py::test_place_and_route": (2, ""),
    "test_synth.py::test_standard_cells_with_the_best_recipe": (3, ""),
    "test_standard_cells.py::test_a_small_array_maps": (3, ""),
    "test_macros.py::test_synthesis_with_and_without_macros": (2, ""),
    "test_power.py::test_power_at_work": (3, ""),
    "test_power.py::test_a_wrong_netlist_is_noticed": (3, ""),
    "test_closed_forms.py::test_closed_forms_are_near_the_structure": (4, ""),
    "test_closed_forms.py::test_a_wrong_closed_form_is_noticed": (4, ""),
    "test_external_technology.py::test_the_commands_of_the_page": (4, ""),
    "test_timing_graph.py::test_the_table_of_a_technology_says_how_wrong_it_is_elsewhere": (4, ""),
    "test_ternary_lut_choice.py::test_what_is_chosen_meets_its_clock_by_the_estimate": (3, ""),
    "test_certainty.py::test_every_shipped_configuration_says_what_its_figures_are": (3, ""),
    # Commands, and what draws or tries everything.
    "test_cli.py::test_the_matrix_of_features_is_found_by_trying": (4, ""),
    "test_report.py::test_engines_have_registers": (3, ""),
    "test_sweep_fuzz.py::test_a_sweep_runs_or_is_refused": (2, ""),
    "test_sweep_interruption.py::test_a_killed_sweep_resumes_to_the_same_bytes": (2, ""),
    "test_sweep_interruption.py::test_a_cluster_whose_worker_dies": (2, ""),
    "test_sweep_interruption.py::test_a_worker_that_is_killed_is_named": (2, ""),
    "test_cache.py::test_a_damaged_object_of_the_shared_library": (3, ""),
    "test_toolchain.py::test_the_runtime_library_is_compiled_once": (3, ""),
    "test_toolchain.py::test_the_runner_itself_can_compile": (3, ""),
    "test_toolchain.py::test_verilator_compiles_and_runs": (3, ""),
    "test_cache.py::test_build_and_run_without_a_home": (2, ""),
    "test_training.py::test_training_learns_and_says_what_it_did": (3, ""),
    "test_training.py::test_the_file_is_the_trained_network": (3, ""),
    "test_training.py::test_what_cannot_be_trained_or_written_is_refused": (3, ""),
    "test_training.py::test_tokens_are_those_of_the_library_that_made_them": (3, ""),
    "test_external_family.py::test_its_whole_regression_passes": (2, ""),
    "test_emitted_files.py::test_fusesoc_sets_up_every_target": (2, ""),
    "test_ipxact.py::test_every_port_is_in_one_bus": (2, ""),
    "test_waves.py::test_sim_writes_fst": (2, ""),
    "test_demo.py::test_an_engine_does_the_whole_inference": (2, ""),
    "test_demo.py::test_the_command_runs_engines": (2, ""),
    "test_waveforms.py::test_the_drawings_are_current": (2, ""),
    # Broken hardware.
    "test_float.py::test_mutation_is_noticed": (3, ""),
    "test_systolic_mutations.py::test_mutation_is_noticed": (3, ""),
    "test_planner.py::test_other_plans_are_noticed": (3, ""),
    "test_spatial_serial.py::test_mutation_is_noticed": (3, ""),
    "test_spatial.py::test_mutation_is_noticed": (3, ""),
    "test_ternary_lut.py::test_mutation_is_noticed": (3, ""),
    "test_ternary_lut_float.py::test_mutation_is_noticed": (3, ""),
    "test_vector.py::test_broken_hardware_is_noticed": (2, ""),
    # Wide ports, large designs.
    "test_attention.py::test_small_core": (3, ""),
    "test_gemm_stream.py::test_random_jobs_under_stalls": (3, ""),
    "test_gemm_stream.py::test_cycles_are_exact": (3, ""),
    "test_stream_post.py::test_regression": (2, ""),
    "test_transformer.py::test_random_lists": (2, ""),
    "test_systolic.py::test_steady_state": (2, ""),
    "test_ternary_lut.py::test_emission": (2, ""),
    "test_gemm_stream.py::test_cycles_and_traffic": (2, ""),
    "test_stream_post.py::test_core_and_engine_give_the_same": (2, ""),
    "test_model_jobs.py::test_hardware_does_the_jobs": (2, ""),
    "test_network_jobs.py::test_hardware_does_the_jobs": (2, ""),
    "test_axi.py::test_engines": (2, ""),
    "test_control.py::test_control": (3, ""),
    "test_fast.py::test_ports_of_thousands_of_bits": (3, ""),
    "test_module_limits.py::test_the_widest_cores_are_elaborated": (2, ""),
    "test_planner.py::test_the_driver_plans_as_python_does": (3, ""),
    "test_digits.py::test_encoders": (3, ""),
    "test_digits.py::test_sums_of_products": (2, ""),
    "test_verilator_sharing.py::test_code_is_shared": (3, ""),
}
"""Tests of whose cases `make test` runs one in so many, others for other commits; if a regular
expression is given, of the cases that it finds.  A test without cases runs for one commit in so
many.  The rest is ``long``: slices contain it."""


@cache
def commit_seed() -> int:
    """Return a number that every commit has another of, for what tests draw; 0 outside of git."""
    found = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return int(found.stdout.strip() or "0", 16) % 2**32


def changed_files() -> set[str]:
    """Return the files that differ from the commit before, relative to the project's root."""
    found = subprocess.run(
        ["git", "diff", "--name-only", "HEAD~1"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return set(found.stdout.split("\n")) - {""}


def not_drawn(
    names: Sequence[str],
    seed: int,
    changed: Collection[str] = (),
    rotating: Mapping[str, tuple[int, str]] = ROTATING,
) -> set[str]:
    """Return the tests that are not among those that a commit draws.

    Parameters
    ----------
    names : sequence of str
        Of tests, as pytest gives them: ``FOLDER/FILE::test[case]``.
    seed : int
        Of the commit.
    changed : collection of str
        Cases that are always drawn.
    rotating : mapping
        As `ROTATING`.
    """
    members: dict[str, list[tuple[str, str]]] = {}
    for name in names:
        path, _, case = name.partition("[")
        test, case = path.rpartition("/")[2], case.removesuffix("]")
        if test in rotating and re.search(rotating[test][1], case):
            members.setdefault(test, []).append((name, case))
    found: set[str] = set()
    for test, cases in members.items():
        every = rotating[test][0]
        # The same for all tests of a file, which may share what takes the time.
        turn = zlib.crc32(f"{seed} {test.partition('::')[0]}".encode()) % every
        found |= {
            name
            for i, (name, case) in enumerate(cases)
            if i % every != turn and case not in changed
        }
    return found


def may_be_skipped(reason: str) -> bool:
    """Return whether a test may be skipped for this reason where everything can be installed."""
    return any(re.search(pattern, reason) for pattern in ALLOWED_SKIPS)


def ordered(names: Sequence[str], number: int, seed: str) -> list[int]:
    """Return the order in which tests are run, until the time is over.

    Parameters
    ----------
    names : sequence of str
        Of all tests; the slice of each follows from its name alone.
    number : int
        Slice that comes first, modulo `SLICES`; the next ones follow.
    seed : str
        Orders the tests of a slice.
    """

    def rank(index: int) -> tuple[int, int]:
        part = (zlib.crc32(names[index].encode()) - number) % SLICES
        return part, zlib.crc32(f"{seed} {names[index]}".encode())

    return sorted(range(len(names)), key=rank)


def _first_legal(
    values: Sequence[Sequence[Any]], legal: Callable[[list[Any]], bool], begun: tuple[Any, ...] = ()
) -> list[Any] | None:
    """Return the first legal point of all combinations, None without one."""
    for value in values[len(begun)]:
        point = [*begun, value]
        if legal(point):
            found = point if len(point) == len(values) else _first_legal(values, legal, (*point,))
            if found is not None:
                return found
    return None


def missing_pairs(
    axes: Mapping[str, Sequence[Any]],
    points: Sequence[Sequence[Any]],
    legal: Callable[[list[Any]], bool] = lambda point: True,
) -> list[tuple[str, Any, str, Any]]:
    """Return the pairs of values of two axes that no point has, though a legal one could.

    Parameters
    ----------
    axes : mapping
        Values of each axis.
    points : sequence
        Of a covering set: a value of each axis.
    legal : callable
        Whether a point, or the beginning of one, may be.
    """
    missing = []
    names, values = list(axes), list(axes.values())
    for i, j in itertools.combinations(range(len(names)), 2):
        found = {(repr(point[i]), repr(point[j])) for point in points}
        for a, b in itertools.product(values[i], values[j]):
            if (repr(a), repr(b)) not in found:
                others = [*values]
                others[i], others[j] = [a], [b]
                if _first_legal(others, legal) is not None:
                    missing.append((names[i], a, names[j], b))
    return missing


def covering_points(
    axes: Mapping[str, Sequence[Any]], legal: Callable[[list[Any]], bool] = lambda point: True
) -> list[list[Any]]:
    """Return few points with every legal pair of values of two axes.

    Parameters
    ----------
    axes : mapping
        Values of each axis.
    legal : callable
        Whether a point, or the beginning of one, may be.
    """
    points = [list(point) for point in AllPairs(list(axes.values()), filter_func=legal)]
    # The search gives up on some pairs where not every point is legal.
    missing, places = missing_pairs(axes, points, legal), {name: i for i, name in enumerate(axes)}
    while missing:
        first, a, second, b = missing[0]
        chosen = {**axes, first: [a], second: [b]}
        point = _first_legal(list(chosen.values()), legal)
        assert point is not None
        points.append(point)
        missing = [
            (one, x, other, y)
            for one, x, other, y in missing
            if repr(point[places[one]]) != repr(x) or repr(point[places[other]]) != repr(y)
        ]
    return points


def covering_values(
    configs: Sequence[Any], values: Callable[[Any], Iterable[Any]], seed: int
) -> list[Any]:
    """Return few configurations, others for other seeds, that have every value that any has.

    Parameters
    ----------
    configs : sequence
    values : callable
        Gives the values that a configuration has.
    seed : int
    """
    left = sorted(configs, key=lambda config: zlib.crc32(f"{seed} {config}".encode()))
    missing = {value for config in configs for value in values(config)}
    found = []
    while missing:
        best = max(left, key=lambda config: len(missing & set(values(config))))
        missing -= set(values(best))
        left.remove(best)
        found.append(best)
    return found


def sampled(
    configs: Sequence[Any],
    every: int = 2,
    costly: Callable[[Any], bool] = lambda config: False,
    seed: int | None = None,
) -> list[Any]:
    """Return parameters of a test: one configuration of `every`, the others marked ``long``.

    Each commit draws others.  Of those that are `costly` only the first is simulated, for one
    commit in `COSTLY`.

    Parameters
    ----------
    configs : sequence
    every : int
    costly : callable
    seed : int, optional
        Default that of the commit.
    """
    turn, rest = divmod(commit_seed() if seed is None else seed, every)[::-1]
    chosen = [config for i, config in enumerate(configs) if i % every == turn]
    skipped = [config for config in chosen if costly(config)][1 if rest % COSTLY == 0 else 0 :]
    usual = {config.name for config in chosen} - {config.name for config in skipped}
    return [
        pytest.param(config, id=config.name, marks=[pytest.mark.long] * (config.name not in usual))
        for config in configs
    ]
