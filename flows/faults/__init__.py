# SPDX-License-Identifier: Apache-2.0
"""Fault injection: mapped netlists with single faults, simulated at work."""
