# SPDX-License-Identifier: Apache-2.0
"""Measurements that ``make bench-...`` runs."""
