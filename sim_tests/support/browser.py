# SPDX-License-Identifier: Apache-2.0
"""Pages in a browser: the machine's Chromium, or the one of ``playwright install chromium``.

Without any, tests are skipped and say so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

WIDTHS = (1400, 390)
"""Pixels of a window on a desk and on a phone."""


def find_chromium() -> str | None:
    """Return the Chromium of this machine, None if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    result = [os.environ.get("HWGEN_CHROMIUM"), *map(shutil.which, names)]
    return next((name for name in result if name), None)


@contextmanager
def launch_browser() -> Iterator[Any]:
    """Start a browser; skip the test where there is none.

    Yields
    ------
    playwright.sync_api.Browser
    """
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        # Without its sandbox: a container has none to give, and the pages are our own.
        path = find_chromium()
        try:
            result = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except Error as error:
            if path is not None:
                raise
            pytest.skip(
                "no Chromium: install it (apt install chromium, or playwright install chromium),"
                f" or set HWGEN_CHROMIUM; {str(error).splitlines()[0]}"
            )
        yield result
        result.close()


@contextmanager
def open_page(browser: Any, address: str, width: int, **options: Any) -> Iterator[Any]:
    """Open a page; errors in it, requests of other hosts and scrolling sideways fail the test.

    Parameters
    ----------
    browser : playwright.sync_api.Browser
    address : str
    width : int
        Of the window, in pixels.
    **options
        Of `Browser.new_page`.
    """
    tab = browser.new_page(viewport={"width": width, "height": 1000}, **options)
    problems: list[str] = []
    host = urlsplit(address).netloc
    tab.on("pageerror", lambda error: problems.append(str(error)))
    tab.on("console", lambda m: problems.append(m.text) if m.type == "error" else None)
    tab.on("request", lambda r: problems.append(r.url) if urlsplit(r.url).netloc != host else None)
    tab.goto(address)
    yield tab
    wide = tab.evaluate("document.documentElement.scrollWidth")
    tab.close()
    assert problems == []
    assert wide <= width
