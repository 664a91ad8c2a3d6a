# SPDX-License-Identifier: Apache-2.0
"""Synthesis for standard cells and FPGAs."""
