# SPDX-License-Identifier: Apache-2.0
"""Estimates of a configuration."""
