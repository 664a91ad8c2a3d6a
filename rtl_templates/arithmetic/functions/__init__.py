# SPDX-License-Identifier: Apache-2.0
"""Function units in hardware; `hwgen.arithmetic.functions` chooses them."""
