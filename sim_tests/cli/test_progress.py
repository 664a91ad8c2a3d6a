# SPDX-License-Identifier: Apache-2.0
"""Steps of long work: what is prepared for a step is shown in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.simulation.programs import compiled
from hwgen.progress import compiling, report, shown_by


def test_what_is_prepared_does_not_count_as_a_step() -> None:
    shown: list[tuple[str, int, int]] = []
    with shown_by(lambda *step: shown.append(step)) as update:
        update("layer 3", 3, 9)
        with compiling("rtl"):
            pass
        report("layer 4", 4, 9)
    assert shown == [
        ("layer 3", 3, 9),
        ("compiling rtl", 3, 9),
        ("layer 3", 3, 9),
        ("layer 4", 4, 9),
    ]
    with compiling("nobody looks"):
        report("alone", 1)
    assert len(shown) == 4


def test_a_simulation_that_is_compiled_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HWGEN_CACHE_DIR", str(tmp_path))
    shown: list[str] = []

    def make(work: Path) -> None:
        (work / "top").write_text("")

    with shown_by(lambda label, done, total: shown.append(label)):
        for _ in range(2):  # the second one is in the cache
            compiled("top", {"top.v": "module top; endmodule"}, ["a"], make)
    assert shown == ["compiling the RTL of top", ""]
