# SPDX-License-Identifier: Apache-2.0
"""hwgen: a generator of verified matrix-multiplication accelerators."""

from importlib import import_module

__version__ = "0.1.0"
__all__ = ["__version__", "build", "load"]  # the last two are imported on demand

_API = "flows.build.api"  # which imports everything, and lies above this package


def __getattr__(name: str) -> object:
    """Import the interface for programs when it is used."""
    if name in ("build", "load"):
        return getattr(import_module(_API), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
