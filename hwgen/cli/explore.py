# SPDX-License-Identifier: Apache-2.0
"""Explore configurations on a local page."""

from __future__ import annotations

from pathlib import Path

import click

from hwgen.cli.support.common import example, optional_config

_PORT = 8765


@click.command(epilog=example("hwgen explore -c configs/systolic.yaml --port 0"))
@optional_config("Configuration file (YAML) to begin with; default: a systolic array.")
@click.option(
    "--port", metavar="N", type=click.IntRange(0, 65535), default=_PORT, show_default=True,
    help="Port of this machine that the page is served on; 0 for any free one.",
)  # fmt: skip
@click.option("--no-browser", is_flag=True, help="Open no browser; print the address only.")
def command(config: Path | None, port: int, no_browser: bool) -> None:
    """Explore configurations on a local page.

    Choose a family, sizes, formats and a target: legal values, messages and cycles of a workload
    follow at once; a block diagram and estimated costs follow when they are computed. The YAML can
    be copied. The page is served to this machine only, until Ctrl-C.
    """
    import webbrowser
    from contextlib import suppress

    from flows.explorer.draft import values_of
    from flows.explorer.server import Server
    from hwgen.core.load import load_draft

    first = {"family": "systolic", "name": "", "values": {}}
    if config is not None:
        draft = load_draft(config)
        first = {
            "family": draft.params.family,
            "name": draft.params.name,
            "values": values_of(draft),
        }
    server = Server(port, first)
    try:
        click.echo(f"{server.address}: explore configurations; Ctrl-C ends")
        if not no_browser:
            webbrowser.open(server.address)
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    finally:
        server.server_close()
