# SPDX-License-Identifier: Apache-2.0
"""Memories: macros, block memories, off-chip."""
