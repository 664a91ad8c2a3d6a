# SPDX-License-Identifier: Apache-2.0
"""Caches of tests' own that need not compile what all simulations share."""

from __future__ import annotations

from pathlib import Path

from flows.tools.cache import cache_directory


def with_runtime(cache: Path) -> Path:
    """Make a cache that has nothing but Verilator's run-time library, and return it.

    The library is that of the cache that is in use, so a test compiles it only if none has before.
    """
    shared = cache_directory() / "verilator"
    shared.mkdir(parents=True, exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    (cache / shared.name).symlink_to(shared, target_is_directory=True)
    return cache
