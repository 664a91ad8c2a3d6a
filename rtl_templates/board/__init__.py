# SPDX-License-Identifier: Apache-2.0
"""Surroundings of a stream core on a board: a serial port, a bridge, reset and pins."""
