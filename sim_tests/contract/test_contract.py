# SPDX-License-Identifier: Apache-2.0
"""Tests of all families, made from the data of their contracts; see `sim_tests.contract.contract`.

A test over all families belongs here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.build import timing
from flows.build.load import load_config, parse_config
from flows.simulation.contract import (
    check_jobs_together,
    check_packing,
    check_resolved,
    check_verilog,
)
from flows.simulation.run import run_product
from flows.simulation.runner import case_names
from hwgen.core.params.base import AUTO, FamilyConfig
from hwgen.core.registry import core_of, families, family
from hwgen.errors import ConfigError
from hwgen.formats import differences
from sim_tests.contract.contract import (
    Contract,
    Mutations,
    Regressions,
    Steady,
    contracts,
    describe,
    parameters,
)
from sim_tests.support.cores import cycles_of, golden
from sim_tests.support.designs import design_of
from sim_tests.support.mutations import Mutation
from sim_tests.support.paths import CONFIGS
from sim_tests.support.regression import assert_regression_passes

CONTRACTS = contracts()


def cases(make: Callable[[Contract], Iterable[Any]]) -> list[Any]:
    """Return the parameters that a function makes of every contract."""
    return list(chain.from_iterable(make(contract) for contract in CONTRACTS.values()))


# -- over all families -----------------------------------------------------------------------------

SMALL = {config.family: config for contract in CONTRACTS.values() for config in contract.small}
PRODUCTS = {name: config for name, config in SMALL.items() if config.multiplies}


def test_every_family_has_a_small_configuration() -> None:
    builtin = {
        name for name in families() if family(name).params_class.__module__.startswith("hwgen.")
    }
    assert SMALL.keys() == builtin


@pytest.mark.slow
@pytest.mark.parametrize("config", SMALL.values(), ids=SMALL)
@pytest.mark.rotate(12)
def test_reset_in_mid_stream(config: FamilyConfig, tmp_path: Path) -> None:
    """A reset at any time leaves nothing of the job that it interrupts."""
    names = [name for name in case_names(config, 0) if name.startswith("reset")]
    assert len(names) >= 2
    assert_regression_passes(config, tmp_path, names=names)


@pytest.mark.parametrize("config", SMALL.values(), ids=SMALL)
def test_a_resolved_configuration_is_the_same(config: FamilyConfig) -> None:
    """The simulator's process gets a configuration as its resolved parameters."""
    check_resolved(config, Path())


@pytest.mark.parametrize("config", PRODUCTS.values(), ids=PRODUCTS)
def test_jobs_together_take_no_longer(config: FamilyConfig) -> None:
    """A list of products never takes longer than the products one by one."""
    check_jobs_together(config, Path())


@pytest.mark.parametrize("config", PRODUCTS.values(), ids=PRODUCTS)
def test_packed_weights_are_read_back(config: FamilyConfig) -> None:
    check_packing(config, Path())


def with_auto(config: FamilyConfig, clock_mhz: float) -> str:
    """Return a configuration whose registers are all left to the generator, for a clock."""
    values = config.resolved()
    registers = dict.fromkeys(config.register_bounds(), AUTO)
    values["pipeline"] = {**values.get("pipeline", {}), **registers}
    values["target"] = {"clock_mhz": clock_mhz}
    return json.dumps(values)


REGISTERED = {name: config for name, config in SMALL.items() if config.register_bounds()}


def test_every_family_with_a_pipeline_chooses_registers() -> None:
    for config in SMALL.values():
        registers = config.resolved().get("pipeline", {})
        assert registers.keys() <= config.register_bounds().keys(), config.family


@pytest.mark.slow
@pytest.mark.rotate(12)
@pytest.mark.parametrize("config", REGISTERED.values(), ids=REGISTERED)
def test_registers_are_chosen_for_a_clock(config: FamilyConfig) -> None:
    """As few as a slow clock needs, and more for the highest clock that is offered."""
    least = {name: low for name, (low, _) in config.register_bounds().items()}
    slow = parse_config(with_auto(config, 1.0))
    assert dict(slow.pipeline).items() >= least.items()
    with pytest.raises(ConfigError, match="auto cannot reach") as refused:
        parse_config(with_auto(config, 5000.0))
    told = re.search(r"allows at most ([\d.]+)", str(refused.value))
    assert told
    highest = float(told[1])
    fast = parse_config(with_auto(config, highest))
    limit = timing.limit(core_of(fast))
    assert limit is not None
    assert limit.reliable_clock_mhz >= highest
    before = timing.limit(core_of(slow))
    assert before is not None
    assert limit.period_ns <= before.period_ns


# -- covering sets and regressions -----------------------------------------------------------------


@pytest.mark.parametrize("name", [c.name for c in CONTRACTS.values() if c.covering])
def test_covering_set_has_every_legal_pair(name: str) -> None:
    covering = CONTRACTS[name].covering
    assert covering is not None
    assert covering.missing_pairs() == []


def regressions(contract: Contract) -> Iterable[Any]:
    for number, group in enumerate(contract.all_regressions()):
        values = [(describe(config), (config, group)) for config in group.configs]
        chosen = None
        if group.chosen is not None:
            chosen = {i for i, config in enumerate(group.configs) if config in group.chosen}
        label, long = f"regression {number}", group.long
        yield from parameters(contract, values, group.every, group=label, long=long, chosen=chosen)


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(regressions))
def test_regression_passes(case: tuple[FamilyConfig, Regressions], tmp_path: Path) -> None:
    """Values, shapes, stalls, resets, jobs back to back and cycles, in simulation."""
    config, group = case
    assert_regression_passes(config, tmp_path, seed=group.seed, names=group.cases)


