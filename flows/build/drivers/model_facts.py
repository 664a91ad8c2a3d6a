# SPDX-License-Identifier: Apache-2.0
"""What the C header of a compiled model says of it: addresses, sizes, and the token at the end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hwgen.core.register_map import JOB_WINDOW

if TYPE_CHECKING:
    from hwgen.core.params.base import FamilyConfig

_NOTHING = 0xFFFFFFFF
"""A number that is no token."""


def model_facts(
    config: FamilyConfig,
    document: Mapping[str, Any],
    memory: Mapping[str, str],
    sizes: Mapping[str, str] | None = None,
    registers: Mapping[str, str] | None = None,
) -> str:
    """Return the lines that define ``..._MODEL_...``.

    Parameters
    ----------
    config : FamilyConfig
        Of the engine.
    document : mapping
        Of a compiled model; see `hwgen.models.compile.compiled_files.DOCUMENT`.
    memory, sizes, registers : mapping
        What one kind of compiled model has beside the others, name to value in C: of its memory, of
        the network, and of what it is told at run time.
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
    prefix = config.name.upper()
    return "\n".join(f"#define {prefix}_MODEL_{name} {value}" for name, value in facts.items())


def job_facts(document: Mapping[str, Any]) -> dict[str, str]:
    """Return what a model that is compiled to jobs has of its memory; see `model_facts`."""
    return {
        "HOST_BYTES": f"UINT64_C({document['host_bytes']})",
        "WORK_BYTES": f"UINT64_C({document['work_bytes']})",
        "JOBS": f"{document['program']['jobs']}u",
        "JOB_WORDS": f"{document['program']['words']}u",
        "JOB_WINDOW": f"{JOB_WINDOW:#x}u",
    }
