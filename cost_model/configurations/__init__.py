# SPDX-License-Identifier: Apache-2.0
"""Many configurations of a family at once: legality, cycles and rates by the family's own code."""
