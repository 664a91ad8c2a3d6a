# SPDX-License-Identifier: Apache-2.0
"""Proofs of changed blocks, and the properties that a block has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from flows.formal.block_proof import LEMMA, ports_of, prove_contract
from flows.formal.contract import Contract
from flows.formal.modules import Part
from flows.formal.prover import write_flat


def changed_everywhere(text: str, pattern: str, change: str) -> str:
    """Return Verilog with all places that a regular expression matches replaced."""
    changed, count = re.subn(pattern, change, text)
    assert count, f"the Verilog has no {pattern}"
    return changed


def result_of(
    name: str, text: str, contract: Contract, wanted: str, work: Path, seconds: int
) -> Any:
    """Return the result of one property of a contract for a block with a text of its own."""
    proof = prove_contract(Part(name, text), contract, work, seconds, only={wanted})
    (result,) = (each for each in proof.properties if each.name == wanted)
    return result


def property_names(part: Part, contract: Contract, work: Path) -> set[str]:
    """Return the properties of a block that is made flat, without its lemmas."""
    checker = contract.make(ports_of(write_flat(part, work)))
    checker.rtlil()
    return {each.name for each in checker.properties if not each.name.startswith(LEMMA)}
