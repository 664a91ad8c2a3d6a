# SPDX-License-Identifier: Apache-2.0
"""Running the programs of this package: errors end them as they end `hwgen`."""

from __future__ import annotations

import click

from hwgen.errors import HwgenError


def run_program(command: click.Command) -> int:
    """Run a program with the arguments of the process and return its exit status."""
    try:
        status = command.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return 2
    except click.Abort:
        return 130
    except HwgenError as error:
        click.echo(f"error: {error}", err=True)
        return error.exit_status
    return status if isinstance(status, int) else 0
