# SPDX-License-Identifier: Apache-2.0
"""Spatial arrays: `cube`, `adder_tree` and `broadcast_2d`."""
