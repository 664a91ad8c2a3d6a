# SPDX-License-Identifier: Apache-2.0
"""Running external tools: Verilator, Yosys, nextpnr, OpenSTA; where they are found."""
