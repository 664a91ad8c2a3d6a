# SPDX-License-Identifier: Apache-2.0
"""Designs of boards: emission, simulation at the pins, bitstreams."""
