# SPDX-License-Identifier: Apache-2.0
"""Mutation score of the regression, family by family: ``make bench-mutation``.

A small design of each family gets 200 changes of single bits, spread evenly over its modules; its
regression runs on each.  Those that pass are compared with the design by proof: the score is
caught / (caught + not proven equal).
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from flows.bench.common import markdown, parser, run, write_sections
from flows.build.design import Design
from flows.mutation.campaign import Verdict, run_mutants
from flows.mutation.equivalence import Proof, prove_equal, questions_of
from flows.mutation.mutants import Mutant, draw_mutants, mutated
from flows.tools.parallel import processors
from hwgen.core.registry import family
from hwgen.errors import CheckFailed

GOAL = 0.99
"""Score that every family is to reach."""

MUTANTS = 200

NAME = "dut"
"""Name of every small design."""

PROOF_S = 60
"""Seconds for the proof of a mutant."""

RESULTS = Path(__file__).with_suffix(".json")
"""Results of the last campaigns."""

_GEMM: Mapping[str, Any] = {
    "family": "gemm_stream",
    "compute": {"family": "systolic", "max_k": 256,
                "array": {"rows": 2, "cols": 2, "accumulator_depth": 64,
                          "dataflow": "weight_stationary"}},
    "buffers": {"activation_kib": 1, "weight_kib": 1, "output_kib": 1, "column_kib": 1},
}  # fmt: skip

CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "adder_tree": {
        "array": {"pe": "carry_save", "encoding": "ent", "cols": 2, "depth": 5},
        "pipeline": {"pe": 2},
    },
    "attention": {
        "head": 4,
        "max_keys": 16,
        "alignment_bits": 10,
        "array": {"rows": 2, "lanes": 2, "buffers": "single"},
        "softmax": {"weight_bits": 8},
        "pipeline": {"dot": 1, "exponential": 2, "reciprocal": 2},
    },
    "broadcast_2d": {
        "activation": "uint4",
        "weight": "int3",
        "array": {"pe": "carry_save", "encoding": "booth4", "carry_spacing": 1, "rows": 3,
                  "cols": 2},
        "pipeline": {"pe": 1, "final_adder": 1},
    },
    "cube": {"array": {"pe": "carry_save", "encoding": "booth4", "rows": 2, "cols": 2, "depth": 3}},
    "gemm_stream": {**_GEMM, "post": {"outputs": ["raw", "int8"], "activations": ["none", "relu"]}},
    "stream_engine": {
        "compute": {
            "family": "vector",
            "input": "int16",
            "output": "int8",
            "parameters": "bf16",
            "array": {"operations": ["add", "quantise"], "lanes": 4, "longest_row": 16},
            "pipeline": {"adder": 3, "multiplier": 2, "function": 3},
        },
        "memory": {"data_width": 32, "address_width": 32, "max_burst": 4, "outstanding": 2},
    },
    "systolic": {
        "array": {"rows": 2, "cols": 3, "dataflow": "weight_stationary", "accumulator_depth": 64},
    },
    "ternary_lut": {"array": {"group_size": 2, "tables": 3, "fetch_ports": 4}},
    "transformer": {
        "memory": {"data_width": 64, "max_burst": 8, "outstanding": 2},
        "units": {"first": _GEMM, "second": _GEMM},
    },
    "vector": {
        "input": "fp16",
        "output": "bf16",
        "parameters": "fp32",
        "array": {"operations": ["softmax", "rms_norm", "gated", "add"], "lanes": 2,
                  "longest_row": 9, "gate": "relu2", "function_bits": 8},
        "pipeline": {"adder": 2, "multiplier": 1, "function": 1},
    },
}  # fmt: skip
"""The small design of each family."""


SUMS = {"adder_tree", "broadcast_2d", "cube", "systolic", "ternary_lut"}
"""Families whose sums are as long as ``max_k``."""


class Survivor(NamedTuple):
    """A mutant that no case noticed.

    Parameters
    ----------
    family, module, generator, change : str
    proof : {"equal", "different", "unknown"}
    """

    family: str
    module: str
    generator: str
    change: str
    proof: Proof


class Score(NamedTuple):
    """Result of a family.

    Parameters
    ----------
    family : str
    mutants, caught, equal : int
        How many there are, were noticed, and were proven to do what the design does.
    modules : int
        Modules in which they are.
    seed : int
        With which they were drawn.
    """

    family: str
    mutants: int
    caught: int
    equal: int
    modules: int
    seed: int = 0

    @property
    def score(self) -> float:
        """The mutation score."""
        return self.caught / (self.mutants - self.equal)


def design_of(name: str) -> Design:
    """Return the small design of a family."""
    values = {"name": NAME, "family": name, **CONFIGS[name]}
    if name in SUMS:
        values["max_k"] = 256  # as long as the longest sums of the regression
    return Design.of(family(name).params_class.model_validate(values))


def campaign(
    name: str,
    work: Path,
    *,
    count: int = MUTANTS,
    seed: int = 0,
    jobs: int = 1,
    seconds: int = PROOF_S,
    design: Design | None = None,
) -> tuple[Score, list[Survivor]]:
    """Return the score of a family, and every mutant that no case noticed.

    The design is the small one of the family, unless another one is given, which has to be
    called as the small one is.
    """
    design = design or design_of(name)
    mutants = draw_mutants(design, count, work, seed=seed)
    verdicts = run_mutants(mutated(design, mutants, work), mutants, work, jobs=jobs)
    left = [each for each in mutants if not verdicts[each.number].caught]
    survivors = _survivors(name, left, work, seconds)
    return score_of(name, mutants, verdicts, survivors)._replace(seed=seed), survivors


def repeat(
    score: Score,
    stored: Sequence[Survivor],
    work: Path,
    *,
    jobs: int = 1,
    seconds: int = PROOF_S,
) -> tuple[Score, list[Survivor]]:
    """Return a stored score, and its survivors, after those ran again and were proven again.

    Mutants that were caught or proven equal are not tried again.

    Parameters
    ----------
    score : Score
    stored : sequence of Survivor
        Those of the family, with the ones that are proven equal.
    work : Path
        Directory for all files.
    jobs : int
        Simulations at once.
    seconds : int
        Limit of the proof of a mutant.

    Raises
    ------
    CheckFailed
        If the design has changed so that a survivor is not among its mutants any more.
    """
    name = score.family
    design = design_of(name)
    drawn = draw_mutants(design, score.mutants, work, seed=score.seed)
    wanted = {each.change for each in stored if each.proof != "equal"}
    mutants = [each for each in drawn if each.change in wanted]
    if missing := sorted(wanted - {each.change for each in mutants}):
        raise CheckFailed(f"{name} has changed: measure it again; no mutant `{missing[0]}`")
    verdicts = run_mutants(mutated(design, mutants, work), mutants, work, jobs=jobs)
    left = [each for each in mutants if not verdicts[each.number].caught]
    again = _survivors(name, left, work, seconds)
    equal = [each for each in stored if each.proof == "equal"]
    proven = sum(each.proof == "equal" for each in again)
    caught = score.caught + len(mutants) - len(left)
    return score._replace(caught=caught, equal=score.equal + proven), [*equal, *again]


def _survivors(name: str, mutants: Sequence[Mutant], work: Path, seconds: int) -> list[Survivor]:
    """Return mutants that no case noticed, each with its proof."""
    if not mutants:
        return []
    questions = questions_of(NAME, mutants, work)
    return [
        Survivor(
            name,
            each.module,
            each.generator,
            each.change,
            prove_equal(questions, each.number, work, seconds=seconds)[0],
        )
        for each in mutants
    ]


def score_of(
    name: str,
    mutants: Sequence[Mutant],
    verdicts: Mapping[int, Verdict],
    survivors: Sequence[Survivor],
) -> Score:
    """Count what became of the mutants of a family."""
    proofs = Counter(each.proof for each in survivors)
    caught = sum(verdict.caught for verdict in verdicts.values())
    modules = len({each.module for each in mutants})
    return Score(name, len(mutants), caught, proofs["equal"], modules)


def table(scores: Sequence[Score]) -> str:
    """Return the scores as a table in Markdown."""
    rows = [
        (s.family, f"{s.modules}", f"{s.mutants}", f"{s.caught}", f"{s.equal}",
         f"{s.mutants - s.caught - s.equal}", f"{100 * s.score:.1f} %")
        for s in scores
    ]  # fmt: skip
    headings = ("family", "modules", "mutants", "caught", "proven equal", "survivors", "score")
    return markdown(headings, rows, 1)


def survivors_table(survivors: Sequence[Survivor]) -> str:
    """Return the survivors that are not proven equal as a table in Markdown."""
    rows = [
        (s.family, s.module, f"`{s.generator}`", f"`{s.change}`", s.proof)
        for s in survivors
        if s.proof != "equal"
    ]
    if not rows:
        return "None."
    return markdown(("family", "module", "generator", "change", "proof"), rows, 5)


def load_results() -> tuple[list[Score], list[Survivor]]:
    """Return the scores and survivors of the last campaign of each family."""
    document = json.loads(RESULTS.read_text(encoding="utf-8"))
    scores = [Score(**each) for each in document["scores"]]
    return scores, [Survivor(**each) for each in document["survivors"]]


def stored_result(name: str) -> tuple[Score, list[Survivor]]:
    """Return the score and the survivors of the last campaign of a family.

    Raises
    ------
    CheckFailed
        If it has never been measured.
    """
    scores, survivors = load_results()
    score = next((each for each in scores if each.family == name), None)
    if score is None:
        raise CheckFailed(f"{name} has not been measured: run a campaign first")
    return score, [each for each in survivors if each.family == name]


def keep(score: Score, survivors: Sequence[Survivor]) -> None:
    """Write the result of a campaign in the place of that family's last one."""
    scores, others = load_results()
    scores = sorted([each for each in scores if each.family != score.family] + [score])
    others = sorted([each for each in others if each.family != score.family] + [*survivors])
    document = {
        "scores": [each._asdict() for each in scores],
        "survivors": [each._asdict() for each in others],
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run campaigns and keep their results; the status is 1 if a score is below `GOAL`."""
    options = parser("mutation", __doc__)
    options.add_argument("--family", action="append", choices=list(CONFIGS), help="default all")
    options.add_argument(
        "--mutants", type=int, default=MUTANTS, help=f"of each (default {MUTANTS})"
    )
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, default=processors(), help="default: all processors")
    options.add_argument(
        "--survivors-only", action="store_true",
        help="run the survivors that are stored, not new mutants",
    )  # fmt: skip
    options.add_argument("--stored", action="store_true", help="run nothing, show what is stored")
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the table of scores")
    options.add_argument(
        "--survivors", type=Path, metavar="FILE", help="replace the table of survivors of a page"
    )
    chosen = options.parse_args(arguments)
    for name in () if chosen.stored else chosen.family or CONFIGS:
        with tempfile.TemporaryDirectory() as directory:
            work = Path(directory)
            if chosen.survivors_only:
                score, left = repeat(*stored_result(name), work, jobs=chosen.jobs)
            else:
                score, left = campaign(
                    name, work, count=chosen.mutants, seed=chosen.seed, jobs=chosen.jobs
                )
        click.echo(f"{name}: {100 * score.score:.1f} %", err=True)
        keep(score, left)
    scores, survivors = load_results()
    if chosen.json:
        documents = [{**each._asdict(), "score": each.score} for each in scores]
        document = {"scores": documents, "survivors": [each._asdict() for each in survivors]}
        click.echo(json.dumps(document, indent=2))
    elif chosen.write or chosen.survivors:
        if chosen.write:
            write_sections(chosen.write, {"scores": table(scores)})
        if chosen.survivors:
            write_sections(chosen.survivors, {"survivors": survivors_table(survivors)})
    else:
        click.echo(f"{table(scores)}\n{survivors_table(survivors)}")
    return int(not chosen.stored and any(score.score < GOAL for score in scores))


if __name__ == "__main__":
    run(main)
