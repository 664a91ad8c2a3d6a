# SPDX-License-Identifier: Apache-2.0
"""Search for whole engines: from a model and goals to configurations."""
