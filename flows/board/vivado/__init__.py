# SPDX-License-Identifier: Apache-2.0
"""Projects of Vivado around an engine: packaged IP, block design, constraints, drivers."""
