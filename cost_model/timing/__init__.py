# SPDX-License-Identifier: Apache-2.0
"""Timing of netlists: arrival times through their words, bit by bit."""
