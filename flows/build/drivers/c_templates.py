# SPDX-License-Identifier: Apache-2.0
"""Templates of C files: pieces that several share, and fields that a configuration fills in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from flows.build.files import header

if TYPE_CHECKING:
    from hwgen.core.params.base import FamilyConfig

_TEMPLATES = Path(__file__).parent / "templates"
_MARK = "/* == "
_COLUMNS = 84
_INCLUDE = re.compile(r"^@include (\S+)@\n", re.MULTILINE)

OF_A_JOB = {"JOB_PARAMETER": ", uint32_t ticket", "JOB_ARGUMENT": ", ticket"}
"""What `wait` has beside the device, where jobs have numbers."""

OF_A_LIST = dict.fromkeys(OF_A_JOB, "")
"""The same where one list runs at a time."""

ENDS = {"READ_ERROR": "READ", "WRITE_ERROR": "WRITE", "ABORTED": "ABORTED"}
"""How a job of a queue ends that is not done, and what the driver calls it."""


def piece(name: str) -> str:
    """Return the text of a template that only some files have."""
    return _with_pieces(_read(name))


def filled(
    config: FamilyConfig,
    template: str,
    values: Mapping[str, str],
    of_file: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, str]:
    """Return the header and the source of a driver, their templates filled in.

    Parameters
    ----------
    config : FamilyConfig
    template : str
        Name of the templates, without their suffixes.
    values : mapping
        Of the fields ``@FIELD@``; the engine's name is there already.
    of_file : mapping, optional
        Of those that are other ones in the header, ``h``, than in the source, ``c``.
    """
    names = {"name": config.name, "NAME": config.name.upper()}
    files = {}
    for suffix in ("h", "c"):
        known = {**values, **(of_file or {}).get(suffix, {}), **names}
        text = _with_pieces(_read(f"{template}.{suffix}"))
        for name, value in known.items():
            text = text.replace(f"@{name}@", value)
        licence, rest = text.split("\n", 1)
        files[f"{config.name}_{template.rsplit('_', 1)[-1]}.{suffix}"] = (
            f"{licence}\n/*\n{header(config, ' *')} */\n{rest}"
        )
    return files


def statuses(prefix: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Return what a driver says of its statuses, as fields of its templates.

    Parameters
    ----------
    prefix : str
        Of their names.
    texts : mapping
        Name of each error to what it means; they count down from -1.
    """
    known = {"OK": (0, "done"), "PENDING": (1, "not finished")}
    known |= {f"E_{name}": (-1 - i, text) for i, (name, text) in enumerate(texts.items())}
    last = list(known)[-1]
    lines = {
        f"    {prefix}_{name} = {value}{'' if name == last else ','}": text
        for name, (value, text) in known.items()
    }
    width = max(map(len, lines))
    return {
        "STATUSES": "\n".join(f"{line:{width}} /* {text} */" for line, text in lines.items()),
        "MESSAGES": "\n".join(
            f'    case {prefix}_{name}:\n        return "{text}";'
            for name, (_, text) in known.items()
        ),
    }


def queue_statuses(own: Mapping[str, str]) -> dict[str, str]:
    """Return the errors of a driver of a queue of jobs, those of its own jobs among them.

    Their order is that of their numbers, which users of drivers know.
    """
    return {
        "TIMEOUT": "not finished in time",
        "FULL": "the queue is full or jobs are being ended",
        **own,
        "TICKET": "no such job was submitted",
        "LOST": "finished, but how is not known any more",
        "DEVICE": "no such engine",
        "READ": "reading from memory failed",
        "WRITE": "writing to memory failed",
        "ABORTED": "aborted",
    }


def cases(prefix: str, states: Mapping[str, str]) -> str:
    """Return the cases of a switch that turns states of the hardware into errors."""
    return "\n".join(
        f"    case {prefix}_{state}:\n        return {prefix}_E_{error};"
        for state, error in states.items()
    )


def sections(template: str) -> dict[str, str]:
    """Return the parts of a file by what stands behind the mark that begins each."""
    found = {}
    for part in _with_pieces(_read(template)).split(_MARK)[1:]:
        head, text = part.split("\n", 1)
        found[head.split()[0]] = text
    return found


def wrapped_list(parts: Sequence[str], indent: str) -> str:
    """Return parts with commas between them, in lines of a readable length."""
    lines = [""]
    for number, part in enumerate(parts):
        text = part + ("," if number + 1 < len(parts) else "")
        if len(lines[-1]) + len(text) > _COLUMNS and lines[-1]:
            lines.append("")
        lines[-1] += f" {text}" if lines[-1] else text
    return indent + f"\n{indent}".join(lines)


def _with_pieces(text: str) -> str:
    return _INCLUDE.sub(lambda found: _with_pieces(_read(f"pieces/{found[1]}")), text)


def _read(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")
