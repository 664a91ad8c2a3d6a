# SPDX-License-Identifier: Apache-2.0
"""Groups of commands, some of which have a second name."""

from __future__ import annotations

import click

ALIASES = {"quantize": "quantise", "synthesise": "synth", "synthesize": "synth"}
"""Further names of commands, in any group."""


class AliasedGroup(click.Group):
    """A group whose commands also answer to `ALIASES`."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))
