# SPDX-License-Identifier: Apache-2.0
"""A model of an SDR SDRAM, and simulations of the controller with it."""
