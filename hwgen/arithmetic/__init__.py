# SPDX-License-Identifier: Apache-2.0
"""Exact arithmetic on digits, bit heaps and functions."""
