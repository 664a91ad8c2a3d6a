# SPDX-License-Identifier: Apache-2.0
"""Proofs of a design, block by block, and their certificate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

from flows.build.design import Design
from flows.formal.block_proof import BlockProof, Result, prove_contract
from flows.formal.certificate import Certificate, Entry
from flows.formal.contract import Contract
from flows.formal.contracts import contracts_of
from flows.formal.credits import CreditChecker, credit_buffers
from flows.formal.datapaths import Datapath, prove_datapath
from flows.formal.deadlock import ANSWERS_IN, prove_deadlock_freedom, small_job
from flows.formal.definitions import datapath_of
from flows.formal.independence import prove_independence
from flows.formal.modules import TOP, DesignText, Part
from flows.formal.prover import solver_versions, write_modules
from flows.formal.shell import Streams
from flows.formal.shell_checker import PortChecker
from flows.tools.cache import Document, digest, text_digest
from flows.tools.guard import scratch
from flows.tools.parallel import run_all
from hwgen.core.port import POST
from rtl_templates.hdl.generators import generate
from rtl_templates.hdl.hierarchy import Block, placed_blocks
from rtl_templates.hdl.shell import AxiShell
from rtl_templates.transformer.list_memory import ListMemory

LIST_WORDS = ("access_descriptor", "access_loaded")
"""What a command list reads from memory: commands, not operands."""


@dataclass(frozen=True)
class Task:
    """A contract of a module.

    Parameters
    ----------
    part : Part
    contract : Contract
    number : int
        Which contract of the block it is.
    """

    part: Part
    contract: Contract
    number: int


def blocks_of(design: Design) -> dict[str, Block]:
    """Return the blocks of a design by the names of their modules, without that of the design."""
    shell = AxiShell(generate(design.core))
    blocks = placed_blocks(shell, design.name, shell.ports)
    return {name.removeprefix(f"{design.name}_"): block for name, block in blocks.items()}


def tasks_of(design: Design) -> list[Task]:
    """Return the contracts of all modules of a design."""
    return _contracts(DesignText(design.name, design.verilog), blocks_of(design))


def prove_design(
    design: Design,
    *,
    seconds: int,
    jobs: int = 1,
    use_cache: bool = True,
    datapaths: bool = False,
    deadlock: bool = False,
    on_progress: Callable[[str, int, int], None] = lambda label, done, total: None,
) -> Certificate:
    """Prove the properties of a design.

    Parameters
    ----------
    design : Design
    seconds : int
        Limit of each search.
    jobs : int
        Proofs at once.
    use_cache : bool
        Whether modules that were proven before are not proven again.
    datapaths : bool
        Whether datapaths are compared with their definitions as well.
    deadlock : bool
        Whether a small job of an engine is followed as well.
    on_progress : callable
        Called with a label, and the number of proofs that are done and there are.

    Raises
    ------
    ToolMissing
        If there is no Yosys or no ABC.
    CheckFailed
        If one of them fails.
    """
    text = DesignText(design.name, design.verilog)
    blocks, top = blocks_of(design), text.part("")
    with scratch() as work:
        modules = write_modules(top, work)
    tasks = [*_contracts(text, blocks), *_credits(text, blocks, modules)]
    done = count(1)

    def follow(index: int, proof: BlockProof) -> None:
        on_progress(tasks[index].part.name, next(done), len(tasks) + 1)

    proofs = prove_tasks(tasks, seconds=seconds, jobs=jobs, use_cache=use_cache, on_done=follow)
    counts = text.counts()
    entries = [
        Entry(name, counts[name], task.part.digest, proof)
        for task, proof in zip(tasks, proofs, strict=True)
        for name in [f"{design.name}_{task.part.name}"]
    ]
    buffers = {
        task.part.name: proof
        for task, proof in zip(tasks, proofs, strict=True)
        if task.contract.group == "buffers"
    }
    streams = Streams(modules, TOP, {name: blocks[name] for name in buffers}, buffers)
    results = streams.results()
    if any(each.status != "proven" for each in results):
        # What does not follow from the buffers at the ports is searched in the control logic.
        contract = Contract("streams", PortChecker, cut_datapath=True)
        proof = _prove(Task(top, contract, 0), seconds, use_cache=use_cache)
        searched = {result.name: result for result in proof.properties}
        results = [
            each if each.status == "proven" else searched.get(each.name, each) for each in results
        ]
    results.append(_independence(design, top, modules, blocks, seconds, use_cache=use_cache))
    entries.append(Entry(design.name, 1, top.digest, BlockProof(results, [], [])))
    if datapaths:
        entries += _datapaths(text, blocks, seconds, jobs, use_cache=use_cache)
    if deadlock and design.core.buses:
        with scratch() as work:
            properties, covers = prove_deadlock_freedom(top, small_job(design.core), work, seconds)
        environment = [
            f"The memory answers within {ANSWERS_IN} cycles, one burst each way at a time."
        ]
        entries.append(
            Entry(design.name, 1, top.digest, BlockProof(properties, covers, environment))
        )
    wanted = {"datapaths": datapaths, "deadlock": deadlock}
    return Certificate(
        design, entries, seconds, optional=[name for name, each in wanted.items() if each]
    )


def _contracts(text: DesignText, blocks: Mapping[str, Block]) -> list[Task]:
    return [
        Task(text.part(name), contract, number)
        for name, block in sorted(blocks.items())
        for number, contract in enumerate(contracts_of(block))
    ]


def _credits(
    text: DesignText, blocks: Mapping[str, Block], modules: Mapping[str, Any]
) -> list[Task]:
    """Return the tasks of modules that push into buffers without a look at their ready.

    Modules with a contract limit what they push by that contract.
    """
    groups = {name: [each.group for each in contracts_of(block)] for name, block in blocks.items()}
    buffers = [name for name, group in groups.items() if group == ["buffers"]]
    return [
        Task(
            text.part(name),
            Contract(
                "credits",
                partial(CreditChecker, instances=instances),
                cut_datapath=True,
                needs_netlist=True,
            ),
            0,
        )
        for name, instances in sorted(credit_buffers(modules, buffers).items())
        if not groups.get(name)
    ]


def prove_tasks(
    tasks: list[Task],
    *,
    seconds: int,
    jobs: int,
    use_cache: bool = True,
    on_done: Callable[[int, BlockProof], None] = lambda index, result: None,
) -> list[BlockProof]:
    """Return the proofs of tasks; those that another run completed come from the cache.

    Parameters
    ----------
    tasks : list of Task
    seconds : int
        Limit of each search.
    jobs : int
        Tasks at once.
    use_cache : bool
    on_done : callable
        Called with the index and the result of each task.

    Raises
    ------
    ToolMissing, CheckFailed
        As `flows.formal.block_proof.prove_contract`.
    """
    solver_versions()

    def job(task: Task) -> Callable[[], BlockProof]:
        return lambda: _prove(task, seconds, use_cache=use_cache)

    return run_all([job(task) for task in tasks], jobs, on_done)


def _prove(task: Task, seconds: int, *, use_cache: bool) -> BlockProof:
    key = digest(
        [task.part.digest, task.contract.group, task.number, solver_versions(), _sources()]
    )
    record = Document("proofs", key)
    cached = record.load(BlockProof.load) if use_cache else None
    if cached is not None:
        return cached
    with scratch() as work:
        proof = prove_contract(task.part, task.contract, work, seconds)
    if proof.status == "proven":
        record.write(proof.document())
    return proof


def _independence(
    design: Design,
    top: Part,
    modules: Mapping[str, Any],
    blocks: Mapping[str, Block],
    seconds: int,
    *,
    use_cache: bool,
) -> Result:
    """Return whether the cycles of a design depend on operands."""
    record = Document(
        "proofs", digest([top.digest, design.name, "cycles", solver_versions(), _sources()])
    )
    cached = record.load(BlockProof.load) if use_cache else None
    if cached is not None:
        return cached.properties[0]
    core = design.core
    with scratch() as work:
        result = prove_independence(
            top,
            modules,
            work,
            commands=[each.prefix for each in core.ports if each.per_job or each.name == POST],
            stops={
                name: LIST_WORDS for name, block in blocks.items() if isinstance(block, ListMemory)
            },
            depends=bool(core.ports)
            and core.multiplies
            and core.cycles([core.gemm(1, 1, 1)]).basis == "expected",
            seconds=seconds,
        )
    if result.status == "proven" and not result.trace:  # traces are not stored
        record.write(BlockProof([result], [], []).document())
    return result


def _datapaths(
    text: DesignText, blocks: Mapping[str, Block], seconds: int, jobs: int, *, use_cache: bool
) -> list[Entry]:
    """Return the entries of blocks that have an arithmetic definition."""
    members = [
        (text.part(name), datapath)
        for name, block in sorted(blocks.items())
        if (datapath := datapath_of(block))
    ]

    def job(part: Part, datapath: Datapath) -> Callable[[], BlockProof]:
        def prove() -> BlockProof:
            key = digest([part.digest, "datapaths", solver_versions(), _sources()])
            record = Document("proofs", key)
            cached = record.load(BlockProof.load) if use_cache else None
            if cached is not None:
                return cached
            with scratch() as work:
                result = prove_datapath(datapath, work, seconds, part)
            proof = BlockProof([result], [], [])
            if proof.status == "proven":
                record.write(proof.document())
            return proof

        return prove

    proofs = run_all([job(*member) for member in members], jobs)
    counts = text.counts()
    names = [f"{text.name}_{part.name}" for part, _ in members]
    return [
        Entry(name, counts[name], part.digest, proof)
        for name, (part, _), proof in zip(names, members, proofs, strict=True)
    ]


@cache
def _sources() -> str:
    """Return a digest of the prover."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return digest([[file.name, text_digest(file.read_text(encoding="utf-8"))] for file in files])
