# SPDX-License-Identifier: Apache-2.0
"""The waveforms of the documentation are what the RTL does today."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from sim_tests.simulation.waveforms import WAVEFORMS, Waveform, render, sample
from sim_tests.support.paths import ROOT

IMAGES = ROOT / "docs" / "images"

VCD = """\
$scope module top $end
 $var wire 1 ! aclk $end
 $scope module core $end
  $var wire 4 " count [3:0] $end
 $upscope $end
$upscope $end
$scope module other $end
 $var wire 1 # aclk $end
$upscope $end
$enddefinitions $end
#0
0!
b101 "
#1
1!
b110 "
#2
0!
#3
1!
0#
#4
"""


def test_signals_are_sampled_before_the_edge() -> None:
    assert sample(iter(VCD.splitlines()), "top") == {"aclk": [0, 0], "core.count": [5, 6]}


@pytest.mark.slow
@pytest.mark.parametrize("waveform", WAVEFORMS, ids=lambda waveform: waveform.name)
@pytest.mark.rotate(6)
def test_the_drawings_are_current(waveform: Waveform) -> None:
    text = render(waveform)
    ET.fromstring(text)
    committed = (IMAGES / f"{waveform.name}.svg").read_text(encoding="utf-8")
    assert committed == text, "run make docs"
