# SPDX-License-Identifier: Apache-2.0
"""Post-processing of accumulators: bias, activation, requantisation or conversion to float."""

from .pipeline import Post

__all__ = ["Post"]
