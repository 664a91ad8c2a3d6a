# SPDX-License-Identifier: Apache-2.0
"""Files and pages that a finished sweep writes."""
