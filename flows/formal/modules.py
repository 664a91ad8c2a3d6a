# SPDX-License-Identifier: Apache-2.0
"""Modules of an emitted Verilog text, each with the modules below it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from flows.tools.cache import text_digest

_MODULE = re.compile(
    r"^(?:\(\* keep_hierarchy \*\)\n)?module (\w+)\b.*?^endmodule$", re.MULTILINE | re.DOTALL
)
_NAMED = re.compile(r"^(module |  )(\w+)(?=\(| \S+ +\($)", re.MULTILINE)
_INSTANCE = re.compile(r"^  (\w+) \S+ +\($", re.MULTILINE)

TOP = "top"
"""Name of the top module in a `Part`."""


@dataclass(frozen=True)
class Part:
    """A module with the modules below it, under names that do not depend on the design's.

    Parameters
    ----------
    name : str
        Name of the module without that of the design.
    text : str
        Verilog of the modules.
    """

    name: str
    text: str

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text."""
        return text_digest(self.text, 64)


class DesignText:
    """The Verilog of a design, module by module.

    Parameters
    ----------
    name : str
        Name of the top module and prefix of all others.
    verilog : str
    """

    def __init__(self, name: str, verilog: str) -> None:
        self.name = name
        self.modules = {match[1]: match[0] for match in _MODULE.finditer(verilog)}

    def instances(self, module: str) -> list[str]:
        """Return the modules that a module instantiates, each once."""
        names = _INSTANCE.findall(self.modules[module])
        return [name for name in dict.fromkeys(names) if name in self.modules]

    def counts(self) -> Counter[str]:
        """Return the number of instances of each module, 1 for the top."""
        counts: Counter[str] = Counter({self.name: 1})
        order = sorted(self.modules, key=lambda name: -len(self.closure(name)))
        for name in order:  # a module has more modules below it than each of those
            for inner in _INSTANCE.findall(self.modules[name]):
                if inner in self.modules:
                    counts[inner] += counts[name]
        return counts

    def closure(self, module: str) -> list[str]:
        """Return a module and those below it, sorted."""
        result, pending = {module}, [module]
        while pending:
            for name in self.instances(pending.pop()):
                if name not in result:
                    result.add(name)
                    pending.append(name)
        return sorted(result)

    def part(self, module: str) -> Part:
        """Return a module with those below it.

        Parameters
        ----------
        module : str
            Its name without that of the design; empty for the top module.
        """
        full = f"{self.name}_{module}" if module else self.name
        names = self.closure(full)
        local = {name: name.removeprefix(f"{self.name}_") for name in names}
        local[self.name] = TOP

        def rename(match: re.Match[str]) -> str:
            return f"{match[1]}{local.get(match[2], match[2])}"

        texts = [_NAMED.sub(rename, self.modules[name]) for name in names]
        return Part(local[full], "\n\n".join([*texts, ""]))
