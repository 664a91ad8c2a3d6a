# SPDX-License-Identifier: Apache-2.0
"""Closed-form models of area, energy, delay and cycles."""
