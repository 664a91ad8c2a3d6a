# SPDX-License-Identifier: Apache-2.0
"""Post-processing of a lane of accumulators."""
