# SPDX-License-Identifier: Apache-2.0
"""Learned predictions of synthesis results, compared with the analytical model."""
