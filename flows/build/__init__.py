# SPDX-License-Identifier: Apache-2.0
"""From a configuration to its hardware and the files that describe it."""
