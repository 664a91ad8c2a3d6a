# SPDX-License-Identifier: Apache-2.0
"""Types of the names that `hwgen` imports on demand."""

from flows.build.api import build as build
from flows.build.api import load as load

__version__: str
__all__ = ["__version__", "build", "load"]
