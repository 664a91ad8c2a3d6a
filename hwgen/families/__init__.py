# SPDX-License-Identifier: Apache-2.0
"""Accelerator families, one package each."""
