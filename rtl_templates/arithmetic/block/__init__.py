# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of block formats."""
