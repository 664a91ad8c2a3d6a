# SPDX-License-Identifier: Apache-2.0
"""cocotb test modules."""
