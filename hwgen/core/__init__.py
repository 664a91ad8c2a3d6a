# SPDX-License-Identifier: Apache-2.0
"""Cores: operations, jobs, ports, schedules and golden models that families share."""
