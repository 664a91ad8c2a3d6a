# SPDX-License-Identifier: Apache-2.0
"""Golden models: NumPy, bit-exact to the RTL."""
