# SPDX-License-Identifier: Apache-2.0
"""The demonstration: generated hardware reads handwritten digits."""
