# SPDX-License-Identifier: Apache-2.0
"""Modules that take long to load, imported when something of them is first used.

Number formats belong to every configuration, but commands such as ``hwgen init`` need no arrays.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ml_dtypes
    import numpy as np
    from numpy.typing import NDArray
else:

    class _LazyModule(ModuleType):
        """Stand-in for a module, which it imports at the first access to an attribute."""

        def __getattr__(self, name: str) -> object:
            module = import_module(self.__name__)
            public = {key: value for key, value in vars(module).items() if key[:2] != "__"}
            self.__dict__.update(public)
            return getattr(module, name)

    class NDArray:
        """Stand-in for `numpy.typing.NDArray`, which only annotations name."""

        def __class_getitem__(cls, dtype: object) -> type:
            return cls

    np = _LazyModule("numpy")
    ml_dtypes = _LazyModule("ml_dtypes")

__all__ = ["NDArray", "ml_dtypes", "np"]
