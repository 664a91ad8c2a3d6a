# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of everything that reads files of a user."""
