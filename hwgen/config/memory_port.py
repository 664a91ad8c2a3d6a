# SPDX-License-Identifier: Apache-2.0
"""The parameters of the memory port of an engine."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from hwgen.config.base import Model


class Memory(Model):
    """The AXI4 port to the memory."""

    data_width: Literal[32, 64, 128, 256, 512] = Field(
        128, description="Width of the data.", json_schema_extra={"unit": "bits"}
    )
    address_width: int = Field(
        40, ge=16, le=64, description="Width of an address.", json_schema_extra={"unit": "bits"}
    )
    max_burst: Literal[1, 2, 4, 8, 16, 32, 64, 128, 256] = Field(
        32, description="Longest burst.", json_schema_extra={"unit": "beats"}
    )
    outstanding: int = Field(
        8,
        ge=1,
        le=64,
        description="Bursts in flight, each way; their data hides the memory's latency.",
        json_schema_extra={"unit": "bursts"},
    )
