# SPDX-License-Identifier: Apache-2.0
"""A program by which the processor of a SoC tests an engine, and a SoC of LiteX to run it in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from flows.board.constants import python_file
from flows.build import files
from flows.simulation.vectors.export import JobVectors
from flows.simulation.vectors.host_script import EXPECT, POLL, REACH, REPORT, WRITE
from flows.simulation.vectors.memory_export import MemoryCase, memory_case
from hwgen.core.core import Core
from hwgen.core.operation import Job
from hwgen.core.protocols import ListCore
from hwgen.core.registry import core_of

SOC = "soc.py"
"""Name of the script of the SoC."""

TEST_ADDRESS = 0x4010_0000
"""Address of the operands: a megabyte after the beginning of LiteX's main memory, which a program
may be in."""

_MAIN_MEMORY = 0x4000_0000
_POLLS = 1_000_000
_JOBS = 2
_ACTIONS = {WRITE: "WRITE", POLL: "POLL", REACH: "REACH", EXPECT: "EXPECT", REPORT: "REPORT"}
_TEMPLATES = Path(__file__).parent / "templates" / "litex_test"


def soc_files(core: Core[Any], seed: int = 0) -> dict[str, str]:
    """Return a SoC of LiteX and the program that tests an engine in it, name to text.

    Parameters
    ----------
    core : Core
        An engine with one memory port.
    seed : int
        Of the operands.

    Raises
    ------
    InputError
        If its operands are too large.
    """
    case = _case(core, seed)
    end = TEST_ADDRESS + len(case.before) - _MAIN_MEMORY
    constants = {"MODULE": core.name, "MEMORY_BYTES": -(-end // 4096) * 4096}
    source = (_TEMPLATES / "test.c").read_text(encoding="utf-8")
    source = source.replace("@name@", core.name).replace("@NAME@", core.name.upper())
    return {
        SOC: python_file(core, "litex_soc.py", constants),
        "test.c": source,
        "test_data.h": _data(core, case),
        "start.S": (_TEMPLATES / "start.S").read_text(encoding="utf-8"),
        "test.ld": (_TEMPLATES / "test.ld").read_text(encoding="utf-8"),
    }


def _case(core: Core[Any], seed: int) -> MemoryCase:
    """Return two jobs of the first operation of natural size, with random operands."""
    source = core_of(core.params.job_unit) if isinstance(core, ListCore) else core
    operation = source.operations[0]
    sizes = operation.natural_sizes
    jobs = [JobVectors(Job(operation, sizes, operation.check_scalars({}))) for _ in range(_JOBS)]
    return memory_case(core, jobs, np.random.default_rng(seed), TEST_ADDRESS)


def _data(core: Core[Any], case: MemoryCase) -> str:
    """Return the C header of a test: what the host does, and memory before and after."""
    actions = [
        f"    {{{action}, 0x{offset:x}u, 0x{mask:x}u, 0x{value:x}u}},\n"
        for action, offset, mask, value in case.script.actions
    ]
    lines = [
        "/* SPDX-License-Identifier: Apache-2.0 */\n",
        f"/*\n{files.header(core, ' *')} */\n",
        f"#define TEST_ADDRESS 0x{TEST_ADDRESS:x}u\n",
        f"#define TEST_WORDS {len(case.before) // 4}u\n",
        f"#define TEST_LEAVES_INTERRUPT {int(not isinstance(core, ListCore))}\n",
        f"#define POLLS {_POLLS}u\n",
        *(f"#define ACTION_{name} {code}\n" for code, name in _ACTIONS.items()),
        "\n/* Action, offset of a register, mask, value. */\n",
        "static const uint32_t actions[][4] = {\n", *actions, "};\n",
        *_array("before", case.before), *_array("after", case.after),
    ]  # fmt: skip
    return "".join(lines)


def _array(name: str, data: bytes) -> list[str]:
    """Return the lines of an array of words, the lowest byte first."""
    words = [f"0x{word:08x}u" for word in np.frombuffer(data, "<u4")]
    rows = [", ".join(words[at : at + 8]) for at in range(0, len(words), 8)]
    return [f"\nstatic const uint32_t {name}[TEST_WORDS] = {{\n",
            *(f"    {row},\n" for row in rows), "};\n"]  # fmt: skip
