# SPDX-License-Identifier: Apache-2.0
"""The flow of data through a memory engine, cycle by cycle: loads, cores, results."""
