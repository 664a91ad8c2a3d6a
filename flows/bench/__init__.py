# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: each measures against a baseline in the same run (``make bench-...``)."""