def shipped(contract: Contract) -> Iterable[Any]:
    paths = [path for pattern in contract.shipped for path in sorted(CONFIGS.glob(pattern))]
    values, every = [(path.stem, path) for path in paths], contract.shipped_every
    return parameters(contract, values, every or 1, group="shipped", long=not every)


@pytest.mark.slow
@pytest.mark.parametrize("path", cases(shipped))
def test_shipped_configuration_passes(path: Path, tmp_path: Path) -> None:
    assert_regression_passes(load_config(path), tmp_path)


# -- emitted Verilog -------------------------------------------------------------------------------


def clean(contract: Contract) -> Iterable[Any]:
    values, every = [(describe(c), c) for c in contract.clean], contract.clean_every
    return parameters(contract, values, every or 1, group="clean", long=not every)


@pytest.mark.parametrize("config", cases(clean))
def test_verilog_is_clean(config: FamilyConfig, tmp_path: Path) -> None:
    """Lint-clean, reproducible, and without a path from an input port to an output port."""
    check_verilog(config, tmp_path)


# -- mutations -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Broken:
    """A mutation with the group that it belongs to."""

    group: Mutations
    mutation: Mutation

    @property
    def config(self) -> FamilyConfig:
        """The configuration of the core that is broken."""
        return self.mutation.configuration(self.group.model)


def mutations(contract: Contract) -> Iterable[Any]:
    for number, group in enumerate(contract.mutations):
        values = [(mutation.name, Broken(group, mutation)) for mutation in group.mutations]
        label = f"mutations {number}"
        yield from parameters(contract, values, group.every, group=label, long=group.long)


@pytest.mark.slow
@pytest.mark.parametrize("name", [c.name for c in CONTRACTS.values() if c.mutations])
@pytest.mark.rotate(9)
def test_mutations_find_their_lines(name: str) -> None:
    """Also those that this commit does not draw: hardware may have been renamed."""
    for group in CONTRACTS[name].mutations:
        for mutation in group.mutations:
            text = design_of(mutation.configuration(group.model)).verilog
            assert mutation.apply(text) != text, mutation.name


@pytest.mark.slow
@pytest.mark.parametrize("broken", cases(mutations))
def test_mutation_is_noticed(broken: Broken, tmp_path: Path) -> None:
    design, mutation = design_of(broken.config), broken.mutation
    mutant = design.with_verilog(mutation.apply(design.verilog))
    messages = broken.group.messages(mutant, mutation, tmp_path)
    assert messages, "the regression noticed nothing"
    assert any(re.search(mutation.message, text) for text in messages), messages


UNBROKEN_EVERY = 20
"""Commits that together test all cores that mutations start from."""


def unbroken(contract: Contract) -> Iterable[Any]:
    for number, group in enumerate(contract.mutations):
        values = {
            broken.config.digest: broken
            for broken in (Broken(group, mutation) for mutation in group.mutations)
        }
        named = [(broken.mutation.name, broken) for broken in values.values()]
        every, label = UNBROKEN_EVERY, f"unbroken {number}"
        yield from parameters(contract, named, every, group=label, long=group.long)


@pytest.mark.slow
@pytest.mark.parametrize("broken", cases(unbroken))
def test_unbroken_core_passes(broken: Broken, tmp_path: Path) -> None:
    """Without the mutation, nothing is noticed."""
    design = design_of(broken.config)
    assert broken.group.messages(design, broken.mutation, tmp_path) == []


# -- cycles ----------------------------------------------------------------------------------------


STEADY_EVERY = 4
"""Commits that together run all products in steady state."""


def steady(contract: Contract) -> Iterable[Any]:
    values = [(describe(each.config), each) for each in contract.steady]
    return parameters(contract, values, STEADY_EVERY, group="steady")


@pytest.mark.slow
@pytest.mark.parametrize("product", cases(steady))
def test_steady_state(product: Steady) -> None:
    """Products back to back use at least 99 % of the processing elements' cycles."""
    config, (m, k, n) = product.config, product.sizes
    rng = np.random.default_rng(0)
    a, w = config.activation.random(rng, (m, k)), config.weight.random(rng, (k, n))
    result = run_product(design_of(config), a, w)
    assert not len(differences(result.result, golden(config, a, w)))
    assert result.cycles == cycles_of(config, [(m, k, n)])
    macs = m * k * (product.columns or n)
    assert macs / (config.macs_per_cycle * result.cycles) >= 0.99


# -- refused configurations ------------------------------------------------------------------------


def refused(contract: Contract) -> Iterable[Any]:
    for text, message in contract.refused:
        family_line = "" if text.startswith("family:") else f"family: {contract.family}\n"
        head = "" if text.startswith("{") else f"name: x\n{family_line}"
        yield pytest.param(f"{head}{text}\n", message, id=f"{contract.name}-{message[:40]}")


@pytest.mark.parametrize(("text", "message"), cases(refused))
def test_refused_configuration(text: str, message: str) -> None:
    """The error names the place in the file, and exits with status 2."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "x.yaml")
    assert caught.value.exit_status == 2
    messages = [str(problem) for problem in caught.value.problems]
    assert all(re.match(r"x\.yaml(:\d+:\d+)?: ", each) for each in messages), messages
    assert any(re.search(message, each) for each in messages), messages
