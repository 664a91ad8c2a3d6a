# SPDX-License-Identifier: Apache-2.0
"""Schedules that families share."""
