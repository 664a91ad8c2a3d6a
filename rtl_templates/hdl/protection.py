# SPDX-License-Identifier: Apache-2.0
"""Protection against faults, added to the RTLIL of any core.

The modules of a core come as `rtl_templates.hdl.hierarchy.emit` yields them.  Registers get
parity bits, or become three that vote, all or those that are control; words of memories get check
bits; or the whole core is computed twice.  Mismatches of residues (`rtl_templates.residue`) are
reported in the same way.  No cycle is added, so that schedules, golden models and
cycle counts stay as they are.  What is noticed goes up through all modules to the output
`FAULT_OUTPUT` of the top module, which stays 1 until the next reset.

Mappers merge registers that always hold the same.  Each of three that vote is therefore an instance
of a module whose boundary is kept; the second core works one cycle later than the first one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hwgen.core.params.protection import FAULT_OUTPUT, Protection
from hwgen.core.register_map import FAULT_EVENTS
from rtl_templates.hdl.control import control_bits
from rtl_templates.hdl.rtlil import CELL, CONNECTION, PARAMETER, WIRE

CORRECTED = "fault_voted"
"""Name of the outputs of modules that say that registers that vote differ."""

MISMATCH = "residue_mismatch"
"""Name of the wire in a module that says that residues differ."""

PARITY_BITS = 16
"""Bits of a register that share a parity bit, at most."""

_PORT = re.compile(r"wire width \d+ (?:input|output|inout) (\d+) ")
_EVENT = re.compile(rf"(wire width 1) input \d+ +(?=\\(?:{'|'.join(FAULT_EVENTS)})\n)")
_MISMATCH = re.compile(rf"^  wire width 1 \\{MISMATCH}$", re.MULTILINE)
_MODULE = re.compile(r"^module \\(\S+)$", re.MULTILINE)
_WHOLE_MODULE = re.compile(r"^(?:attribute [^\n]*\n)*module .*?^end\n?$", re.MULTILINE | re.DOTALL)
_MEMORY = re.compile(r"  memory width (\d+) size (\d+) (\\\S+)\n")

_Control = Mapping[tuple[str, str], Sequence[int]]
"""Bits of registers, by module and name of the cell."""


def protect(modules: Sequence[str], top: str, protection: Protection) -> list[str]:
    """Return the modules of a core with protection.

    Parameters
    ----------
    modules : sequence of str
        RTLIL, the top module among them; modules that instantiate others may come in any order.
    top : str
        Name of the top module, and prefix of those that are added.
    protection : Protection
    """
    if not protection.any:
        return list(modules)
    names = {_name_of(text): text for each in modules for text in _WHOLE_MODULE.findall(each)}
    control = control_bits(names, top) if protection.control != "none" else {}
    raises = _that_raise(names, protection, control, top)
    votes = _that_vote(names, protection, control, top)
    editor = _Editor(top, protection, control, counts=bool(votes))
    result = [editor.edit(name, text, raises, votes) for name, text in names.items()]
    return [*result, *editor.replicas()]


def _name_of(text: str) -> str:
    match = _MODULE.search(text)
    assert match is not None
    return match[1]


def _that_raise(
    modules: Mapping[str, str], protection: Protection, control: _Control, top: str
) -> set[str]:
    """Return the modules that have an error output: with checks, or with such modules inside."""
    result = {top}
    if protection.registers == "parity":
        result |= {name for name, text in modules.items() if "  cell $dff " in text}
    if protection.control == "parity":
        result |= {name for name, _ in control}
    if protection.datapath == "residue":
        result |= {name for name, text in modules.items() if _MISMATCH.search(text)}
    return _with_parents(modules, result)


def _that_vote(
    modules: Mapping[str, str], protection: Protection, control: _Control, top: str
) -> set[str]:
    """Return the modules that say that registers differ, if an engine counts that."""
    if f" \\{FAULT_EVENTS[1]}\n" not in modules[top]:
        return set()
    result = {top}
    if protection.registers == "tmr":
        result |= {name for name, text in modules.items() if "  cell $dff " in text}
    if protection.control == "tmr":
        result |= {name for name, _ in control}
    return _with_parents(modules, result)


def _with_parents(modules: Mapping[str, str], result: set[str]) -> set[str]:
    """Return modules and all that they are in."""
    inside = {name: {m["type"].lstrip("\\") for m in CELL.finditer(text)} & modules.keys()
              for name, text in modules.items()}  # fmt: skip
    while more := {name for name in modules if inside[name] & result} - result:
        result |= more
    return result


@dataclass
class _Added:
    """Lines that a module gets, and the bits that say that something is wrong or was corrected."""

    wires: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    votes: list[str] = field(default_factory=list)
    count: int = 0

    def wire(self, width: int) -> str:
        """Add a wire and return its name."""
        name = f"\\protect_{self.count}"
        self.count += 1
        self.wires.append(f"  wire width {width} {name}\n")
        return name

    def cell(self, module: str, **connections: str) -> None:
        """Add an instance of a module."""
        self.lines.append(f"  cell {module} \\protect_{self.count}_cell\n")
        self.lines += [f"    connect \\{port} {net}\n" for port, net in connections.items()]
        self.lines.append("  end\n")
        self.count += 1

    def unary(self, operator: str, a: str, width: int, result: int) -> str:
        """Add an operator of one operand and return the wire of its result."""
        return self._operator(operator, result, A=(a, width))

    def binary(self, operator: str, a: str, b: str, width: int) -> str:
        """Add a bitwise operator of two operands and return the wire of its result."""
        return self._operator(operator, width, A=(a, width), B=(b, width))

    def register(self, d: str, clock: str, width: int) -> str:
        """Add a register and return the wire of what it holds."""
        name = self.wire(width)
        self.lines += [
            f"  cell $dff \\protect_{self.count}_cell\n", f"    parameter \\WIDTH {width}\n",
            "    parameter \\CLK_POLARITY 1\n", f"    connect \\D {d}\n",
            f"    connect \\CLK {clock}\n", f"    connect \\Q {name}\n", "  end\n",
        ]  # fmt: skip
        self.count += 1
        return name

    def any_of(self, nets: Sequence[str]) -> str:
        """Return a bit that is 1 if any of some bits is."""
        if len(nets) == 1:
            return nets[0]
        return self.unary("$reduce_or", concatenated(nets), len(nets), 1)

    def _operator(self, operator: str, result: int, **operands: tuple[str, int]) -> str:
        name = self.wire(result)
        self.lines.append(f"  cell {operator} \\protect_{self.count}_cell\n")
        for port, (_, width) in operands.items():
            self.lines.append(f"    parameter \\{port}_SIGNED 0\n")
            self.lines.append(f"    parameter \\{port}_WIDTH {width}\n")
        self.lines.append(f"    parameter \\Y_WIDTH {result}\n")
        self.lines += [f"    connect \\{port} {net}\n" for port, (net, _) in operands.items()]
        self.lines += [f"    connect \\Y {name}\n", "  end\n"]
        self.count += 1
        return name


def concatenated(nets: Sequence[str]) -> str:
    """Return nets as one, the first one in the lowest bits."""
    return "{ " + " ".join(reversed(nets)) + " }"


def parts_of(net: str, bits: Sequence[int]) -> str:
    """Return some bits of a net, in runs of neighbours."""
    starts = [i for i, bit in enumerate(bits) if not i or bit != bits[i - 1] + 1]
    ends = [*starts[1:], len(bits)]
    runs = [f"{net} [{bits[end - 1]}:{bits[start]}]"
            for start, end in zip(starts, ends, strict=True)]  # fmt: skip
    return runs[0] if len(runs) == 1 else concatenated(runs)


class _Editor:
    """Adds protection to modules."""

    def __init__(
        self, top: str, protection: Protection, control: _Control, *, counts: bool
    ) -> None:
        self._top, self._protection, self._control = top, protection, control
        choices = (protection.registers, protection.control)  # the stronger one counts
        self._of_control = next((each for each in ("tmr", "parity") if each in choices), "none")
        self._widths: set[int] = set()
        self._counts = counts

    def edit(self, name: str, text: str, raises: set[str], votes: set[str]) -> str:
        """Return a module with protection."""
        added = _Added()

        def change(match: re.Match[str]) -> str:
            operator = match["type"]
            if operator == "$dff":
                return self._register(match, self._control.get((name, match["name"]), ()), added)
            lines = ""
            for modules, port, bits in (
                (raises, FAULT_OUTPUT, added.errors), (votes, CORRECTED, added.votes),
            ):  # fmt: skip
                if operator.lstrip("\\") in modules:
                    bits.append(added.wire(1))
                    lines += f"    connect \\{port} {bits[-1]}\n"
            return match[0].removesuffix("  end\n") + lines + "  end\n" if lines else match[0]

        if self._protection.memories == "ecc":
            text = _check_memory(text, added)
        text = CELL.sub(change, text)
        if self._protection.datapath == "residue" and _MISMATCH.search(text):
            added.errors.append(f"\\{MISMATCH}")
        if name == self._top and self._protection.datapath == "dup":
            _duplicate(text, name, added)
        number = 1 + max(map(int, _PORT.findall(text)), default=-1)
        for modules, port, bits in (
            (raises, FAULT_OUTPUT, added.errors), (votes, CORRECTED, added.votes),
        ):  # fmt: skip
            if name not in modules:
                continue
            now = added.any_of(bits) if bits else "1'0"
            if name == self._top:
                _counted(text, port, now, added)
                if port == CORRECTED:
                    continue
                now = _sticky(now, added)
            added.wires.append(f"  wire width 1 output {number} \\{port}\n")
            added.lines.append(f"connect \\{port} {now}\n")
            number += 1
        if name == self._top:
            text = _EVENT.sub(r"\1 ", text)
        text = _MODULE.sub(lambda match: f"{match[0]}\n{''.join(added.wires)}", text, count=1)
        head, _, tail = text.rpartition("\nend")
        return f"{head}\n{''.join(added.lines)}\nend{tail}"

    def _register(self, match: re.Match[str], control: Sequence[int], added: _Added) -> str:
        """Protect a register, of which some bits are control."""
        connections = dict(CONNECTION.findall(match["body"]))
        width = int(dict(PARAMETER.findall(match["body"]))["WIDTH"])
        d, clock, q = (connections[port] for port in ("D", "CLK", "Q"))
        chosen: dict[str, list[int]] = {"parity": [], "tmr": [], "none": []}
        marked = frozenset(control)
        for bit in range(width):
            own = self._of_control if bit in marked else self._protection.registers
            chosen[own].append(bit)
        if len(chosen["none"]) == width:
            return match[0]
        # Operands are given names of their own, of which parts can be taken.
        following = added.wire(width)
        added.lines.append(f"connect {following} {d}\n")
        if chosen["parity"]:
            stored = added.wire(width)
            added.lines.append(f"connect {stored} {q}\n")
            self._check(following, stored, chosen["parity"], clock, added)
        if not chosen["tmr"]:
            return match[0]
        results = dict(zip(chosen["tmr"], self._vote(following, chosen["tmr"], clock, added),
                           strict=True))  # fmt: skip
        if single := sorted(chosen["parity"] + chosen["none"]):
            held = added.register(parts_of(following, single), clock, len(single))
            results |= {bit: f"{held} [{number}]" for number, bit in enumerate(single)}
        added.lines.append(f"connect {q} {concatenated([results[i] for i in range(width)])}\n")
        return ""

    def _vote(self, following: str, bits: Sequence[int], clock: str, added: _Added) -> list[str]:
        """Return bits of three registers that vote."""
        width = len(bits)
        self._widths.add(width)
        copies = []
        for _ in range(3):
            copies.append(added.wire(width))
            added.cell(f"\\{self._replica(width)}", clk=clock, d=parts_of(following, bits),
                       q=copies[-1])  # fmt: skip
        if self._counts:
            added.votes += [
                added.unary("$reduce_or", added.binary("$xor", copies[0], copy, width), width, 1)
                for copy in copies[1:]
            ]
        pairs = [
            added.binary("$and", copies[i], copies[j], width) for i, j in ((0, 1), (0, 2), (1, 2))
        ]
        half = added.binary("$or", pairs[0], pairs[1], width)
        voted = added.binary("$or", half, pairs[2], width)
        return [f"{voted} [{number}]" for number in range(width)]

    def _check(
        self, following: str, stored: str, bits: Sequence[int], clock: str, added: _Added
    ) -> None:
        """Add parity bits, and errors where they do not agree."""
        for low in range(0, len(bits), PARITY_BITS):
            part = bits[low : low + PARITY_BITS]
            # Odd parity: that of one bit is not the bit itself, which a mapper would share.
            parity = added.unary("$reduce_xnor", parts_of(following, part), len(part), 1)
            bit = added.register(parity, clock, 1)
            word = concatenated([parts_of(stored, part), bit])
            added.errors.append(added.unary("$reduce_xnor", word, len(part) + 1, 1))

    def _replica(self, width: int) -> str:
        return f"{self._top}_register_{width}"

    def replicas(self) -> Iterator[str]:
        """Yield the modules of one register whose boundary is kept."""
        for width in sorted(self._widths):
            yield (
                'attribute \\generator "Amaranth"\nattribute \\keep_hierarchy 1\n'
                f"module \\{self._replica(width)}\n\n  wire width 1 input 0 \\clk\n\n"
                f"  wire width {width} input 1 \\d\n\n  wire width {width} output 2 \\q\n\n"
                f"  cell $dff \\register\n    parameter \\WIDTH {width}\n"
                "    parameter \\CLK_POLARITY 1\n    connect \\D \\d\n    connect \\CLK \\clk\n"
                "    connect \\Q \\q\n  end\n\nend\n"
            )


def _counted(text: str, port: str, now: str, added: _Added) -> None:
    """Drive an event that an engine counts."""
    event = FAULT_EVENTS[port == CORRECTED]
    if f" \\{event}\n" in text:
        running = added.unary("$not", "\\rst", 1, 1)
        held = added.register(added.binary("$and", now, running, 1), "\\clk", 1)
        added.lines.append(f"connect \\{event} {held}\n")


def _sticky(error: str, added: _Added) -> str:
    """Return an error that stays until the reset."""
    running = added.unary("$not", "\\rst", 1, 1)
    state = added.wire(1)
    any_error = added.binary("$or", error, state, 1)
    held = added.register(added.binary("$and", any_error, running, 1), "\\clk", 1)
    added.lines.append(f"connect {state} {held}\n")
    return held


# -- two cores -----------------------------------------------------------------------------------


def _duplicate(text: str, top: str, added: _Added) -> None:
    """Add a second core that works a cycle later, and compare what both give."""
    match = next(m for m in CELL.finditer(text) if m["type"] == f"\\{top}.core")
    connections = dict(CONNECTION.findall(match["body"]))
    for port in (FAULT_OUTPUT, CORRECTED):
        connections.pop(port, None)
    outputs = _outputs_of_core(text, connections)
    widths = {name: width for width, _, name in WIRE.findall(text)}
    copies, pairs = {"clk": connections["clk"]}, {}
    for port, net in connections.items():
        if port == "clk":
            continue
        width = _width_of(net, widths)
        late = added.register(net, "\\clk", width)
        if port in outputs:
            copies[port] = added.wire(width)
            pairs[port] = (late, copies[port], width)
        else:
            copies[port] = late
    added.cell(f"\\{top}.core", **copies)
    running = added.unary("$not", copies["rst"], 1, 1)
    for port, (late, copy, width) in pairs.items():
        different = added.unary("$reduce_or", added.binary("$xor", late, copy, width), width, 1)
        valid = f"{port.removesuffix('payload')}valid"
        if port.endswith("payload") and valid in pairs:
            different = added.binary("$and", different, pairs[valid][0], 1)
        added.errors.append(added.binary("$and", different, running, 1))


def _outputs_of_core(text: str, connections: Mapping[str, str]) -> set[str]:
    """Return the ports of a core that are outputs: those that nothing else in the shell drives."""
    driven = set(re.findall(r"^connect (\\\S+) ", text, re.MULTILINE))
    driven |= set(re.findall(r"^    assign (\\\S+) ", text, re.MULTILINE))
    for cell in CELL.finditer(text):
        if cell["type"].startswith("$"):
            driven |= {net.split()[0] for port, net in CONNECTION.findall(cell["body"])
                       if port in ("Y", "Q", "DATA")}  # fmt: skip
    driven |= {name for _, direction, name in WIRE.findall(text) if direction == "input"}
    return {port for port, net in connections.items() if net.split()[0] not in driven}


def _width_of(net: str, widths: Mapping[str, str]) -> int:
    """Return the bits of a wire, or of a part of one."""
    name, _, part = net.partition(" ")
    if not part:
        return int(widths[name])
    high, _, low = part.strip("[]").partition(":")
    return int(high) - int(low or high) + 1


# -- memories ------------------------------------------------------------------------------------


def check_columns(bits: int) -> list[int]:
    """Return, for each bit of a word, the check bits that it is in: a Hamming code.

    The numbers differ, and none is a power of two, so that one wrong bit, of the word or of the
    check bits, leaves a syndrome that is only its own.
    """
    columns: list[int] = []
    number = 3
    while len(columns) < bits:
        if number & (number - 1):
            columns.append(number)
        number += 1
    return columns


def _check_memory(text: str, added: _Added) -> str:
    """Add check bits to the memory of a module."""
    memory = _MEMORY.search(text)
    if memory is None:
        return text
    groups = _groups_of(text, int(memory[1]))
    wide = sum(len(group) + _checks(len(group)) for group in groups)

    def change(match: re.Match[str]) -> str:
        operator, body = match["type"], match["body"]
        if not operator.startswith(("$memwr", "$memrd", "$meminit")):
            return match[0]
        if operator.startswith("$meminit"):
            return ""  # a memory is written before it is read
        connections = dict(CONNECTION.findall(body))
        body = re.sub(r"\\WIDTH \d+\n", f"\\\\WIDTH {wide}\n", body)
        body = re.sub(r"_VALUE \d+'x+\n", f"_VALUE {wide}'{'x' * wide}\n", body)
        if operator.startswith("$memwr"):
            data = added.wire(int(memory[1]))
            added.lines.append(f"connect {data} {connections['DATA']}\n")
            enables = connections["EN"].strip("{} ")
            bits = re.findall(r"\\\S+ \[\d+\]|\S+", enables)[::-1]
            words, ens = [], []
            for group in groups:
                part = f"{data} [{group[-1]}:{group[0]}]"
                checks = _encoded(data, group, added)
                words += [part, *checks]
                ens += [bits[group[0]]] * (len(group) + len(checks))
            body = _connected(_connected(body, "DATA", concatenated(words)), "EN",
                              concatenated(ens))  # fmt: skip
        else:
            stored = added.wire(wide)
            results, low = [], 0
            for group in groups:
                size = len(group)
                results.append(_corrected(stored, low, size, added))
                low += size + _checks(size)
            added.lines.append(f"connect {connections['DATA']} {concatenated(results)}\n")
            body = _connected(body, "DATA", stored)
        return f"{match['attributes']}  cell {operator} {match['name']}\n{body}  end\n"

    text = CELL.sub(change, text)
    return text.replace(memory[0], f"  memory width {wide} size {memory[2]} {memory[3]}\n")


def _groups_of(text: str, width: int) -> list[range]:
    """Return the parts of a word that are written together."""
    enables: list[tuple[str, ...]] = []
    for match in CELL.finditer(text):
        if match["type"].startswith("$memwr"):
            net = dict(CONNECTION.findall(match["body"]))["EN"].strip("{} ")
            enables.append(tuple(re.findall(r"\\\S+ \[\d+\]|\S+", net)[::-1]))
    starts = [bit for bit in range(width)
              if not bit or any(each[bit] != each[bit - 1] for each in enables)]  # fmt: skip
    return [range(low, high) for low, high in zip(starts, [*starts[1:], width], strict=True)]


def _checks(bits: int) -> int:
    return max(check_columns(bits)).bit_length()


def _encoded(data: str, group: range, added: _Added) -> list[str]:
    """Return the check bits of a part of a word."""
    columns = check_columns(len(group))
    return [
        _exclusive_or(
            [f"{data} [{group[i]}]" for i, c in enumerate(columns) if c >> bit & 1], added
        )
        for bit in range(_checks(len(group)))
    ]


def _corrected(stored: str, low: int, size: int, added: _Added) -> str:
    """Return a part of a word that was read, with one wrong bit corrected."""
    columns, checks = check_columns(size), _checks(size)
    syndrome = [
        _exclusive_or(
            [f"{stored} [{low + i}]" for i, c in enumerate(columns) if c >> bit & 1]
            + [f"{stored} [{low + size + bit}]"],
            added,
        )
        for bit in range(checks)
    ]
    inverse = [added.unary("$not", bit, 1, 1) for bit in syndrome]
    flips = [
        added.unary(
            "$reduce_and",
            concatenated([(syndrome if c >> b & 1 else inverse)[b] for b in range(checks)]),
            checks,
            1,
        )
        for c in columns
    ]
    return added.binary("$xor", f"{stored} [{low + size - 1}:{low}]", concatenated(flips), size)


def _exclusive_or(nets: Sequence[str], added: _Added) -> str:
    if not nets:
        return "1'0"
    return added.unary("$reduce_xor", concatenated(nets), len(nets), 1)


def _connected(body: str, port: str, net: str) -> str:
    """Return the body of a cell whose port is connected to another net."""
    return re.sub(
        rf"    connect \\{port} [^\n]*\n", lambda _: f"    connect \\{port} {net}\n", body
    )
