# SPDX-License-Identifier: Apache-2.0
"""Configuration files: reading, checking, and the reference made from their schema."""
