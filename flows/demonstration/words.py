# SPDX-License-Identifier: Apache-2.0
"""Words of each page of the documentation: ``python -m flows.demonstration.words``.

Pages have a limit, so that each keeps to one subject.  References and tables that a program writes,
and appendices of results, are read by looking up, and have none.
"""

from __future__ import annotations

import sys
from pathlib import Path

README, PAGE = 900, 2500
"""Most words of the README and of a page."""

UNLIMITED = {
    "configuration.md", "cost-coefficients.md", "features.md", "onnx-backend-tests.md",
    "supported-operators.md",
    "technology-fields.md",
}  # fmt: skip
"""References, which a program writes or compares."""

APPENDIX = "results-"
"""Begins the names of appendices: tables of results, and the commands that make them."""

LONGER = {"adding-a-family.md": 2600}
"""Pages that are still to be split, and what they must not grow beyond."""


def limit(page: Path) -> int | None:
    """Return the most words that a page may have, None for any number."""
    if page.name in UNLIMITED or page.name.startswith(APPENDIX) or page.parent.name == "api":
        return None
    if page.parent.name != "docs":
        return README
    return LONGER.get(page.name, PAGE)


def main(root: Path) -> int:
    """Print the words of each page, and return 1 if one has too many."""
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    status = total = 0
    for page in pages:
        words, most = len(page.read_text(encoding="utf-8").split()), limit(page)
        total += words
        mark = "" if most is None or words <= most else f"  more than {most:,}: split the page"
        status |= bool(mark)
        sys.stdout.write(f"{words:7,}  {page.relative_to(root)}{mark}\n")
    sys.stdout.write(f"{total:7,}  in all\n")
    return status


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parents[2]))
