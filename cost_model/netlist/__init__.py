# SPDX-License-Identifier: Apache-2.0
"""The word-level structure of emitted designs, and what it costs."""
