# SPDX-License-Identifier: Apache-2.0
"""Place and route."""
