# SPDX-License-Identifier: Apache-2.0
"""Bus models and monitors for cocotb."""
