# SPDX-License-Identifier: Apache-2.0
"""Breaking emitted Verilog on purpose, and whether the regression notices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.simulation.runner import regress
from hwgen.core.params.base import FamilyConfig
from sim_tests.support.designs import design_of


@dataclass(frozen=True)
class Mutation:
    """One way to break a core.

    Parameters
    ----------
    name : str
        What is broken.
    module : str
        Module of the emitted Verilog, without the prefix of the core's name; empty for the top.
    pattern, replacement : str
        Regular expression in that module, and what takes its place.
    config : dict
        Configuration beyond the defaults.
    cases : tuple of str
        Further cases to run.
    """

    name: str
    module: str
    pattern: str
    replacement: str
    config: dict[str, Any]
    cases: tuple[str, ...] = ()

    def configuration(self, family: type[FamilyConfig]) -> FamilyConfig:
        """Return the configuration of the core that is broken."""
        return family.model_validate({"name": "mutant", **self.config})

    def applied(self, text: str) -> str:
        """Return the Verilog of the core with the mutation."""
        name = f"mutant_{self.module}" if self.module else "mutant"
        module = re.compile(rf"^module {name}\(.*?^endmodule", re.S | re.M)
        found = module.search(text)
        assert found, f"no module {name}"
        changed, count = re.subn(self.pattern, self.replacement, found[0])
        assert count, f"{self.pattern} does not occur in {self.module}"
        return text[: found.start()] + changed + text[found.end() :]


def assert_noticed(
    mutation: Mutation,
    family: type[FamilyConfig],
    cases: Sequence[str],
    work: Path,
    message: str = "",
) -> None:
    """Run the cases, and those that the mutation names; fail if none fails with the message."""
    config = mutation.configuration(family)
    design = design_of(config)
    mutated = design.with_verilog(mutation.applied(design.verilog))
    outcomes = regress(mutated, work, names=[*cases, *mutation.cases])
    messages = [outcome.message for outcome in outcomes if not outcome.passed]
    assert messages, "the regression noticed nothing"
    assert any(re.search(message, text) for text in messages), messages
