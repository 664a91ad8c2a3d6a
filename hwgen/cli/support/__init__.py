# SPDX-License-Identifier: Apache-2.0
"""Options, operands and outputs that commands share."""
