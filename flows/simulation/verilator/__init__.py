# SPDX-License-Identifier: Apache-2.0
"""Verilator: compilation, run-time library, waveforms."""
