# SPDX-License-Identifier: Apache-2.0
"""Buffers and cell sizes of a mapped netlist."""
