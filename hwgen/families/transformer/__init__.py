# SPDX-License-Identifier: Apache-2.0
"""Engines of several units that execute command lists."""
