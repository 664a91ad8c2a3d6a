# SPDX-License-Identifier: Apache-2.0
"""Reading one YAML file into plain values that remember where they stand.

PyYAML scans and parses; its composer is replaced by one that keeps positions, has limits (so no
file can exhaust time, memory or the stack) and reads scalars by the core schema of YAML 1.2, in
which ``on`` and ``1:30`` are text and ``010`` is ten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from hwgen.errors import ConfigError, Problem

FORMAT_DIRECTORY: ContextVar[Path] = ContextVar("FORMAT_DIRECTORY", default=Path())
"""Directory of the configuration that is being read: files of formats are looked for there."""

MAX_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_NODES = 10_000
MAX_DIGITS = 64
MAX_PROBLEMS = 50

_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_CONSTANTS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **{s + w: float(s + "inf") for s in ("", "+", "-") for w in (".inf", ".Inf", ".INF")},
}
_LINE_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def core_scalar(text: str) -> Any:
    """Return the value of a plain scalar by the core schema of YAML 1.2.

    Raises
    ------
    ValueError
        If it is a number of more than `MAX_DIGITS` characters.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    integer = _INTEGER.fullmatch(text)
    if not integer and not _FLOAT.fullmatch(text):
        return text
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number of {len(text)} characters is too long")
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10)) if integer else float(text)


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text, counted from 1."""

    line: int
    column: int


@dataclass(slots=True)
class Node:
    """A value with its place.

    Attributes
    ----------
    data : object
        Plain data: None, bool, int, float, str, list, or dict with text keys.
    position : Position
        Where the value begins.
    children : dict or list or None
        Nodes of a mapping's values, or of a list's items.
    keys : dict
        Where each key of a mapping stands.
    size, height : int
        Nodes and levels, aliases expanded.
    spoilt : bool
        Whether a problem of the text itself has been found in it.
    """

    data: Any
    position: Position
    children: dict[str, Node] | list[Node] | None = None
    keys: dict[str, Position] = field(default_factory=dict)
    size: int = 1
    height: int = 1
    spoilt: bool = False


@dataclass(frozen=True)
class Document:
    """A YAML file as plain data.

    Parameters
    ----------
    file : str
        Name of the file as the user gave it.
    root : Node
        The root mapping.
    problems : tuple of Problem
        What is wrong with the text although it could be read to its end, such as a key that
        occurs twice.
    """

    file: str
    root: Node
    problems: tuple[Problem, ...] = ()

    @property
    def data(self) -> dict[str, Any]:
        """Plain data of the root mapping."""
        data: dict[str, Any] = self.root.data
        return data

    def is_spoilt(self, location: Sequence[str | int]) -> bool:
        """Return whether `problems` already says that the value there is not what was meant."""
        node, _, complete = self._find(location)
        return complete and node.spoilt

    def holds(self, location: Sequence[str | int]) -> bool:
        """Return whether a value stands there."""
        return self._find(location)[2]

    def position(self, location: Sequence[str | int]) -> Position:
        """Return the place of a key or list item, or of the nearest mapping or list around it."""
        node, position, complete = self._find(location)
        return position if complete else node.position

    def _find(self, location: Sequence[str | int]) -> tuple[Node, Position, bool]:
        """Return the last node on the way, where it is given, and whether the way ends there."""
        node, position = self.root, self.root.position
        for step in location:
            if isinstance(node.children, dict) and isinstance(step, str) and step in node.children:
                position, node = node.keys[step], node.children[step]
            elif isinstance(node.children, list) and step in range(len(node.children)):
                node = node.children[int(step)]
                position = node.position
            else:
                return node, position, False
        return node, position, True


def read_document(path: str | Path, *, quickly: bool = False) -> Document:
    """Read a file; see `parse_document`.

    Parameters
    ----------
    path : str or Path
    quickly : bool
        Whether libyaml reads it where it is there: six times as fast, for long data files.  What
        it refuses is read again by the parser that all messages come from.

    Raises
    ------
    ConfigError
        Also if it cannot be read.
    """
    try:
        with open(path, "rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError([Problem(f"cannot be read: {reason}", file=str(path))]) from None
    return parse_document(content, str(path), quickly=quickly)


def parse_document(content: bytes | str, file: str, *, quickly: bool = False) -> Document:
    """Read the text of a file.

    Parameters
    ----------
    content : bytes or str
        The text; bytes must be UTF-8.
    file : str
        Name for messages.
    quickly : bool
        See `read_document`.

    Raises
    ------
    ConfigError
        If it is too large or deep, or not one YAML document with a mapping at its root.
    """
    if quickly and yaml.__with_libyaml__:
        with suppress(ConfigError):
            return _Composer(file, yaml.CSafeLoader).compose(_decode(content, file))
    return _Composer(file).compose(_decode(content, file))


def _decode(content: bytes | str, file: str) -> str:
    """Return the text within the limits of size and characters."""
    raw = content if isinstance(content, bytes) else content.encode(errors="surrogatepass")
    if len(raw) > MAX_BYTES:
        raise ConfigError([Problem(f"larger than {MAX_BYTES // 1024} KiB", file=file)])
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", "replace")
        text, message = before, f"not UTF-8: byte 0x{raw[error.start]:02x}; save it as UTF-8"
    else:
        bad = _UNPRINTABLE.search(text)
        if not bad:
            return text
        before, message = text[: bad.start()], f"unprintable character U+{ord(bad[0]):04X}"
    lines = _LINE_BREAK.split(before)
    raise ConfigError([Problem(message, "", file, len(lines), len(lines[-1]) + 1)])


@dataclass(slots=True)
class _Open:
    """A mapping or list whose end has not been reached."""

    node: Node
    anchor: str | None
    key: Node | None = None


class _Composer:
    """Builds the nodes of one document without recursion."""

    def __init__(self, file: str, loader: Any = yaml.SafeLoader) -> None:
        self.file = file
        self.loader = loader
        self.problems: list[Problem] = []
        self.open: list[_Open] = []
        self.anchors: dict[str, Node | None] = {}
        self.count = 0
        self.root: Node | None = None
        self.here = Position(1, 1)

    def compose(self, text: str) -> Document:
        for event in self._events(text):
            self._handle(event)
        if self.root is None or (self.root.data is None and self.root.children is None):
            raise self._error("empty; `hwgen init FAMILY` writes a template", Position(1, 1))
        if not isinstance(self.root.children, dict):
            kind = "a list" if isinstance(self.root.data, list) else "a single value"
            raise self._error(f"must hold `key: value` lines, not {kind}", self.root.position)
        return Document(self.file, self.root, tuple(self.problems))

    def _events(self, text: str) -> Iterator[Any]:
        """Yield PyYAML's events; whatever goes wrong inside it becomes a `ConfigError`."""
        events = yaml.parse(text, Loader=self.loader)
        while True:
            try:
                event = next(events, None)
            except yaml.MarkedYAMLError as error:
                mark = error.problem_mark or error.context_mark
                place = Position(mark.line + 1, mark.column + 1) if mark else self.here
                raise self._error(_syntax(error, text, mark), place) from None
            except Exception as error:  # such as a ValueError for "\UFFFFFFFF"
                raise self._error(f"not valid YAML: {type(error).__name__}", self.here) from None
            if event is None:
                return
            start = event.start_mark
            if start is not None:
                self.here = Position(start.line + 1, start.column + 1)
            yield event

    def _handle(self, event: Any) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            if self.root is not None:
                raise self._error("a second document begins; a file holds one", self.here)
        elif isinstance(event, yaml.ScalarEvent):
            self._finish(self._scalar(event), event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            target = self._alias(str(event.anchor))
            # What an alias names is counted again at each use.
            self._finish(target, None, count=target.size)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            if len(self.open) >= MAX_DEPTH:
                raise self._error(f"nested deeper than {MAX_DEPTH} levels", self.here)
            mapping = isinstance(event, yaml.MappingStartEvent)
            node = Node({} if mapping else [], self.here, {} if mapping else [])
            self._refuse_tag(event.tag, node)
            if event.anchor:
                self.anchors[event.anchor] = None
            self.open.append(_Open(node, event.anchor))
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            done = self.open.pop()
            self._finish(done.node, done.anchor)

    def _scalar(self, event: Any) -> Node:
        node = Node(event.value, self.here)
        self._refuse_tag(event.tag, node)
        try:
            if not event.style:
                node.data = core_scalar(event.value)
            elif any("\ud800" <= c <= "\udfff" for c in event.value):
                raise ValueError("half of a surrogate pair is not a character")
        except ValueError as error:
            self._complain(str(error), self.here)
            node.data, node.spoilt = None, True
        return node

    def _alias(self, anchor: str) -> Node:
        node = self.anchors.get(anchor)
        if node is None:
            inside = anchor in self.anchors
            raise self._error(
                f"the alias *{anchor[:40]} "
                + ("stands inside what it names" if inside else "names no anchor above"),
                self.here,
            )
        if len(self.open) + node.height > MAX_DEPTH + 1:
            raise self._error(f"nested deeper than {MAX_DEPTH} levels by an alias", self.here)
        return replace(node, position=self.here)

    def _finish(self, node: Node, anchor: str | None, count: int = 1) -> None:
        """Put a complete node into the mapping or list that is open."""
        self.count += count
        if self.count > MAX_NODES:
            raise self._error(f"more than {MAX_NODES} values (aliases expanded)", self.here)
        if anchor:
            self.anchors[anchor] = node
        if not self.open:
            self.root = node
            return
        frame = self.open[-1]
        parent = frame.node
        if isinstance(parent.children, list):
            parent.children.append(node)
            parent.data.append(node.data)
        elif frame.key is None:
            frame.key = node
        else:
            self._pair(frame, frame.key, node)
            frame.key = None
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)

    def _pair(self, frame: _Open, key: Node, value: Node) -> None:
        parent, name = frame.node, key.data
        assert isinstance(parent.children, dict)
        if not isinstance(name, str):
            kind = "a number, boolean or null" if key.children is None else "a list or mapping"
            self._complain(f"a key must be text, not {kind}", key.position)
        elif name == "<<":
            self._complain("merge keys (<<) are not supported; write the keys out", key.position)
        elif name in parent.children:
            first = parent.keys[name].line
            self._complain(f"the key {name[:40]!r} is already on line {first}", key.position)
        else:
            parent.children[name] = value
            parent.keys[name] = key.position
            parent.data[name] = value.data

    def _refuse_tag(self, tag: str | None, node: Node) -> None:
        if tag is not None:
            node.spoilt = True
            shown = tag.replace("tag:yaml.org,2002:", "!!")[:40]
            self._complain(f"tags are not supported; remove {shown!r}", self.here)

    def _complain(self, message: str, position: Position) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(message, "", self.file, position.line, position.column))

    def _error(self, message: str, position: Position) -> ConfigError:
        last = Problem(message, "", self.file, position.line, position.column)
        return ConfigError([*self.problems, last])


def _syntax(error: yaml.MarkedYAMLError, text: str, mark: Any) -> str:
    """Return PyYAML's complaint in one line."""
    if mark is not None and text[mark.index : mark.index + 1] == "\t":
        return "not valid YAML: a tab; indent with spaces"
    parts = [str(part) for part in (error.problem, error.context) if part]
    plain = ", ".join(parts).encode("unicode_escape").decode()
    return f"not valid YAML: {plain[:200]}"
