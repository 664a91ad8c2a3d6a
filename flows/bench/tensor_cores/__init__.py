# SPDX-License-Identifier: Apache-2.0
"""Tensor cores of GPUs against hwgen's accumulators of their names: results and costs."""
