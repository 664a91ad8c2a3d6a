# SPDX-License-Identifier: Apache-2.0
"""Proofs of the shipped configurations: ``make prove``.

Modules that several configurations share are proven once.  The results are stored; the page of
proofs is made from them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from flows.bench.common import markdown, parser, run, write_sections
from flows.build.load import load_design
from flows.formal.certificate import Certificate
from flows.formal.contract import GROUPS
from flows.formal.prove import prove_design
from flows.tools.parallel import processors

TIMEOUT_S = 60
"""Limit of each search."""

RESULTS = Path(__file__).with_suffix(".json")
"""Results of the last run."""

CONFIGS = Path(__file__).resolve().parents[2] / "configs"


class Proof(NamedTuple):
    """Result of a configuration.

    Parameters
    ----------
    config : str
        Name of its file without the ending.
    modules : int
        Modules of which something is proven.
    proven, refuted, unknown : int
        Properties and covers.
    seconds : float
        Time of all proofs that no configuration before had.
    groups : dict
        Group: its status.
    """

    config: str
    modules: int
    proven: int
    refuted: int
    unknown: int
    seconds: float
    groups: dict[str, str]


class Property(NamedTuple):
    """Property, with the engines that prove it.

    Parameters
    ----------
    group, name, about : str
    modules : int
        Distinct modules of which it is proven.
    unproven : int
        Distinct modules of which it is not.
    engines : list of str
    seconds : float
        The longest search.
    """

    group: str
    name: str
    about: str
    modules: int
    unproven: int
    engines: list[str]
    seconds: float


def prove_config(name: str, jobs: int) -> tuple[Proof, Certificate]:
    """Return the result of a configuration, and its certificate."""
    design = load_design(CONFIGS / f"{name}.yaml")
    start = time.monotonic()
    certificate = prove_design(design, seconds=TIMEOUT_S, jobs=jobs)
    seconds = round(time.monotonic() - start, 1)
    counts = [
        sum(group[status] for group in certificate.groups.values())
        for status in ("proven", "refuted", "unknown")
    ]
    groups = {key: group["status"] for key, group in certificate.groups.items()}
    modules = len({entry.digest for entry in certificate.entries})
    return Proof(name, modules, counts[0], counts[1], counts[2], seconds, groups), certificate


def summarise(certificates: Sequence[Certificate]) -> list[Property]:
    """Return the properties of all certificates, each once."""
    results: dict[tuple[str, str], dict[str, Any]] = {}
    for certificate in certificates:
        for entry in certificate.entries:
            for result in entry.proof.properties:
                name = _general(result.name) if result.group == "streams" else result.name
                if result.group == "credits":
                    name = name.replace("$", " ")
                if result.group == "jobs":
                    name = _consumer(name)
                each = results.setdefault((result.group, name), {"about": result.about})
                each.setdefault("engines", set()).add(result.engine)
                each["seconds"] = max(each.get("seconds", 0.0), result.seconds)
                status = "modules" if result.status == "proven" else "unproven"
                each.setdefault(status, set()).add(entry.digest)
    order = list(GROUPS)
    return sorted(
        (
            Property(group, name, each["about"], len(each.get("modules", ())),
                     len(each.get("unproven", ())), sorted(each["engines"]), each["seconds"])
            for (group, name), each in results.items()
        ),
        key=lambda each: (order.index(each.group), each.name),
    )  # fmt: skip


def _general(name: str) -> str:
    """Return a property of a port without the port's name."""
    return name.partition(" ")[2] if "axis" in name.partition(" ")[0] else name


def _consumer(name: str) -> str:
    """Return a property of a consumer of jobs without the consumer's name."""
    first, _, rest = name.partition(" ")
    return f"consumer {rest}" if rest in ("job", "has a job") else f"{first} {rest}".strip()


def configurations_table(proofs: Sequence[Proof]) -> str:
    """Return the results of configurations as a table in Markdown."""
    rows = [
        (p.config, f"{p.modules}", f"{p.proven}", f"{p.refuted}", f"{p.unknown}",
         ", ".join(g for g, status in p.groups.items() if status == "absent") or "-",
         f"{p.seconds:.0f} s")
        for p in proofs
    ]  # fmt: skip
    headings = ("configuration", "modules", "proven", "refuted", "unknown", "has none of", "time")
    return markdown(headings, rows, 1)


def properties_table(properties: Sequence[Property]) -> str:
    """Return the properties of each group as a table in Markdown."""
    rows = []
    for group in GROUPS:
        members = [each for each in properties if each.group == group]
        if not members:
            continue
        engines = sorted({engine for each in members for engine in each.engines})
        unproven = [each.name for each in members if each.unproven]
        rows.append(
            (
                group,
                "; ".join(each.name.replace("->", "to") for each in members),
                f"{max((each.modules for each in members), default=0)}",
                "; ".join(unproven) or "-",
                ", ".join(engines),
                f"{max((each.seconds for each in members), default=0.0):.1f} s",
            )
        )
    headings = ("group", "properties", "distinct modules", "unknown of one", "engines", "longest")
    return markdown(headings, rows, 2)


def load_results() -> tuple[list[Proof], list[Property]]:
    """Return the results of the last run."""
    document = json.loads(RESULTS.read_text(encoding="utf-8"))
    return (
        [Proof(**each) for each in document["proofs"]],
        [Property(**each) for each in document["properties"]],
    )


def store(proofs: Sequence[Proof], properties: Sequence[Property]) -> None:
    """Store results."""
    document: Mapping[str, Any] = {
        "proofs": [each._asdict() for each in proofs],
        "properties": [each._asdict() for each in properties],
    }
    RESULTS.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove configurations; the status is 1 if a property is not proven."""
    names = sorted(path.stem for path in CONFIGS.glob("*.yaml"))
    options = parser("proofs", __doc__)
    options.add_argument("--config", action="append", choices=names, help="default all")
    options.add_argument("--jobs", type=int, default=processors(), help="default: all processors")
    options.add_argument("--stored", action="store_true", help="run nothing, show what is stored")
    options.add_argument("--write", type=Path, metavar="FILE", help="replace the tables of a page")
    chosen = options.parse_args(arguments)
    if chosen.stored:
        proofs, properties = load_results()
    else:
        proofs, properties, certificates = [], [], []
        for name in chosen.config or names:
            proof, certificate = prove_config(name, chosen.jobs)
            proofs.append(proof)
            certificates.append(certificate)
            click.echo(f"{name}: {certificate.status}, {proof.seconds} s", err=True)
            properties = summarise(certificates)
            if not chosen.config:
                store(proofs, properties)
    if chosen.json:
        document = {"proofs": [each._asdict() for each in proofs],
                    "properties": [each._asdict() for each in properties]}  # fmt: skip
        click.echo(json.dumps(document, indent=2))
    elif chosen.write:
        tables = {"configurations": configurations_table(proofs),
                  "properties": properties_table(properties)}  # fmt: skip
        write_sections(chosen.write, tables)
    else:
        click.echo(f"{configurations_table(proofs)}\n{properties_table(properties)}")
    return int(not chosen.stored and any(each.refuted or each.unknown for each in proofs))


if __name__ == "__main__":
    run(main)
