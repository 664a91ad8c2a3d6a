# SPDX-License-Identifier: Apache-2.0
"""Schedules: how a matrix product of any size becomes the tile jobs of a core."""
