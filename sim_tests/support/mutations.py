# SPDX-License-Identifier: Apache-2.0
"""Mutations of emitted Verilog, which the tests must notice."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hwgen.core.params.base import FamilyConfig
from sim_tests.support.emitted import module_text


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
        Regular expression in that module, and its replacement.
    config : dict
        Configuration beyond the defaults.
    cases : tuple of str
        Further cases of the regression to run.
    message : str
        Regular expression that a message of a failing case must match.
    """

    name: str
    module: str
    pattern: str
    replacement: str
    config: dict[str, Any]
    cases: tuple[str, ...] = ()
    message: str = ""

    def configuration(self, family: type[FamilyConfig]) -> FamilyConfig:
        """Return the configuration of the core that is broken."""
        return family.model_validate({**self.config, "name": "mutant"})

    def apply(self, text: str) -> str:
        """Return the Verilog of the core with the mutation."""
        name = f"mutant_{self.module}" if self.module else "mutant"
        module = module_text(text, name)
        changed, count = re.subn(self.pattern, self.replacement, module)
        assert count, f"{self.pattern} does not occur in {self.module}"
        return text.replace(module, changed)


def mutated(text: str, pattern: str, replacement: str) -> str:
    """Return Verilog with the one place that a regular expression matches replaced."""
    changed, count = re.subn(pattern, replacement, text)
    assert count == 1, f"{pattern} occurs {count} times"
    return changed
