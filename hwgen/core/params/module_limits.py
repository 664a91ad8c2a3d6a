# SPDX-License-Identifier: Apache-2.0
"""Width limits of the modules of a core."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hwgen.core.port import StreamPort

MODULE_BITS = 1 << 16
"""Bits that go into a module, and that come out of one, at most: Amaranth numbers no more."""

_CONTROL = 64
"""Bits beside data that a module of a core has at most: clock, handshakes, lines of sequencers."""

DATA_BITS = MODULE_BITS - _CONTROL
"""Bits of data of a module at most."""

ENGINE_DATA_BITS = MODULE_BITS - 4096
"""The same of a module of a memory engine, which gets the descriptor of a job beside its data."""


def input_bits(ports: Iterable[StreamPort]) -> int:
    """Return the bits of data of a beat of every input port."""
    return sum(port.data_width for port in ports if port.direction == "in")
