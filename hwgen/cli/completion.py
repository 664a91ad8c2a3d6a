# SPDX-License-Identifier: Apache-2.0
"""Print the script that lets a shell complete hwgen's command lines."""

from __future__ import annotations

import click

from hwgen.cli.support.common import example

_SHELLS = ("bash", "zsh", "fish")


@click.command(
    epilog=example(
        'eval "$(hwgen completion bash)"',
        "Commands, options, families, technologies, devices, formats, workloads and files are"
        " completed. The example's line belongs in ~/.bashrc; that of zsh in ~/.zshrc. fish:"
        " `hwgen completion fish > ~/.config/fish/completions/hwgen.fish`.",
    )
)
@click.argument("shell", type=click.Choice(_SHELLS))
def command(shell: str) -> None:
    """Print the script that lets a SHELL complete hwgen's command lines."""
    from click.shell_completion import get_completion_class

    completer = get_completion_class(shell)
    assert completer is not None
    root = click.get_current_context().find_root().command
    click.echo(completer(root, {}, "hwgen", "_HWGEN_COMPLETE").source())
