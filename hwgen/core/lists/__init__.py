# SPDX-License-Identifier: Apache-2.0
"""Command lists: encoding, building, golden interpreter."""
