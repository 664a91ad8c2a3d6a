# SPDX-License-Identifier: Apache-2.0
"""Amaranth generators of the hardware."""
