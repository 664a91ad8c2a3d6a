# SPDX-License-Identifier: Apache-2.0
"""The buffers of an engine, as its hardware has them and its costs count them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BufferShape:
    """A buffer: memories of one shape that are accessed together.

    Parameters
    ----------
    name : str
        What it holds.
    module : str
        The module that its memories are in.
    memories : int
    words, width : int
        Of one memory: both halves, but of results, which have a memory for each; bits of a word.
    """

    name: str
    module: str
    memories: int
    words: int
    width: int
