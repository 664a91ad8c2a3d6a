# SPDX-License-Identifier: Apache-2.0
"""The pages of users look as they did: compared with stored pictures, small and tolerant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from sim_tests.docs.screenshots import (
    PAGES,
    STORED,
    TOLERANCE,
    difference,
    opened_pages,
    screenshot,
    stored,
)
from sim_tests.support.browser import WIDTHS, launch_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launch_browser() as result:
        yield result


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with opened_pages(tmp_path_factory.mktemp("pages")) as result:
        yield result


@pytest.mark.slow
@pytest.mark.rotate(12)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_looks_as_it_did(
    name: str, width: int, browser: Any, addresses: dict[str, str], tmp_path: Path
) -> None:
    picture = screenshot(browser, name, addresses[name], width)
    picture.save(tmp_path / "now.png")
    share = difference(picture, Image.open(stored(name, width)))
    assert share <= TOLERANCE, (
        f"{share:.1%} of {stored(name, width).name} differ from {tmp_path / 'now.png'}; if the"
        " change is meant, run make screenshots"
    )


def test_stored_pictures_are_small() -> None:
    files = sorted(STORED.iterdir())
    assert files == sorted(stored(name, width) for name in PAGES for width in WIDTHS)
    assert all(path.stat().st_size < 24_000 for path in files)


def test_differences_are_counted() -> None:
    white, page = Image.new("RGB", (10, 20), "white"), Image.new("RGB", (10, 20), "white")
    assert difference(white, page) == 0
    page.paste("black", (0, 0, 10, 1))
    assert difference(white, page) == 0.05
    page.paste((250, 240, 230), (0, 0, 10, 1))
    assert difference(white, page) == 0
    assert difference(white, page.crop((0, 0, 10, 10))) == 0.5
