# SPDX-License-Identifier: Apache-2.0
"""The data sheet as an HTML page that needs no other file, for screens and for print."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Mapping, Sequence
from urllib.parse import quote

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1b2733; --soft: #5b6875; --line: #d5dce3; --box: #f4f6f8;
        --page: #fff; --mark: #2563eb; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e7ecf0; --soft: #a3b0bd; --line: #35424f;
        --box: #1d2730; --page: #12181e; --mark: #7aa7ff; }} }}
* {{ box-sizing: border-box; }}
body {{ font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page);
       max-width: 74rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }}
h1, h2 {{ line-height: 1.2; }}
h2 {{ margin-top: 2rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; overflow-wrap: normal; }}
th, td {{ padding: .2rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top; }}
td:last-child {{ min-width: 12rem; }}
td[style*="right"]:last-child {{ min-width: 0; }}
th {{ text-align: left; color: var(--soft); font-weight: 600; }}
pre {{ background: var(--box); padding: .8rem; overflow-x: auto; overflow-wrap: normal; }}
code {{ font-size: 90%; }}
.tiles {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); gap: .8rem; }}
.tile {{ background: var(--box); border-top: 3px solid var(--mark); padding: .6rem .8rem; }}
.tile b {{ display: block; font-size: 1.3rem; line-height: 1.25; }}
.tile span, .tile small {{ color: var(--soft); }}
.picture {{ display: block; overflow-x: auto; background: #fff; padding: .3rem; }}
.picture svg {{ display: block; max-width: none; }}
@media (min-width: 1000px) {{ .picture svg {{ max-width: 100%; height: auto; }} }}
@media print {{
  @page {{ margin: 15mm; }}
  :root {{ color-scheme: light; --ink: #000; --soft: #444; --line: #bbb; --box: #fff; --page: #fff;
          --mark: #000; }}
  body {{ font-size: 10pt; margin: 0; max-width: none; padding: 0; }}
  h2 {{ break-after: avoid; }}
  .tiles {{ grid-template-columns: repeat(3, 1fr); }}
  .tile, .picture, tr {{ break-inside: avoid; }}
  .tile {{ border: 1px solid var(--line); }}
  .picture, table, pre {{ overflow: visible; }}
  table {{ display: table; width: 100%; }}
  pre {{ white-space: pre-wrap; }}
  .picture svg {{ max-width: 100%; max-height: 230mm; height: auto; }}
}}
</style>
</head>
<body>
{body}</body>
</html>
"""


def page(
    text: str,
    title: str,
    pictures: Mapping[str, str] | None = None,
    tiles: Sequence[tuple[str, str, str]] = (),
) -> str:
    """Return Markdown as an HTML page that needs no other file.

    Parameters
    ----------
    text, title : str
    pictures : mapping, optional
        SVG by the name of the file that the text says.
    tiles : sequence of (str, str, str)
        Label, value and note of each tile; they follow the first paragraph.
    """
    from markdown_it import MarkdownIt

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    for name, svg in (pictures or {}).items():
        image = re.compile(rf'<img src="{re.escape(quote(os.fsencode(name)))}"[^>]*>')
        shown = f'<span class="picture">{svg}</span>'
        body = image.sub(lambda _, shown=shown: shown, body)  # type: ignore[misc]
    if tiles:
        head, end, rest = body.partition("</p>\n")
        body = f"{head}{end}{_tiles(tiles)}{rest}"
    return _PAGE.format(title=html.escape(title), body=body)


def _tiles(tiles: Sequence[tuple[str, str, str]]) -> str:
    parts = [
        f'<div class="tile"><span>{html.escape(label)}</span><b>{html.escape(value)}</b>'
        f"<small>{html.escape(note)}</small></div>\n"
        for label, value, note in tiles
    ]
    return f'<div class="tiles">\n{"".join(parts)}</div>\n'
