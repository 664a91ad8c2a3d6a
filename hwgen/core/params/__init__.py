# SPDX-License-Identifier: Apache-2.0
"""Parameters that several families share, with their rules."""
