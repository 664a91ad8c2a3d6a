# SPDX-License-Identifier: Apache-2.0
"""How fast a structure is: arrival times through its words, bit by bit."""
