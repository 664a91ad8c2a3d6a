# SPDX-License-Identifier: Apache-2.0
"""Simulating emitted designs: compiled models, cocotb benches, users' matrices."""
