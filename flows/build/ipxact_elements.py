# SPDX-License-Identifier: Apache-2.0
"""Elements of IP-XACT that its versions have in common, but for the prefix of their names."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from flows.build.files import header
from hwgen.core.bus import REGISTER_WIDTH
from hwgen.core.core import Core
from hwgen.core.register_map import Register

_ACCESS = {"ro": "read-only", "rw": "read-write", "wo": "write-only", "w1c": "read-write"}


class Elements(NamedTuple):
    """Maker of elements whose names have a prefix.

    Parameters
    ----------
    prefix : str
    """

    prefix: str

    def add(self, parent: ET.Element, tag: str, **attributes: str) -> ET.Element:
        """Add an element and return it; a tag with a prefix of its own keeps that."""
        return ET.SubElement(parent, tag if ":" in tag else f"{self.prefix}:{tag}", attributes)

    def leaves(self, parent: ET.Element, **values: object) -> None:
        """Add an element with a text for each value."""
        for tag, value in values.items():
            self.add(parent, tag).text = str(value)

    def registers(
        self, block: ET.Element, registers: Iterable[Register], offset: Callable[[int], str]
    ) -> None:
        """Add the registers of a block of addresses, and their fields.

        Parameters
        ----------
        block : Element
        registers : iterable of Register
        offset : callable
            Returns the text of an offset.
        """
        for register in registers:
            if not register.bits:
                continue
            access = _ACCESS[register.access]
            element = self.add(block, "register")
            self.leaves(
                element, name=register.name, description=register.text,
                addressOffset=offset(register.offset), size=REGISTER_WIDTH,
                volatile="false" if register.access in ("rw", "wo") else "true", access=access,
            )  # fmt: skip
            fields = [(f.name, f.text, f.offset, f.bits) for f in register.fields]
            for name, text, at, bits in fields or [("value", register.text, 0, register.bits)]:
                field = self.add(element, "field")
                self.leaves(field, name=name, description=text, bitOffset=at, bitWidth=bits)
                if register.access == "w1c":
                    self.leaves(field, access=access, modifiedWriteValue="oneToClear")


def document(root: ET.Element, core: Core[Any]) -> str:
    """Return the text of a file, with the header of a core."""
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<!--\n{header(core, " ")}-->\n{text}\n'
