# SPDX-License-Identifier: Apache-2.0
"""Pages of the site that lie outside the folder of the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""File of the repository: its page."""


def on_files(files: Files, config: Any) -> Files:
    """Add the pages; links into the documentation lead from where they are now."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to files of the repository to their pages; of others only the text is left."""
    for name, page in PAGES.items():
        markdown = markdown.replace(f"](../{name}", f"]({page}")
    return re.sub(r"\[([^\]]+)\]\(\.\./(?!images)[^)]*\)", r"\1", markdown)
