# SPDX-License-Identifier: Apache-2.0
"""Small changes of emitted designs, and whether the regression notices them."""
