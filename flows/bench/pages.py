# SPDX-License-Identifier: Apache-2.0
"""Parts of a page that a benchmark writes: what stands between two comments."""

from __future__ import annotations

from hwgen.errors import InputError


def section(page: str, name: str) -> str:
    """Return what stands between ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->``.

    Raises
    ------
    InputError
        If the page lacks one of them.
    """
    begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
    if begin not in page or end not in page:
        raise InputError(f"the page has no lines '{begin}' and '{end}' to put a table between")
    return page.split(begin, 1)[1].split(end, 1)[0]


def rewritten(page: str, name: str, text: str) -> str:
    """Return a page with the text between two comments replaced; see `section`."""
    old, begin = section(page, name), f"<!-- begin: {name} -->"
    return page.replace(f"{begin}{old}", f"{begin}\n\n{text.rstrip()}\n\n", 1)
