# SPDX-License-Identifier: Apache-2.0
"""Small pictures of the pages that users see, to compare with stored ones.

``python -m sim_tests.docs.screenshots`` (``make screenshots``) writes the stored ones again.
"""

from __future__ import annotations

import base64
import io
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from flows.explorer.server import Server
from hwgen.cli import main
from sim_tests.support.browser import WIDTHS, launch_browser, open_page
from sim_tests.support.paths import ROOT
from sim_tests.sweep.sweep_costs import PAGE_SWEEP, use_made_up_costs

STORED = ROOT / "sim_tests" / "data" / "screenshots"

PAGES = ("sweep", "datasheet", "explorer")

FACTORS = {1400: 5, 390: 3}
"""Pixels of a page for one of the picture, by the width of the window."""

MOST_ROWS = 1300
"""Rows of a picture; what is below is not compared."""

DIFFERENT = 40
"""Levels of 255 by which a pixel differs visibly."""

TOLERANCE = 0.02
"""Share of pixels that may differ: numbers of estimates change, and browsers draw controls."""

_SWEEP = f"""{PAGE_SWEEP}\
targets: {{technology: [nangate45, asap7]}}
group_by: target.technology
"""

_PIN = """async (font) => {
  const bytes = Uint8Array.from(atob(font), (letter) => letter.charCodeAt(0));
  document.fonts.add(await new FontFace("Pinned", bytes).load());
  const style = document.createElement("style");
  style.textContent = "* { font-family: Pinned !important; caret-color: transparent !important; }";
  document.head.append(style);
  dispatchEvent(new Event("resize"));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""


@contextmanager
def opened_pages(folder: Path) -> Iterator[dict[str, str]]:
    """Make the pages of `PAGES`; yield their addresses."""
    (folder / "sweep.yaml").write_text(_SWEEP)
    (folder / "core.yaml").write_text("name: core\nfamily: systolic\n")
    sweep = ["sweep", "-c", f"{folder / 'sweep.yaml'}", "-o", f"{folder / 'out'}", "--jobs", "1"]
    sheet = ["-c", f"{folder / 'core.yaml'}", "--gemm", "64,64,64", "-o", f"{folder / 'core.html'}"]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()):
        use_made_up_costs(patch)
        assert main(sweep) == 0
    with redirect_stdout(io.StringIO()):
        assert main(["report", *sheet]) == 0
    values = {"array.rows": 8, "array.cols": 8}
    server = Server(0, {"family": "systolic", "name": "", "values": values})
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield {
            "sweep": (folder / "out" / "report.html").as_uri(),
            "datasheet": (folder / "core.html").as_uri(),
            "explorer": server.address,
        }
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def screenshot(browser: Any, name: str, address: str, width: int) -> Image.Image:
    """Return the small picture of a page in a window of a width, with its font pinned."""
    font = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    with open_page(browser, address, width, color_scheme="light") as tab:
        if name == "explorer":
            ready = "!document.querySelector('#diagram').classList.contains('pending')"
            tab.wait_for_function(ready)
            tab.evaluate("document.getElementById('folder').textContent = 'here'")
        tab.evaluate(_PIN, base64.b64encode(font.read_bytes()).decode())
        whole = Image.open(io.BytesIO(tab.screenshot(full_page=True))).convert("RGB")
    factor = FACTORS[width]
    small = whole.resize((width // factor, whole.height // factor), Image.Resampling.BOX)
    return small.crop((0, 0, small.width, min(small.height, MOST_ROWS)))


def difference(one: Image.Image, other: Image.Image) -> float:
    """Return the share of pixels that differ; where only one has a pixel, it does."""
    first, second = _pixels(one), _pixels(other)
    rows, columns = (max(each) for each in zip(first.shape[:2], second.shape[:2], strict=True))
    canvas = np.empty((2, rows, columns, 3), np.int16)
    canvas[0], canvas[1] = -999, 999
    for place, pixels in zip(canvas, (first, second), strict=True):
        place[: pixels.shape[0], : pixels.shape[1]] = pixels
    return float((np.abs(canvas[0] - canvas[1]).max(-1) > DIFFERENT).mean())


def stored(name: str, width: int) -> Path:
    """Return the file of a stored picture."""
    return STORED / f"{name}_{width}.png"


def _pixels(picture: Image.Image) -> NDArray[np.int16]:
    return np.asarray(picture.convert("RGB"), np.int16)


def write() -> None:
    """Write the stored pictures again, in 48 colours."""
    STORED.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        launch_browser() as browser,
        opened_pages(Path(folder)) as addresses,
    ):
        for name, address in addresses.items():
            for width in WIDTHS:
                picture = screenshot(browser, name, address, width)
                picture.quantize(48).save(stored(name, width), optimize=True)


if __name__ == "__main__":
    write()
