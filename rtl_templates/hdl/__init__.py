# SPDX-License-Identifier: Apache-2.0
"""Blocks, hierarchy, memories and the AXI shell."""
