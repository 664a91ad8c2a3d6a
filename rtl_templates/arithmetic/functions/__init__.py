# SPDX-License-Identifier: Apache-2.0
"""Function units in hardware; `hwgen.numerics.functions` chooses them."""
