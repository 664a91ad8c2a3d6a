# SPDX-License-Identifier: Apache-2.0
"""Networks: layers, operations, work."""
