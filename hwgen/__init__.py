# SPDX-License-Identifier: Apache-2.0
"""hwgen: a generator of verified matrix-multiplication accelerators."""

__version__ = "0.1.0"
