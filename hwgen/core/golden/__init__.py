# SPDX-License-Identifier: Apache-2.0
"""Golden models that families share."""
