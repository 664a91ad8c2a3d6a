# SPDX-License-Identifier: Apache-2.0
"""The command line.

A command is a module of this package with a `click.Command` called ``command``; its name is the
module's and its line in ``hwgen --help`` is the first line of the module's docstring.  Modules
are imported only when their command is used.  `hwgen.cli.support` holds what they share.

Commands raise `hwgen.errors.HwgenError` (or let an `OSError` about a file pass); `main` prints
it and returns its exit status.
"""

from __future__ import annotations

import ast
import gc
import io
import os
import pkgutil
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import NoReturn

import click

from hwgen import __version__
from hwgen.cli.support.groups import ALIASES, AliasedGroup
from hwgen.errors import ConfigError, HwgenError, did_you_mean

_HELPERS = frozenset({"support"})
_INTERRUPTED, _BROKEN_PIPE, _DEFECT = 130, 141, 70

_OBJECTS = 50_000
"""New objects after which Python looks for garbage."""


class LazyGroup(AliasedGroup):
    """The group of all commands, each imported when it is first used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        names = (module.name for module in pkgutil.iter_modules(__path__))
        return sorted(n.replace("_", "-") for n in names if n[0] != "_" and n not in _HELPERS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        if cmd_name not in self.list_commands(ctx):
            return None
        command = import_module(f"{__name__}.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, commands = args[0], self.list_commands(ctx)
        if name not in (*commands, *ALIASES) and not name.startswith("-"):
            ctx.fail(f"no command is called {name!r}{did_you_mean(name, commands)}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(name)) for name in self.list_commands(ctx)])


def _summary(name: str) -> str:
    """Return the first line of a command module's docstring without importing the module."""
    spec = find_spec(f"{__name__}.{name.replace('-', '_')}")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).read_text(encoding="utf-8")
    lines = (ast.get_docstring(ast.parse(source)) or "").splitlines()
    return lines[0] if lines else ""


@click.group(
    cls=LazyGroup,
    name="hwgen",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit status: 0 done, 1 a check failed, 2 bad input, 3 a tool is missing.\n\n"
    "\b\nExample:\n  hwgen init systolic --name tour -o tour.yaml",
)
@click.version_option(__version__, prog_name="hwgen", message="%(prog)s %(version)s")
def cli() -> None:
    """Turn a YAML file into a verified matrix-multiplication accelerator."""


def main(arguments: Sequence[str] | None = None, command: click.Command = cli) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments after the program's name; default ``sys.argv[1:]``.
    command : click.Command
        What to run; a program beside hwgen gives its own to end the way hwgen does.

    Returns
    -------
    int
        The exit status: 0 done, 1 a check failed, 2 bad input, 3 a tool is missing, 70 a defect
        of hwgen, 130 interrupted.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    # What modules consist of is no garbage: looking for some while they load takes a twentieth of a
    # short command.
    gc.set_threshold(_OBJECTS)
    restore = _unwind_on_terminate()
    _escape_what_cannot_be_encoded()
    try:
        name = "hwgen" if command is cli else None
        status = command.main(arguments, prog_name=name, standalone_mode=False)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except BrokenPipeError:
        # The reader has gone; the interpreter's last flush must not complain about it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _BROKEN_PIPE
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.ClickException as error:
        text = [f"error: {error.format_message()}"]
        if isinstance(error, click.UsageError) and error.ctx is not None:
            text.append(f"try: {error.ctx.command_path} --help")
        return _report(arguments, "\n".join(text), 2, error.format_message())
    except ConfigError as error:
        # Nothing before the position: editors and terminals jump to lines that begin with it.
        problems: list[dict[str, object]] = [
            {
                "file": p.file,
                "line": p.line,
                "column": p.column,
                "field": p.field,
                "message": p.message,
            }
            for p in error.problems
        ]
        return _report(arguments, str(error), error.exit_status, str(error), problems)
    except HwgenError as error:
        return _report(arguments, f"error: {error}", error.exit_status, str(error))
    except (click.Abort, KeyboardInterrupt):
        return _report(arguments, "interrupted", _INTERRUPTED, "interrupted")
    except Exception as error:  # no traceback may reach a user
        return _unexpected(arguments, error)
    finally:
        restore()


def _report(
    arguments: Sequence[str],
    text: str,
    status: int,
    message: str,
    problems: Sequence[dict[str, object]] = (),
) -> int:
    """Print an error to stderr, and as JSON to stdout where JSON was asked for."""
    click.echo(text, err=True)
    if "--json" in arguments:
        from hwgen.cli.support.common import emit_json

        failure = {"status": status, "message": message, "problems": list(problems)}
        emit_json({"error": failure})
    return status


def _unexpected(arguments: Sequence[str], error: Exception) -> int:
    """Report an exception that is not a `HwgenError`: a file that cannot be used, or a defect."""
    if os.environ.get("HWGEN_DEBUG"):
        import traceback

        traceback.print_exc()
    if isinstance(error, OSError) and error.strerror:
        place = f"{error.filename}: " if error.filename else ""
        message = f"{place}{error.strerror}"
        return _report(arguments, f"error: {message}", 2, message)
    message = f"{type(error).__name__}: {error}"
    hint = (
        "This is a defect of hwgen, please report it with this line, the command and its"
        f" configuration (hwgen {__version__}, Python {sys.version.split()[0]}).\n"
        "HWGEN_DEBUG=1 shows where it happened."
    )
    return _report(arguments, f"internal error: {message}\n{hint}", _DEFECT, message)


def _escape_what_cannot_be_encoded() -> None:
    """Make stdout write escapes for what its encoding lacks, as stderr does.

    Names of files are any bytes, and an encoding may be ASCII.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _unwind_on_terminate() -> Callable[[], object]:
    """Make SIGTERM and SIGHUP raise, so that such a job cleans up like an interrupted one.

    Returns
    -------
    callable
        Restores the former handlers.
    """

    def leave(signum: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + signum)

    former = {}
    try:
        for signum in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(signum) is not signal.SIG_IGN:  # as nohup wants it
                former[signum] = signal.signal(signum, leave)
    except ValueError:  # not in the main thread
        return lambda: None
    return lambda: [signal.signal(signum, handler) for signum, handler in former.items()]
