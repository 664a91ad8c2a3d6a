# SPDX-License-Identifier: Apache-2.0
"""Residue codes of cores that sum integer products: a small core that computes modulo 2^k - 1.

It has the same sequencer, and arrays of one column for the sum of all columns.
"""
