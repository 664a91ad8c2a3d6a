# SPDX-License-Identifier: Apache-2.0
"""AXI4: bus signatures, engines that read and write bursts, and byte alignment for them."""
