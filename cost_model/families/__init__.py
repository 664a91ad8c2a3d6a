# SPDX-License-Identifier: Apache-2.0
"""The cost models of the families, one module each."""
