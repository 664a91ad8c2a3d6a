# SPDX-License-Identifier: Apache-2.0
"""Proofs about emitted Verilog: properties, the prover, and certificates."""
