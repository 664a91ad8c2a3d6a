# SPDX-License-Identifier: Apache-2.0
"""External tools: discovery, processes, caches."""
