# SPDX-License-Identifier: Apache-2.0
"""C of a compiled model: the engine's registers and driver, and a loop that generates tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flows.build.drivers.c_templates import filled
from flows.build.files import c_header
from flows.build.drivers.model_facts import model_facts
from flows.build.drivers.stream_driver import list_driver

if TYPE_CHECKING:
    from hwgen.core.lists.builder import ListEngine


def model_driver(config: ListEngine, document: Mapping[str, Any]) -> dict[str, str]:
    """Return the files, name to text; C99 without a library.

    Parameters
    ----------
    config : ListEngine
    document : mapping
        Of a compiled model; see `hwgen.models.compile.compiled.Compilation.document`.
    """
    tokens = next(array for array in document["arrays"] if array["name"] == "tokens")
    memory = {
        "LIST": f"UINT64_C({document['list']['address']:#x})",
        "DESCRIPTORS": f"{document['list']['descriptors']}u",
        "TOKENS": f"UINT64_C({tokens['address']:#x})",
    }
    registers = {f"R_{name}": f"{number}u" for name, number in document["registers"].items()}
    facts = model_facts(config, document, memory, registers=registers)
    return {
        f"{config.name}_regs.h": c_header(config),
        **list_driver(config),
        **filled(config, "generate", {"FACTS": facts}),
    }
