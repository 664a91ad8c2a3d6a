# SPDX-License-Identifier: Apache-2.0
"""Wires of a mapped netlist, from where a placer puts its cells."""
