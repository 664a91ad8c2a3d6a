# SPDX-License-Identifier: Apache-2.0
"""Exhaustive tables of spaces, made by the cost model for `hwgen.gym`."""
