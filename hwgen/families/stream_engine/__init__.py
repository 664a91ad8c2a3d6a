# SPDX-License-Identifier: Apache-2.0
"""Memory engines around a stream core."""
