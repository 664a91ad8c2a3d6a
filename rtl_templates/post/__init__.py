# SPDX-License-Identifier: Apache-2.0
"""Post-processing of accumulators: bias, activation, requantisation or conversion to float."""

from .post import Post

__all__ = ["Post"]
