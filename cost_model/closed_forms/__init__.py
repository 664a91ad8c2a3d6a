# SPDX-License-Identifier: Apache-2.0
"""Closed-form cost models for sweeps."""
