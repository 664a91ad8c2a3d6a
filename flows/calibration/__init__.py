# SPDX-License-Identifier: Apache-2.0
"""Calibrating the cost model: what to synthesize, measuring it, fitting, checking."""
