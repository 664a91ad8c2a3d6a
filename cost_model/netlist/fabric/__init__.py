# SPDX-License-Identifier: Apache-2.0
"""FPGA resources of a netlist."""
