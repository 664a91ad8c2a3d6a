# SPDX-License-Identifier: Apache-2.0
"""Reports: datasheets, feature tables, configuration reference."""
