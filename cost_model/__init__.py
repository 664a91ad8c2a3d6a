# SPDX-License-Identifier: Apache-2.0
"""Models of area, energy, delay and cycles, from netlists."""
