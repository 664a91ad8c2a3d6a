# SPDX-License-Identifier: Apache-2.0
"""Operands in files: arrays, and packed images."""
