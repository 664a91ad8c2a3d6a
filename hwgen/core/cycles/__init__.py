# SPDX-License-Identifier: Apache-2.0
"""Cycle models of engines and command lists."""
