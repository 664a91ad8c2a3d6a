# SPDX-License-Identifier: Apache-2.0
"""Arithmetic: building blocks that every family uses."""
