# SPDX-License-Identifier: Apache-2.0
"""Arguments that name something installed: read in any spelling, completed by the shell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from hwgen.plugins import match_name

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class InstalledName(click.ParamType):  # type: ignore[type-arg]  # generic in recent click only
    """A name of a list; letter case, dashes, underscores and dots do not matter.

    A name that is not in the list passes as it is: what uses it says what is allowed.
    """

    name = "name"

    def names(self) -> Iterable[str]:
        """Return the names; imports what is needed, since few commands need them."""
        raise NotImplementedError

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return match_name(value, self.names()) or value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        start = incomplete.casefold()
        return [CompletionItem(name) for name in self.names() if name.startswith(start)]


class FamilyName(InstalledName):
    """A family of accelerators."""

    def names(self) -> Iterable[str]:
        from hwgen.core.registry import families

        return families()


class BoardName(InstalledName):
    """A board."""

    def names(self) -> Iterable[str]:
        from hwgen.board.registry import boards

        return boards()


class TechnologyName(InstalledName):
    """A technology: a standard-cell library or an FPGA family."""

    def names(self) -> Iterable[str]:
        from hwgen.technologies import technologies

        return technologies()


class TargetName(InstalledName):
    """A technology, or an FPGA device."""

    def names(self) -> Iterable[str]:
        from hwgen.technologies import devices, technologies

        return (*technologies(), *devices())


class FpgaName(InstalledName):
    """An FPGA family, or a device of one."""

    def names(self) -> Iterable[str]:
        from hwgen.technologies import devices, technology_names

        return (*technology_names("fpga"), *devices())


class DeviceName(InstalledName):
    """An FPGA device, by the name that configurations use; nextpnr's names pass as they are."""

    def names(self) -> Iterable[str]:
        from hwgen.technologies import devices

        return devices()


class FormatName(InstalledName):
    """A block format, or a file of one."""

    def names(self) -> Iterable[str]:
        from hwgen.formats.registry import shipped

        return shipped()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return super().shell_complete(ctx, param, incomplete) or _files(incomplete)


class WorkloadName(InstalledName):
    """A shipped workload, a file of one, or the directory of a model."""

    def names(self) -> Iterable[str]:
        from hwgen.workloads import shipped

        return shipped()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from pathlib import Path

        return value if Path(value).exists() else super().convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return super().shell_complete(ctx, param, incomplete) or _files(incomplete)


def _files(incomplete: str) -> list[CompletionItem]:
    """Return the item that lets a shell complete names of files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]
