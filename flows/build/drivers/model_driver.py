# SPDX-License-Identifier: Apache-2.0
"""C headers of compiled models, and the program of one that is compiled to a command list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flows.build.drivers.c_templates import render
from flows.build.drivers.engine_drivers import list_driver
from flows.build.files import c_header
from hwgen.core.register_map import JOB_WINDOW

if TYPE_CHECKING:
    from hwgen.core.core import Core
    from hwgen.models.compile.list_builder import ListEngine

_NOTHING = 0xFFFFFFFF
"""A number that is no token."""


def model_facts(
    name: str,
    document: Mapping[str, Any],
    memory: Mapping[str, str],
    sizes: Mapping[str, str] | None = None,
    registers: Mapping[str, str] | None = None,
) -> str:
    """Return the lines that define ``..._MODEL_...``.

    Parameters
    ----------
    name : str
        Of the engine.
    document : mapping
        Of a compiled model; see `hwgen.models.compile.compiled_files.DOCUMENT`.
    memory, sizes, registers : mapping
        Definitions that only some compiled models have, name to value in C: of memory, of the
        network, of registers that are written at run time.
    """
    decoder, end = {}, {}
    if "context" in document:
        decoder = {key.upper(): f"{document[key]}u" for key in ("context", "vocabulary")}
        end["END"] = f"{_NOTHING if document['end'] is None else document['end']:#x}u"
    facts = {
        "BASE": f"UINT64_C({document['base']:#x})",
        "BYTES": f"UINT64_C({document['bytes']})",
        "IMAGE_BYTES": f"UINT64_C({document['image_bytes']})",
        **memory,
        **decoder,
        **(sizes or {}),
        **end,
        **(registers or {}),
    }
    prefix = name.upper()
    return "\n".join(f"#define {prefix}_MODEL_{fact} {value}" for fact, value in facts.items())


def job_facts(document: Mapping[str, Any]) -> dict[str, str]:
    """Return definitions of the memory of a model that is compiled to jobs; see `model_facts`."""
    return {
        "HOST_BYTES": f"UINT64_C({document['host_bytes']})",
        "WORK_BYTES": f"UINT64_C({document['work_bytes']})",
        "JOBS": f"{document['program']['jobs']}u",
        "JOB_WORDS": f"{document['program']['words']}u",
        "JOB_WINDOW": f"{JOB_WINDOW:#x}u",
    }


def model_driver(core: Core[ListEngine], document: Mapping[str, Any]) -> dict[str, str]:
    """Return the files, name to text; C99 without a library.

    Parameters
    ----------
    core : Core
    document : mapping
        Of a compiled model; see `hwgen.models.compile.compilation.Compilation.document`.
    """
    tokens = next(array for array in document["arrays"] if array["name"] == "tokens")
    memory = {
        "LIST": f"UINT64_C({document['list']['address']:#x})",
        "DESCRIPTORS": f"{document['list']['descriptors']}u",
        "TOKENS": f"UINT64_C({tokens['address']:#x})",
    }
    registers = {f"R_{name}": f"{number}u" for name, number in document["registers"].items()}
    facts = model_facts(core.name, document, memory, registers=registers)
    return {
        f"{core.name}_regs.h": c_header(core),
        **list_driver(core),
        **render(core, "generate", {"FACTS": facts}),
    }
