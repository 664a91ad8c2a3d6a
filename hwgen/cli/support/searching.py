# SPDX-License-Identifier: Apache-2.0
"""Searches of commands: processes and progress, and the ends that a search may come to."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from hwgen.cli.support.common import emit_json, task_progress
from hwgen.cli.support.outputs import MARKER

if TYPE_CHECKING:
    from pathlib import Path

    from flows.search.journal import SearchJournal
    from flows.tools.executors import LocalProcesses


@contextmanager
def searching(
    directory: Path,
    journal: SearchJournal,
    jobs: int | None,
    *,
    as_json: bool,
    interrupted: Callable[[], str] = lambda: "",
) -> Iterator[LocalProcesses]:
    """Provide the processes of a search; close its journal, and say what its end means.

    A search that is refused leaves nothing behind.  One that meets no goal has status 1, with the
    nearest as JSON if that is asked for.  One that is interrupted says how it is continued.

    Parameters
    ----------
    directory : Path
        Of the answer.
    journal : SearchJournal
    jobs : int or None
        Processes; None for all processors.
    as_json : bool
    interrupted : callable, optional
        Does what is left to do after an interruption, and returns a line about it.
    """
    from flows.search.result import Unmet
    from flows.tools.executors import LocalProcesses
    from flows.tools.parallel import processors
    from hwgen.errors import InputError

    try:
        with (
            task_progress("searching", quiet=as_json),
            LocalProcesses(jobs or processors()) as executor,
        ):
            yield executor
    except InputError:  # there is nothing to continue
        journal.path.unlink(missing_ok=True)
        if [entry.name for entry in directory.iterdir()] == [MARKER]:
            shutil.rmtree(directory)
        raise
    except Unmet as error:
        if as_json:
            emit_json({"met": False, **error.document})
            raise click.exceptions.Exit(1) from None
        raise
    except (KeyboardInterrupt, SystemExit):  # the latter by SIGTERM
        for line in (interrupted(), "continue with --resume"):
            if line:
                click.echo(f"{directory}: {line}", err=True)
        raise
    finally:
        journal.close()
