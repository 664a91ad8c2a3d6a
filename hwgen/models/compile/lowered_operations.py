# SPDX-License-Identifier: Apache-2.0
"""The operations of a decoder as jobs of a list, on arrays that have their place in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.core.lists.builder import ListBuilder, Number, Rows
from hwgen.errors import InputError
from hwgen.models.compile.constants import turns_of
from hwgen.models.compile.placement import WORK, Placement
from hwgen.models.graph.description import Node
from hwgen.models.graph.layered import Layered
from hwgen.models.quantise.hadamard_blocks import HADAMARD, TURNED
from hwgen.models.run.engine import real, sizes_of

if TYPE_CHECKING:
    from hwgen.core.lists.builder import ListEngine
    from hwgen.core.params.base import FamilyConfig

REGISTERS = {
    "POSITION": (1, "tokens that have been taken; the next one's place"),
    "PROMPT": (2, "tokens that are there"),
    "STOP": (3, "place of the last token that is wanted"),
    "END": (4, "token behind which none is wanted; a number that is no token: none"),
}
"""Registers that the host writes: their number, and what they hold."""

POSITION, PROMPT, STOP, END = (number for number, _ in REGISTERS.values())
(LAYERS, WEIGHTS, CACHE, KEY_AT, SCALE_AT, KEY_BYTES, SCALE_BYTES, TURNS, LAST, TOKEN,
 OTHER) = range(5, 16)  # fmt: skip

REAL_BYTES = 4
SCALE = 2  # bytes of a scale of a key or value
QUERY_SCALE = 4

TOKENS, X = "tokens", "x"
"""Names of the arrays of tokens, and of what goes from layer to layer."""


@dataclass(frozen=True)
class Job:
    """A job of the list.

    Parameters
    ----------
    index : int
        Of the descriptor that submits it.
    unit : str
    node : str
        Operation of the network, of a layer without its number.
    tokens : int
        Of the pass that it belongs to.
    looped : bool
        Whether it is in the loop over layers.
    """

    index: int
    unit: str
    node: str
    tokens: int
    looped: bool


class Operations:
    """Appends operations of a network to a list.

    Parameters
    ----------
    config : ListEngine
    decoder : Layered
    builder : ListBuilder
    units : mapping of str
        Names of units by what they do.
    cores : mapping of FamilyConfig
        What multiplies by weights, by their name.
    place : Placement
        Arrays that the list works on are added when they are first needed.
    most, context : int
        Tokens that are taken at once, and positions that the cache has room for.

    Attributes
    ----------
    jobs : list of Job
    """

    def __init__(
        self,
        config: ListEngine,
        decoder: Layered,
        builder: ListBuilder,
        units: Mapping[str, str],
        cores: Mapping[str, FamilyConfig],
        place: Placement,
        most: int,
        context: int,
    ) -> None:
        self.config, self.decoder, self.place = config, decoder, place
        self.list, self.units, self.cores = builder, units, cores
        self.most, self.context = most, context
        self.jobs: list[Job] = []
        self._core: Any = config.units[units["attention"]].compute
        self._tokens, self._looped = most, True
        self._arrays: dict[str, str] = {decoder.embed.output: X}

    # -- arrays ----------------------------------------------------------------------------

    def _name(self, node: Node) -> str:
        """Return the name of an operation, of all layers the same."""
        return node.name if node.layer is None else local(node)

    @property
    def _head_bytes(self) -> int:
        """Bytes of a query, a key or a value, filled up to what the unit takes."""
        port = next(port for port in self._core.ports if port.name == "key")
        return int(port.beat_bytes * self._core.steps)

    def _work(self, name: str, row_bytes: int, rows: int = 1) -> int:
        """Return the address of rows of every token that the list works on."""
        if name not in self.place.arrays:
            self.place.place(name, self.most * rows * row_bytes, WORK, written=True)
        return self.place.at(name)

    def _rows(self, array: str, length: int = 0, **others: Any) -> Rows:
        """Return the rows of an array of the network: of a token each, unless said otherwise."""
        name = self._arrays.get(array, array)
        size = REAL_BYTES * (length or self.decoder.length(array))
        address = self._work(name, size) + others.pop("offset", 0)
        register = LAST if name == X and not self._looped else 0
        return Rows(name, address, **{"rows": self._tokens, "register": register, **others})

    def _constant(self, node: Node, key: str, rows: int = 1) -> Rows:
        """Return weights: the same row again and again."""
        name = f"{self._name(node)}.{key}"
        return Rows(
            name, self.place.at(name), rows, 0 if rows > 1 else -1,
            register=WEIGHTS if self._looped else 0,
        )  # fmt: skip

    def _operate(self, node: Node) -> None:
        """Append an operation of the network, and note its jobs."""
        before = len(self.list.submitted)
        getattr(self, f"_{node.operation}")(node)
        self._note(self._name(node), before)

    def _note(self, name: str, before: int) -> None:
        for index, unit in self.list.submitted[before:]:
            self.jobs.append(Job(index, unit, name, self._tokens, self._looped))

    def _submit(
        self, operation: str, unit: str, array: str, rows: Mapping[str, Rows], **scalars: float
    ) -> None:
        before = len(self.list.submitted)
        length = self.decoder.length(array)
        self.list.rows(operation, length, rows, unit=self.units[unit], scalars=scalars)
        if operation == "argmax":
            self._note(operation, before)

    # -- operations ------------------------------------------------------------------------

    def _embed(self, place: int) -> None:
        program, width = self.list.program, self.decoder.length(self.decoder.embed.output)
        row = REAL_BYTES * width
        program.multiply(OTHER, POSITION, 4)
        program.load(TOKEN, OTHER, size=4, offset=self.place.at(TOKENS) + 4 * place)
        program.multiply(TOKEN, TOKEN, row)
        before = len(self.list.submitted)
        self.list.rows(
            "add", width,
            {"x": Rows("embedding", self.place.at("embedding"), register=TOKEN),
             "y": Rows("nothing", self.place.at("nothing")),
             "result": Rows(X, self._work(X, row) + place * row)},
            unit=self.units["add"], scalars={"scale": 1.0},
        )  # fmt: skip
        self._note("embed", before)

    def _rms_norm(self, node: Node) -> None:
        x = node.inputs["x"]
        rows = {"x": self._rows(x), "gamma": self._constant(node, "gamma", self._tokens),
                "result": self._rows(node.output)}  # fmt: skip
        self._submit("rms_norm", "rms_norm", x, rows, epsilon=real(node, "epsilon"))

    def _quantise(self, node: Node) -> None:
        x, name = node.inputs["x"], self._arrays.get(node.output, node.output)
        length, rows = self.decoder.length(x), self._tokens
        result = Rows(name, self._work(name, length), rows)
        steps = Rows(f"{name}.steps", self._work(f"{name}.steps", REAL_BYTES), rows)
        block = int(real(node, "hadamard"))
        self._integers(block, length, {"x": self._rows(x), "result": result, "scales": steps})

    def _integers(self, block: int, length: int, rows: Mapping[str, Rows]) -> None:
        """Append what makes integers of rows, blocks of which are perhaps turned before."""
        operation = HADAMARD if block else "quantise"
        unit = self.units[f"{operation}_{block}" if block else operation]
        self.list.rows(operation, length, rows, unit=unit)

    def _gemm(self, node: Node) -> None:
        t, weights = self._tokens, node.inputs["weights"]
        name, x = self._name(node), self._arrays[node.inputs["x"]]
        n, k = self.decoder.description.tensors[weights].shape
        sums = Rows(f"{name}.sums", self._work(f"{name}.sums", 4 * n), t)
        self.list.gemm(
            Rows(x, self.place.at(x), t), self._constant(node, "weights"), sums, k, n,
            unit=self.cores[weights].name,
        )  # fmt: skip
        steps = Rows(f"{x}.steps", self.place.at(f"{x}.steps"), t)
        result = self._rows(node.output)
        rows = {"x": sums, "row_scales": steps, "scales": self._constant(node, "scales", t),
                "result": result}  # fmt: skip
        self._submit("dequantise_rows", "sums", node.output, rows, scale=1.0)
        if "bias" in node.inputs:
            bias = self._constant(node, "bias", t)
            self._submit("add", "add", node.output, {"x": result, "y": bias, "result": result},
                         scale=1.0)  # fmt: skip

    def _turn_bytes(self, node: Node) -> int:
        """Return the bytes of a row of cosines and sines."""
        parameters = self.config.units[self.units["rope"]].compute.parameters
        return int(real(node, "elements")) * int(parameters.width) // 8

    def _rope(self, node: Node) -> None:
        t, heads, elements = self._tokens, int(real(node, "heads")), int(real(node, "elements"))
        here = {"rows": heads, "blocks": t, "stride": REAL_BYTES * elements,
                "step": REAL_BYTES * elements * heads}  # fmt: skip
        table = turns_of(node)
        turns = Rows(table, self.place.at(table), heads, 0, t, self._turn_bytes(node), TURNS)
        self.list.rows(
            "rope", elements,
            {"x": self._rows(node.inputs["x"], **here), "turns": turns,
             "result": self._rows(node.output, **here)},
            unit=self.units["rope"],
        )  # fmt: skip

    def _gated(self, node: Node) -> None:
        rows = {"x": self._rows(node.inputs["x"]), "y": self._rows(node.inputs["y"]),
                "result": self._rows(node.output)}  # fmt: skip
        self._submit(node.operation, node.operation, node.output, rows, scale=1.0)

    _add = _gated

    # -- attention -------------------------------------------------------------------------

    def _attention(self, node: Node) -> None:
        heads, kv_heads, elements = sizes_of(node)
        self._tokens_scaled(node, "query", heads)
        for part in ("key", "value"):
            self._tokens_scaled(node, part, kv_heads)
        out = next(port for port in self._core.ports if port.name == "out")
        out_bytes = int(out.beat_bytes * self._core.steps)
        name, rows = self._name(node), self._tokens * heads
        found = Rows(f"{name}.heads", self._work(f"{name}.heads", out_bytes, heads), rows,
                     out_bytes)  # fmt: skip
        self._attend(node, found, out_bytes)
        self.list.rows(
            "dequantise", elements,
            {"x": found, "scales": self._constant(node, "result_factor", rows),
             "result": self._rows(node.output, rows=rows)},
            unit=self.units["results"], scalars={"scale": 1.0},
        )  # fmt: skip

    def _tokens_scaled(self, node: Node, part: str, heads: int) -> None:
        """Append what makes integers of queries, keys or values, and their scales."""
        name, t, elements = self._name(node), self._tokens, sizes_of(node)[2]
        size, cached = self._head_bytes, part != "query"
        steps, real_row = f"{name}.{part}_steps", REAL_BYTES * elements
        steps_at = self._work(steps, REAL_BYTES, heads)
        one = {"blocks": t, "step": REAL_BYTES * heads, "stride": REAL_BYTES}
        if cached:
            at = self.place.at(f"{name}.{part}s")
            target = Rows(f"{name}.{part}s", at, heads, self.context * size, t, size, KEY_AT)
            at = self.place.at(f"{name}.{part}_scales")
            scales = Rows(f"{name}.{part}_scales", at, heads, self.context * SCALE, t, SCALE,
                          SCALE_AT)  # fmt: skip
        else:
            at = self._work(f"{name}.query", size, heads)
            target = Rows(f"{name}.query", at, heads, size, t, heads * size)
            at = self.place.at(f"{name}.query_scales")  # the lower half of each word
            scales = Rows(f"{name}.query_scales", at, heads, QUERY_SCALE, t, heads * QUERY_SCALE)
        x = self._rows(node.inputs[part], rows=heads, stride=real_row, blocks=t,
                       step=heads * real_row)  # fmt: skip
        block = int(real(node, "hadamard")) if part in TURNED else 0
        rows = {"x": x, "result": target, "scales": Rows(steps, steps_at, heads, **one)}
        self._integers(block, elements, rows)
        factor = self._constant(node, f"{part}_factor", t * heads)
        self.list.rows(
            "dequantise", 1,
            {"x": Rows(steps, steps_at, heads, **one), "scales": factor, "result": scales},
            unit=self.units["scales"], scalars={"scale": 1.0},
        )  # fmt: skip

    def _window(self, node: Node) -> int:
        """Return how many positions an attention looks back, 0 if that is all of the context."""
        window = int(real(node, "window"))
        return window if window < self.context else 0

    def _attend(self, node: Node, found: Rows, out_bytes: int) -> None:
        """Append the attention of each head of keys, as many queries at once as there are rows."""
        heads, kv_heads, _ = sizes_of(node)
        name, group, size = self._name(node), heads // kv_heads, self._head_bytes
        at_once, window = self._core.array.rows // group, self._window(node)
        if not at_once:
            raise InputError(
                f"units.{self.units['attention']}.compute.array.rows: must be {group} or more, the"
                f" queries of a head of keys, not {self._core.array.rows}"
            )
        for head in range(kv_heads):
            for first in range(0, self._tokens, at_once):
                count = min(at_once, self._tokens - first)
                there = first * heads + head * group
                arrays = {}
                for key, array, row in (("query", "query", size),
                                        ("query_scale", "query_scales", QUERY_SCALE),
                                        ("output", "heads", out_bytes)):  # fmt: skip
                    at = self.place.at(f"{name}.{array}") + there * row
                    arrays[key] = Rows(f"{name}.{array}", at, group, row, count, heads * row)
                for key, row in (("key", size), ("value", size), ("key_scale", SCALE),
                                 ("value_scale", SCALE)):  # fmt: skip
                    at = self.place.at(f"{name}.{key}s") + head * self.context * row
                    arrays[key] = Rows(f"{name}.{key}s", at, register=CACHE)
                keys = first + count
                self.list.attention(
                    arrays, unit=self.units["attention"], queries=count, group=group,
                    keys=Number(keys, POSITION), last=Number(first + 1, POSITION),
                    key_bytes=Number(keys * size, KEY_BYTES),
                    scale_bytes=Number(keys * SCALE, SCALE_BYTES),
                    first=Number(first + 1 - window, POSITION) if window else None,
                )  # fmt: skip


def local(node: Node) -> str:
    """Return the name of an operation of a layer without the layer's number."""
    return "layer." + node.name.removeprefix(f"layers.{node.layer}.")
