# SPDX-License-Identifier: Apache-2.0
"""Stimuli and expected results of a stream core as files, and a testbench that reads them."""
