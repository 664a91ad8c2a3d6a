# SPDX-License-Identifier: Apache-2.0
"""Models on simulated hardware."""
