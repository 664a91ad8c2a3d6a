# SPDX-License-Identifier: Apache-2.0
"""The import-linter contract that states what each top-level package may import.

import-linter's own contracts list what is *forbidden*; a room lists what is *allowed*, so that a
module added later is forbidden until somebody decides otherwise.
"""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


def _within(module: str, roots: set[str]) -> bool:
    return any(module == root or module.startswith(f"{root}.") for root in roots)


class RoomContract(Contract):
    """A room imports itself, the modules in `may_import` and what lies below them.

    Modules below `except_for` may import everything.
    """

    room: Any = fields.StringField()
    may_import: Any = fields.SetField(subfield=fields.StringField(), required=False, default=set())
    except_for: Any = fields.SetField(subfield=fields.StringField(), required=False, default=set())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        allowed = {self.room, *(self.may_import or ())}
        modules = {self.room, *graph.find_descendants(self.room)}
        wrong = [
            detail
            for module in sorted(modules)
            if not _within(module, set(self.except_for or ()))
            for imported in sorted(graph.find_modules_directly_imported_by(module))
            if not _within(imported, allowed)
            for detail in graph.get_import_details(importer=module, imported=imported)
        ]
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for detail in check.metadata["wrong"]:
            output.print_error(
                f"{detail['importer']}:{detail['line_number']}: {detail['line_contents']}"
            )
