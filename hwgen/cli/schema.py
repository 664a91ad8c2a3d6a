# SPDX-License-Identifier: Apache-2.0
"""Print the JSON Schema of configuration files, for editors."""

from __future__ import annotations

import click

from hwgen.cli.common import emit_json


@click.command(epilog="VS Code's YAML extension takes it under `yaml.schemas`.")
@click.option("--json", is_flag=True, expose_value=False, help="Accepted; the schema is JSON.")
def command() -> None:
    """Print the JSON Schema of configuration files, for editors."""
    from hwgen.config.reference import json_schema

    emit_json(json_schema())
