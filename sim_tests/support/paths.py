# SPDX-License-Identifier: Apache-2.0
"""Folders of the checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "configs"
DOCS = ROOT / "docs"
