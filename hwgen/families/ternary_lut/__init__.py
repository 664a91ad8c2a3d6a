# SPDX-License-Identifier: Apache-2.0
"""Ternary-LUT cores."""
