# SPDX-License-Identifier: Apache-2.0
"""Memory engines that multiply matrices."""
