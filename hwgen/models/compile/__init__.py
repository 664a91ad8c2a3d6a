# SPDX-License-Identifier: Apache-2.0
"""Compilation of networks to jobs and command lists."""
