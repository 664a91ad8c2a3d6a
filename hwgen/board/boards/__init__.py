# SPDX-License-Identifier: Apache-2.0
"""Data files of the boards that come with hwgen."""
