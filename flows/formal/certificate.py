# SPDX-License-Identifier: Apache-2.0
"""Certificate of a design as a document, and the traces of violations."""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from vcd import VCDWriter

from flows.build.design import Design
from flows.build.files import header
from flows.formal.block_proof import BlockProof, Result
from flows.formal.contract import GROUPS, OPTIONAL
from flows.formal.prover import Status, solver_versions
from flows.tools.cache import text_digest
from hwgen import __version__

CERTIFICATE = "certificate.json"
"""Name of the file."""

COMPOSITION = (
    "A property of a block holds in every environment that satisfies the block's assumptions.",
    "Every instance of a module is the same text: one proof is valid for all instances.",
    "The engine 'composition': the port of the design is nothing but that of a proven block.",
    "Properties that are proven together are one property: their conjunction, with lemmas.",
    "Of a payload that is only moved ('data independence'), one bit stands for all.",
)
"""How proofs of blocks compose."""

ENVIRONMENT = (
    "One clock; a reset before the first use, and any number of resets later.",
    "Registers and memories start with any contents.",
    "Nothing is assumed of inputs unless a block lists it.",
    "Proofs are of the Verilog as Yosys reads it, not of a mapped netlist, and not of timing.",
)
"""What is assumed of the environment."""


@dataclass(frozen=True)
class Entry:
    """A module of a design, or the design itself, with what is known of it.

    Parameters
    ----------
    module : str
        Name in the emitted Verilog.
    instances : int
    digest : str
        SHA-256 of the module and those below it, without the prefix of the design.
    proof : BlockProof
    """

    module: str
    instances: int
    digest: str
    proof: BlockProof

    @property
    def results(self) -> list[Result]:
        """Properties and covers."""
        return [*self.proof.properties, *self.proof.covers]


class Certificate:
    """Results of a design.

    Parameters
    ----------
    design : Design
    entries : sequence of Entry
    seconds : int
        Limit of each search.
    optional : collection of str
        Groups of `OPTIONAL` that were searched.
    """

    def __init__(
        self,
        design: Design,
        entries: Sequence[Entry],
        seconds: int,
        *,
        optional: Collection[str] = (),
    ) -> None:
        self.design, self.entries, self.seconds = design, entries, seconds
        self.optional = optional

    @property
    def status(self) -> Status:
        """The worst status of all properties and covers."""
        return BlockProof([each for e in self.entries for each in e.results], [], []).status

    @cached_property
    def groups(self) -> dict[str, dict[str, Any]]:
        """For each group of properties: its status, ``absent`` without any, and counts."""
        groups = {}
        for name, about in GROUPS.items():
            if name in OPTIONAL and name not in self.optional:
                continue
            results = [each for e in self.entries for each in e.results if each.group == name]
            counts = {
                status: sum(each.status == status for each in results)
                for status in ("proven", "refuted", "unknown")
            }
            status = BlockProof(results, [], []).status if results else "absent"
            groups[name] = {"about": about, "status": status, **counts}
        return groups

    def document(self) -> dict[str, Any]:
        """Return the certificate as JSON values."""
        text = f"{header(self.design.core, '//')}\n{self.design.verilog}"
        return {
            "design": self.design.name,
            "family": self.design.params.family,
            "status": self.status,
            "verilog": f"{self.design.name}.v",
            "verilog_sha256": text_digest(text, 64),
            "hwgen": __version__,
            "solvers": solver_versions(),
            "timeout_seconds": self.seconds,
            "groups": self.groups,
            "modules": [
                {
                    "module": entry.module,
                    "instances": entry.instances,
                    "sha256": entry.digest,
                    **entry.proof.document(),
                }
                for entry in self.entries
            ],
            "composition": list(COMPOSITION),
            "environment": list(ENVIRONMENT),
        }

    def write(self, directory: Path) -> None:
        """Write the certificate, and a waveform for each violation."""
        text = json.dumps(self.document(), indent=2) + "\n"
        (directory / CERTIFICATE).write_text(text, encoding="utf-8")
        for entry in self.entries:
            for result in entry.proof.properties:
                if result.trace:
                    name = f"{entry.module}-{result.name.replace(' ', '_')}.vcd"
                    (directory / name).write_text(waveform(result.trace), encoding="utf-8")


def waveform(trace: Sequence[dict[str, int]]) -> str:
    """Return the values of ports, cycle by cycle, as a VCD text."""
    output = io.StringIO()
    with VCDWriter(output, timescale="1 ns", date="") as writer:
        clock = writer.register_var("dut", "clk", "wire", size=1, init=0)
        widths = {name: max(1, *(c[name].bit_length() for c in trace)) for name in trace[0]}
        signals = {
            name: writer.register_var("dut", name, "wire", size=width, init=0)
            for name, width in widths.items()
        }
        for cycle, values in enumerate(trace):
            for name, value in values.items():
                writer.change(signals[name], 10 * cycle, value)
            writer.change(clock, 10 * cycle, 0)
            writer.change(clock, 10 * cycle + 5, 1)
        writer.close(10 * len(trace))
    return output.getvalue()
