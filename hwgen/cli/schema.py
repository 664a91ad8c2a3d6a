# SPDX-License-Identifier: Apache-2.0
"""Print the JSON Schema of configuration files, for editors."""

from __future__ import annotations

import json
from importlib import resources

import click

from hwgen.cli.support.common import emit_json, example


@click.command(
    epilog=example(
        "hwgen schema > hwgen.schema.json",
        "VS Code's YAML extension takes it under `yaml.schemas`.",
    )
)
@click.option(
    "--manifest", is_flag=True, help="Print that of the manifests of built cores instead."
)
@click.option("--json", is_flag=True, expose_value=False, help="Accepted; the schema is JSON.")
def command(manifest: bool) -> None:
    """Print the JSON Schema of configuration files, for editors."""
    if manifest:
        file = resources.files("flows.build") / "manifest.schema.json"
        emit_json(json.loads(file.read_text(encoding="utf-8")))
        return
    from hwgen.reports.configuration import json_schema

    emit_json(json_schema())
