# SPDX-License-Identifier: Apache-2.0
"""Execution of networks by NumPy and by golden models."""
