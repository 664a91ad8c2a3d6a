# SPDX-License-Identifier: Apache-2.0
"""Power of mapped netlists."""
