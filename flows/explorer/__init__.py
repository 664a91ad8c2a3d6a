# SPDX-License-Identifier: Apache-2.0
"""A local page on which a configuration is explored: `hwgen explore`."""
