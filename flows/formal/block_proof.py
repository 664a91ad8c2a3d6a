# SPDX-License-Identifier: Apache-2.0
"""Proof of the contract of one block."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from flows.formal.aiger import Aiger
from flows.formal.checker import ANY, BROKEN, REACHED, Checker, Port
from flows.formal.contract import Contract
from flows.formal.modules import Part
from flows.formal.netlists import NotMoved, PathSearch, Pin, one_bit_of_memory, one_lane
from flows.formal.prover import (
    Answer,
    Status,
    compile_checker,
    reach,
    solve,
    write_flat,
    write_modules,
)

LEMMA = "lemma"
"""Begins the names of properties that only help to prove others."""

_COVER_S = 60
_LEMMA_CYCLES = 150


@dataclass(frozen=True)
class Result:
    """Property with its answer.

    Parameters
    ----------
    group, name, about : str
    status : {"proven", "refuted", "unknown"}
    engine, detail : str
        As of `flows.formal.prover.Answer`.
    seconds : float
        Of the search that answered it; properties that are proven together share one.
    trace : list of mapping
        Ports of the block, cycle by cycle, of a violation.
    """

    group: str
    name: str
    about: str
    status: Status
    engine: str
    detail: str
    seconds: float
    trace: list[dict[str, int]] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class BlockProof:
    """Results of a block.

    Parameters
    ----------
    properties, covers : list of Result
        A cover that was reached is ``proven``.
    assumptions : list of str
    """

    properties: list[Result]
    covers: list[Result]
    assumptions: list[str]

    @property
    def status(self) -> Status:
        """The worst status: a refuted property before an unknown one."""
        statuses = {result.status for result in (*self.properties, *self.covers)}
        order: tuple[Status, ...] = ("refuted", "unknown", "proven")
        return next(each for each in order if each in statuses or each == "proven")

    def document(self) -> dict[str, Any]:
        """Return it as JSON values, without traces."""
        document = asdict(self)
        for result in (*document["properties"], *document["covers"]):
            del result["trace"]
        return document

    @classmethod
    def load(cls, document: Mapping[str, Any]) -> BlockProof:
        """Return the proof that `document` wrote."""
        properties, covers = (
            [Result(**result) for result in document[key]] for key in ("properties", "covers")
        )
        return cls(properties, covers, document["assumptions"])


def ports_of(netlist: Mapping[str, Any]) -> dict[str, Port]:
    """Return the ports of a netlist of Yosys."""
    return {
        name: Port(len(port["bits"]), port["direction"] == "input")
        for name, port in netlist["ports"].items()
    }


def prove_contract(
    part: Part,
    contract: Contract,
    work: Path,
    seconds: int,
    *,
    only: Collection[str] | None = None,
) -> BlockProof:
    """Prove the contract of a block.

    Parameters
    ----------
    part : Part
    contract : Contract
    work : Path
        Directory for the files of Yosys and ABC.
    seconds : int
        Limit of each search.
    only : collection of str, optional
        Names of the properties that are searched, one by one; default all.

    Raises
    ------
    ToolMissing
        If there is no Yosys or no ABC.
    CheckFailed
        If one of them fails.
    """
    modules = write_modules(part, work)
    flat = write_flat(part, work, cut=contract.cut(modules))
    properties = [_path_result(modules, part.name, contract, path) for path in contract.paths]
    for source, *sinks in (*contract.payloads, *([contract.memory] if contract.memory else [])):
        start = time.monotonic()
        try:
            if source in flat["ports"]:
                flat = one_lane(flat, source, sinks[0])
            else:
                flat = one_bit_of_memory(flat, source, sinks)
        except NotMoved:
            continue  # the proof is of the whole payload
        detail = f"every bit of {source} goes through the same cells to {', '.join(sinks)}"
        taken = round(time.monotonic() - start, 2)
        properties.append(
            Result(contract.group, f"data independence of {source}",
                   "the payload is moved bit by bit and decides nothing: one bit stands for all",
                   "proven", "netlist search", detail, taken)
        )  # fmt: skip
    checker, circuit = _compile(contract, flat, work)
    answers = _answers(checker, circuit, contract, work, seconds, only)
    properties += [_as_unknown(each) if contract.cut_datapath else each for each in answers]
    covers = []
    for index, cover in enumerate(checker.covers if only is None else ()):
        output = _output(circuit, REACHED, index)
        answer = reach(circuit, output, work, min(seconds, _COVER_S))
        reached: Status = "proven" if answer.status == "refuted" else "unknown"
        covers.append(
            Result(contract.group, cover.name, cover.about, reached, answer.engine, answer.detail,
                   answer.seconds)
        )  # fmt: skip
    return BlockProof(properties, covers, [each.about for each in checker.assumptions])


def _compile(contract: Contract, flat: Mapping[str, Any], work: Path) -> tuple[Checker, Aiger]:
    """Return the checker of a contract, without lemmas that a simulation refutes, as a circuit."""
    if not contract.needs_netlist:
        checker = contract.make(ports_of(flat))
        return checker, compile_checker(checker, flat, work)
    wrong: set[str] = set()
    while True:
        checker = contract.make(ports_of(flat), netlist=flat, without=wrong)
        circuit = compile_checker(checker, flat, work)
        failed = {
            each.name
            for index, each in enumerate(checker.properties)
            if each.name.startswith(LEMMA)
            and circuit.explore(_output(circuit, BROKEN, index), _LEMMA_CYCLES)
        }
        if not failed:
            return checker, circuit
        wrong |= failed


def _output(circuit: Aiger, name: str, index: int) -> str:
    return f"{name}[{index}]" if f"{name}[{index}]" in circuit.outputs else name


def _answers(
    checker: Checker,
    circuit: Aiger,
    contract: Contract,
    work: Path,
    seconds: int,
    only: Collection[str] | None,
) -> list[Result]:
    """Return the results of the properties: all at once, or, if that fails, one by one."""
    lemmas = sum(each.name.startswith(LEMMA) for each in checker.properties)
    wanted = [
        (index, each)
        for index, each in enumerate(checker.properties)
        if not each.name.startswith(LEMMA) and (only is None or each.name in only)
    ]
    together = solve(circuit, ANY, work, seconds, contract.first_cycles) if only is None else None
    if together and together.status == "proven":
        helped = f", with {lemmas} lemmas" if lemmas else ""
        detail = f"{together.detail}, {len(wanted)} properties together{helped}"
        answers = {index: replace(together, detail=detail) for index, _ in wanted}
    else:
        answers = {
            index: solve(
                circuit, _output(circuit, BROKEN, index), work, seconds, contract.first_cycles
            )
            for index, _ in wanted
        }
    return [
        Result(
            contract.group,
            each.name,
            each.about,
            answers[index].status,
            answers[index].engine,
            answers[index].detail,
            answers[index].seconds,
            trace_of(checker, circuit, answers[index]),
        )
        for index, each in wanted
    ]


def _as_unknown(result: Result) -> Result:
    """Return a violation as unknown, because modules that were left out may prevent it."""
    if result.status != "refuted":
        return result
    detail = f"{result.detail} with free inputs; other modules may prevent it"
    return replace(result, status="unknown", detail=detail, trace=[])


def trace_of(checker: Checker, circuit: Aiger, answer: Answer) -> list[dict[str, int]]:
    """Return the values of the block's ports in each cycle of a violation."""
    ports = [("reset", 1), *((name, checker.ports[name].width) for name in checker.observed)]
    trace = []
    for values in circuit.run(answer.trace):
        cycle, bit = {}, 0
        for name, width in ports:
            bits = [values.get(f"seen[{bit + at}]", 0) for at in range(width)]
            cycle[name] = sum(value << at for at, value in enumerate(bits))
            bit += width
        trace.append(cycle)
    return trace


def _path_result(modules: Mapping[str, Any], name: str, contract: Contract, path: Any) -> Result:
    """Search a combinational path."""
    start = time.monotonic()
    search = PathSearch(modules)
    width = len(modules[name]["ports"][path.source]["bits"])
    reached = {
        pin.port for bit in range(width) for pin in search.reached(name, Pin(path.source, bit))
    }
    hit = [sink for sink in path.sinks if sink in reached]
    detail = f"there is one to {', '.join(hit)}" if hit else "no path in the netlist"
    return Result(
        contract.group, path.name, path.about, "refuted" if hit else "proven", "netlist search",
        detail, round(time.monotonic() - start, 2),
    )  # fmt: skip
