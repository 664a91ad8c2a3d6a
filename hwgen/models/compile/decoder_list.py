# SPDX-License-Identifier: Apache-2.0
"""A decoder as one command list: from tokens in memory to tokens in memory.

The list reads the tokens of a prompt, several at once where there are as many, stores their keys
and values, and appends the most likely token, again and again.  Layers differ in the contents of
memory alone, at the same distance from layer to layer: a loop over layers adds it to two registers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.errors import InputError
from hwgen.families.attention.formats import SCALE
from hwgen.families.gemm_stream.schedule import plan_of
from hwgen.models.compile.constants import Constants, sums_unit
from hwgen.models.compile.list_builder import (
    ListBuilder,
    Number,
    Offer,
    Rows,
    parameter_row_bytes,
)
from hwgen.models.compile.placement import IMAGE, WORK, Placement
from hwgen.models.graph.description import Node, real, sizes_of
from hwgen.models.graph.hadamard import HADAMARD, ROTATED_OPERANDS
from hwgen.models.graph.layered import Layered, local_name, rope_table
from hwgen.models.run.block_rows import BLOCK, ELEMENT, key_format, row_format
from hwgen.models.run.token_scales import FORMAT
from hwgen.models.run.units import KEY, REAL

if TYPE_CHECKING:
    from hwgen.core.port import StreamPort
    from hwgen.models.compile.list_builder import ListEngine

REGISTERS = {
    "POSITION": (1, "tokens that were read; position of the next one"),
    "PROMPT": (2, "tokens in memory"),
    "STOP": (3, "position of the last token to append"),
    "END": (4, "token that ends the text; a number that is no token: none"),
}
"""Registers that the host writes: number and meaning."""

POSITION, PROMPT, STOP, END = (number for number, _ in REGISTERS.values())
(LAYERS, WEIGHTS, CACHE, KEY_AT, SCALE_AT, KEY_BYTES, SCALE_BYTES, ROPE_OFFSET, LAST, TOKEN,
 OTHER) = range(5, 16)  # fmt: skip

REAL_BYTES = 4
QUERY_SCALE = 4

TOKENS, X = "tokens", "x"
"""Names of the arrays of tokens, and of what goes from layer to layer."""


def register_values(
    config: ListEngine, end: int | None, position: int, prompt: int, count: int
) -> list[int]:
    """Return the registers of a list that appends `count` tokens to `prompt` others."""
    registers = [0] * config.lists.registers
    nothing = (1 << config.register_width) - 1
    values = {"POSITION": position, "PROMPT": prompt, "STOP": prompt + count - 1,
              "END": nothing if end is None else end}  # fmt: skip
    for name, (number, _) in REGISTERS.items():
        registers[number] = values[name]
    return registers


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


_ON_ROWS = ("rms_norm", "layer_norm", "rope", "gated", "add")


def units_of(
    builder: ListBuilder,
    operations: Collection[str],
    quantisers: Collection[tuple[int, str]] = (),
    sums: Collection[str] = ("int32",),
    *,
    in_blocks: bool = False,
    keys: str = "",
) -> dict[str, Offer]:
    """Return the offers of the units of an engine, by their purpose in a decoder.

    Parameters
    ----------
    builder : ListBuilder
    operations : collection of str
        Operations of the decoder.
    quantisers : collection of (int, str)
        Elements of the Hadamard blocks that are rotated before rows are quantised, 0 if none are,
        and the integer format of the rows.
    sums : collection of str
        Formats of the sums of products that are scaled row by row.
    in_blocks : bool
        Whether rows of products are in blocks of MXFP8.
    keys : str
        Format of the elements of keys and values in blocks; empty if they have scales of tokens.

    Raises
    ------
    InputError
        If there is none for something.
    """
    of = builder.offer
    result = {
        name: of(name, x=REAL, result=REAL)
        for name in _ON_ROWS
        if name in operations or name == "add"  # which also looks up tokens
    }
    for block, made in quantisers:
        name = HADAMARD if block else "quantise"
        result[quantiser(block, made)] = of(name, multiple=block, x=REAL, result=made)
    if in_blocks:
        result["quantise_block"] = of("quantise_block", x=REAL, result=ELEMENT.name)
    result |= {sums_unit(name): of("dequantise_rows", x=name, result=REAL) for name in sums}
    result["argmax"] = of("argmax", x=REAL)
    if not keys:
        return result | {
            "scales": of("dequantise", x=REAL, result=FORMAT),
            "attention": of("attention", key=KEY, key_scale=SCALE.name),
            "results": of("dequantise", x="int16", result=REAL),
        }
    attention = of("attention", key=keys, value=keys)
    core: Any = builder.config.units[attention.unit].compute
    return result | {
        "attention": attention,
        "keys": of("quantise_block", x=REAL, result=keys),
        "queries": of("dequantise", x=REAL, result=str(core.query)),
        "results": of("dequantise", x=str(core.output), result=REAL),
    }


def quantiser(block: int, result: str) -> str:
    """Return the purpose of the unit that makes integers of rows, blocks of which are rotated."""
    return f"{result}_{block}"


class DecoderList:
    """Builder of the list.

    Parameters
    ----------
    config : ListEngine
    decoder : Layered
    constants : Constants
    builder : ListBuilder
    units : mapping of Offer
        Offers of units by their purpose; see `units_of`.
    memory : Placement
        Empty; all arrays but the list are placed in it.
    most, context : int
        Tokens of a prompt that are read at once, and positions of the cache.

    Attributes
    ----------
    jobs : list of Job
    """

    def __init__(
        self,
        config: ListEngine,
        decoder: Layered,
        constants: Constants,
        builder: ListBuilder,
        units: Mapping[str, Offer],
        memory: Placement,
        most: int,
        context: int,
    ) -> None:
        self.config, self.decoder, self.memory = config, decoder, memory
        self.list, self.units, self.cores = builder, units, constants.engine.cores
        self.most, self.context = most, context
        self.jobs: list[Job] = []
        self._core: Any = config.units[units["attention"].unit].compute
        self._tokens, self._looped = most, True
        self._arrays: dict[str, str] = {decoder.embed.output: X}
        self._strides: dict[str, int] = {}
        self._operations = {
            "rms_norm": self._norm, "layer_norm": self._norm, "soft_cap": self._soft_cap,
            "quantise": self._quantise, "gemm": self._gemm,
            "rope": self._rope, "gated": self._elementwise, "add": self._elementwise,
            "attention": self._attention,
        }  # fmt: skip
        self._check()
        self._place_image(constants)
        self._place_work()

    def _check(self) -> None:
        registers = self.config.lists.registers
        if registers <= OTHER:
            raise InputError(f"lists.registers: must be 16 or more, not {registers}")
        if self.context > self._core.max_keys:
            raise InputError(
                f"units.{self.units['attention'].unit}.compute.max_keys: must be {self.context} or"
                f" more for a context of as many positions, not {self._core.max_keys}"
            )
        for node in (*self.decoder.layers[0], *self.decoder.after):
            if node.operation not in self._operations:
                raise InputError(
                    f"{node.name}: {node.operation} is no operation of compiled decoders; run the"
                    " model operation by operation (`hwgen model run --engine golden`)"
                )

    # -- places ----------------------------------------------------------------------------

    def _place_image(self, constants: Constants) -> None:
        for name, size in constants.shared_sizes(self.context).items():
            self.memory.place(name, size, IMAGE)
        first, *_ = self.decoder.layers
        layer = {
            f"{local_name(node)}.{key}": size
            for node in first for key, size in constants.sizes(node).items()
        }  # fmt: skip
        self._weight_stride = self.memory.repeat(layer, len(self.decoder.layers), IMAGE)
        for node in self.decoder.after:
            for key, size in constants.sizes(node).items():
                self.memory.place(f"{local_name(node)}.{key}", size, IMAGE)
        for node in first:
            if node.operation == "attention":
                heads = sizes_of(node)[0]
                name = f"{local_name(node)}.query_scales"
                self.memory.place(name, self.most * heads * QUERY_SCALE, IMAGE, written=True)

    def _place_work(self) -> None:
        self.memory.place(TOKENS, 4 * (self.context + 1), WORK, written=True)
        cache = {}
        for node in self.decoder.layers[0]:
            if node.operation == "attention":
                heads, name = sizes_of(node)[1], local_name(node)
                for part in ("key", "value"):
                    cache[f"{name}.{part}s"] = heads * self.context * self._head_bytes
                    cache[f"{name}.{part}_scales"] = heads * self.context * self._scale_bytes
        count = len(self.decoder.layers)
        self._cache_stride = self.memory.repeat(cache, count, WORK, written=True)

    # -- the list --------------------------------------------------------------------------

    def build(self) -> bytes:
        """Return the list."""
        program = self.list.program
        self._label("next")
        if self.most > 1:
            program.add(OTHER, POSITION, value=self.most)
            program.branch("one", "below", PROMPT, OTHER)
            self._pass(self.most)
            program.branch("last")
            self._label("one")
        self._pass(1)
        self._label("last")
        program.branch("next", "below", POSITION, PROMPT)
        self._output()
        program.branch("end", "equal", TOKEN, END)
        program.branch("next", "below", POSITION, STOP)
        self._label("end")
        program.halt()
        return program.encode()

    def _label(self, name: str) -> None:
        """Set a label where nothing is known of job windows; all units have finished."""
        self.list.forget()
        self.list.program.label(name)

    def _pass(self, tokens: int) -> None:
        """Append what a number of tokens goes through, all layers."""
        program, self._tokens, self._looped = self.list.program, tokens, True
        for index in range(tokens):
            self._embed(index)
        turns = {self._rope_bytes(n) for n in self.decoder.layers[0] if n.operation == "rope"}
        if len(turns) > 1:
            raise InputError("rotations of several sizes are not compiled")
        program.multiply(ROPE_OFFSET, POSITION, turns.pop() if turns else 0)
        program.multiply(KEY_BYTES, POSITION, self._head_bytes)
        program.multiply(SCALE_BYTES, POSITION, self._scale_bytes)
        program.set(WEIGHTS, 0)
        program.set(CACHE, 0)
        program.set(LAYERS, len(self.decoder.layers))
        self.list.wait()
        self._label(f"layer_{tokens}")
        program.add(KEY_AT, CACHE, KEY_BYTES)
        program.add(SCALE_AT, CACHE, SCALE_BYTES)
        nodes = self.decoder.layers[0]
        for node in nodes:
            self._arrays[node.output] = X if node is nodes[-1] else f"{local_name(node)}.result"
            self._operate(node)
        self.list.wait()
        program.add(WEIGHTS, WEIGHTS, value=self._weight_stride)
        program.add(CACHE, CACHE, value=self._cache_stride)
        program.add(LAYERS, LAYERS, value=-1)
        program.branch(f"layer_{tokens}", "different", LAYERS, 0)
        program.add(POSITION, POSITION, value=tokens)
        program.set(LAST, (tokens - 1) * REAL_BYTES * self.decoder.length(nodes[-1].output))

    def _output(self) -> None:
        """Append what makes the next token of the last one."""
        program, self._tokens, self._looped = self.list.program, 1, False
        self._arrays[self.decoder.layers[-1][-1].output] = X
        for node in self.decoder.after:
            self._arrays[node.output] = f"{local_name(node)}.result"
            self._operate(node)
        last = self.decoder.after[-1].output
        program.multiply(OTHER, POSITION, 4)
        at = Rows(TOKENS, self.memory.at(TOKENS), register=OTHER)
        self._submit("argmax", last, {"x": self._rows(last), "positions": at})
        self.list.wait()
        program.load(TOKEN, OTHER, size=4, offset=self.memory.at(TOKENS))
        program.add(PROMPT, POSITION, value=1)

    # -- arrays ----------------------------------------------------------------------------

    @property
    def _head_bytes(self) -> int:
        """Bytes of a key or a value, filled up to what the unit takes."""
        return int(self._port("key").beat_bytes * self._core.steps)

    @property
    def _query_bytes(self) -> int:
        """Bytes of a query, likewise."""
        return int(self._port("query").beat_bytes * self._core.steps)

    @property
    def _scale_bytes(self) -> int:
        """Bytes of the scale, or the scales, of a key or value."""
        return int(self._port("key_scale").beat_bytes)

    def _port(self, name: str) -> StreamPort:
        """Return a port of the attention unit."""
        port: StreamPort = next(port for port in self._core.ports if port.name == name)
        return port

    def _work(self, name: str, row_bytes: int, rows: int = 1) -> int:
        """Return the address of rows of every token that the list works on."""
        if name not in self.memory.arrays:
            self.memory.place(name, self.most * rows * row_bytes, WORK, written=True)
        return self.memory.at(name)

    def _rows(self, array: str, length: int = 0, **others: Any) -> Rows:
        """Return the rows of an array of the network: of a token each, unless said otherwise."""
        name = self._arrays.get(array, array)
        size = REAL_BYTES * (length or self.decoder.length(array))
        address = self._work(name, size) + others.pop("offset", 0)
        register = LAST if name == X and not self._looped else 0
        return Rows(name, address, **{"rows": self._tokens, "register": register, **others})

    def _constant(self, node: Node, key: str, rows: int = 1) -> Rows:
        """Return weights: the same row again and again."""
        name = f"{local_name(node)}.{key}"
        return Rows(
            name, self.memory.at(name), rows, 0 if rows > 1 else -1,
            register=WEIGHTS if self._looped else 0,
        )  # fmt: skip

    def _operate(self, node: Node) -> None:
        """Append an operation of the network, and note its jobs."""
        before = len(self.list.submitted)
        self._operations[node.operation](node)
        self._note(local_name(node), before)

    def _note(self, name: str, before: int) -> None:
        for index, unit in self.list.submitted[before:]:
            self.jobs.append(Job(index, unit, name, self._tokens, self._looped))

    def _submit(self, purpose: str, array: str, rows: Mapping[str, Rows], **scalars: float) -> None:
        before = len(self.list.submitted)
        length = self.decoder.length(array)
        self.list.rows(self.units[purpose], length, rows, scalars)
        if purpose == "argmax":
            self._note(purpose, before)

    # -- operations ------------------------------------------------------------------------

    def _embed(self, index: int) -> None:
        program, width = self.list.program, self.decoder.length(self.decoder.embed.output)
        row = REAL_BYTES * width
        program.multiply(OTHER, POSITION, 4)
        program.load(TOKEN, OTHER, size=4, offset=self.memory.at(TOKENS) + 4 * index)
        program.multiply(TOKEN, TOKEN, row)
        before = len(self.list.submitted)
        self.list.rows(
            self.units["add"], width,
            {"x": Rows("embedding", self.memory.at("embedding"), register=TOKEN),
             "y": Rows("nothing", self.memory.at("nothing")),
             "result": Rows(X, self._work(X, row) + index * row)},
            {"scale": 1.0},
        )  # fmt: skip
        self._note("embed", before)

    def _norm(self, node: Node) -> None:
        heads = int(real(node, "heads", 1))
        rows = heads * self._tokens
        arrays = {
            "x": self._rows(node.inputs["x"], rows=rows),
            "gamma": self._constant(node, "gamma", rows),
            "result": self._rows(node.output, rows=rows),
        }
        length = self.decoder.length(node.output) // heads
        scalars = {"epsilon": real(node, "epsilon")}
        self.list.rows(self.units[node.operation], length, arrays, scalars)

    def _soft_cap(self, node: Node) -> None:
        """Leave logits as they are: a soft cap does not change which one is the largest."""
        if node.layer is not None:
            raise InputError(f"{node.name}: soft caps are compiled of logits only")
        self._arrays[node.output] = self._arrays[node.inputs["x"]]

    def _quantise(self, node: Node) -> None:
        x, name = node.inputs["x"], self._arrays.get(node.output, node.output)
        length, rows = self.decoder.length(x), self._tokens
        stride = self._row_bytes(node)
        self._strides[name] = stride
        if node.attributes.get("format"):
            self._blocks(x, name, length, stride)
            return
        result = Rows(name, self._work(name, stride), rows, stride)
        steps = Rows(f"{name}.steps", self._work(f"{name}.steps", REAL_BYTES), rows)
        block = int(real(node, "hadamard"))
        arrays = {"x": self._rows(x), "result": result, "scales": steps}
        self._integers(block, length, arrays, row_format(node))

    def _blocks(self, x: str, name: str, length: int, stride: int) -> None:
        """Append what makes blocks of rows: a byte with the exponent, then the elements."""
        count, size, at = length // BLOCK, 1 + BLOCK, self._work(name, stride)
        again = {"stride": size, "blocks": self._tokens, "step": stride}
        rows = {
            "x": self._rows(x, rows=count * self._tokens, stride=REAL_BYTES * BLOCK),
            "result": Rows(name, at + 1, count, **again),
            "scales": Rows(name, at, count, **again),
        }
        self.list.rows(self.units["quantise_block"], BLOCK, rows)

    def _row_bytes(self, node: Node) -> int:
        """Return the bytes from one row of integers to the next: the longest that a core reads."""
        length = self.decoder.length(node.inputs["x"])
        readers = (*self.decoder.layers[0], *self.decoder.after)
        return max(length, *(
            plan_of(self.config.units[self.cores[each.inputs["weights"]].name], 1, length, 1)
            .activation_row_bytes
            for each in readers
            if each.operation == "gemm" and each.inputs["x"] == node.output
        ))  # fmt: skip

    def _integers(
        self, block: int, length: int, rows: Mapping[str, Rows], result: str = "int8"
    ) -> None:
        """Append what makes integers of rows, blocks of which are perhaps turned before."""
        self.list.rows(self.units[quantiser(block, result)], length, rows)

    def _gemm(self, node: Node) -> None:
        t, weights = self._tokens, node.inputs["weights"]
        name, x = local_name(node), self._arrays[node.inputs["x"]]
        n, k = self.decoder.description.tensors[weights].shape
        a = Rows(x, self.memory.at(x), t, self._strides[x])
        core, result = self.cores[weights], self._rows(node.output)
        in_blocks = core.activation.is_block  # then sums are results
        sums = result if in_blocks else Rows(
            f"{name}.sums", self._work(f"{name}.sums", 4 * n), t
        )  # fmt: skip
        self.list.gemm(a, self._constant(node, "weights"), sums, k, n, unit=core.name)
        if not in_blocks:
            steps = Rows(f"{x}.steps", self.memory.at(f"{x}.steps"), t)
            rows = {"x": sums, "row_scales": steps, "scales": self._constant(node, "scales", t),
                    "result": result}  # fmt: skip
            unit = sums_unit(str(core.result))
            self._submit(unit, node.output, rows, scale=1.0)
        if "bias" in node.inputs:
            bias = self._constant(node, "bias", t)
            self._submit("add", node.output, {"x": result, "y": bias, "result": result},
                         scale=1.0)  # fmt: skip

    def _rope_bytes(self, node: Node) -> int:
        """Return the bytes of a row of cosines and sines."""
        compute: Any = self.config.units[self.units["rope"].unit].compute
        return parameter_row_bytes(compute, int(real(node, "elements")))

    def _rope(self, node: Node) -> None:
        t, heads, elements = self._tokens, int(real(node, "heads")), int(real(node, "elements"))
        here = {"rows": heads, "blocks": t, "stride": REAL_BYTES * elements,
                "step": REAL_BYTES * elements * heads}  # fmt: skip
        table = rope_table(node)
        turns = Rows(table, self.memory.at(table), heads, 0, t, self._rope_bytes(node), ROPE_OFFSET)
        self.list.rows(
            self.units["rope"], elements,
            {"x": self._rows(node.inputs["x"], **here), "turns": turns,
             "result": self._rows(node.output, **here)},
        )  # fmt: skip

    def _elementwise(self, node: Node) -> None:
        rows = {"x": self._rows(node.inputs["x"]), "y": self._rows(node.inputs["y"]),
                "result": self._rows(node.output)}  # fmt: skip
        scale = real(node, "scale", 1.0)
        self._submit(node.operation, node.output, rows, scale=scale)

    # -- attention -------------------------------------------------------------------------

    def _attention(self, node: Node) -> None:
        heads, kv_heads, elements = sizes_of(node)
        if key_format(node):
            self._queries(node, heads)
            for part in ("key", "value"):
                self._keys_in_blocks(node, part, kv_heads)
        else:
            self._tokens_scaled(node, "query", heads)
            for part in ("key", "value"):
                self._tokens_scaled(node, part, kv_heads)
        out = next(port for port in self._core.ports if port.name == "out")
        out_bytes = int(out.beat_bytes * self._core.steps)
        name, rows = local_name(node), self._tokens * heads
        result = Rows(f"{name}.heads", self._work(f"{name}.heads", out_bytes, heads), rows,
                     out_bytes)  # fmt: skip
        self._attend(node, out_bytes)
        self.list.rows(
            self.units["results"], elements,
            {"x": result, "scales": self._constant(node, "result_factor", rows),
             "result": self._rows(node.output, rows=rows)},
            {"scale": 1.0},
        )  # fmt: skip

    def _queries(self, node: Node, heads: int) -> None:
        """Append what makes queries of the format of an attention to keys in blocks."""
        name, elements, size = local_name(node), sizes_of(node)[2], self._query_bytes
        rows = self._tokens * heads
        target = Rows(f"{name}.query", self._work(f"{name}.query", size, heads), rows, size)
        x = self._rows(node.inputs["query"], rows=rows, stride=REAL_BYTES * elements)
        self.list.rows(
            self.units["queries"], elements,
            {"x": x, "scales": self._constant(node, "query_factor", rows), "result": target},
            {"scale": 1.0},
        )  # fmt: skip

    def _keys_in_blocks(self, node: Node, part: str, heads: int) -> None:
        """Append what makes blocks of keys or values, a job for each token."""
        name, elements = local_name(node), sizes_of(node)[2]
        size, scales = self._head_bytes, self._scale_bytes
        count, row = elements // BLOCK, REAL_BYTES * BLOCK
        at, scale_at = (self.memory.at(f"{name}.{part}{end}") for end in ("s", "_scales"))
        for token in range(self._tokens):
            x = self._rows(node.inputs[part], rows=count, stride=row, blocks=heads,
                           step=count * row, offset=token * heads * count * row)  # fmt: skip
            rows = {
                "x": x,
                "result": Rows(f"{name}.{part}s", at + token * size, count, size // count, heads,
                               self.context * size, KEY_AT),
                "scales": Rows(f"{name}.{part}_scales", scale_at + token * scales, count, 1, heads,
                               self.context * scales, SCALE_AT),
            }  # fmt: skip
            self.list.rows(self.units["keys"], BLOCK, rows)

    def _tokens_scaled(self, node: Node, part: str, heads: int) -> None:
        """Append what makes integers of queries, keys or values, and their scales."""
        name, t, elements = local_name(node), self._tokens, sizes_of(node)[2]
        size, cached, scale = self._head_bytes, part != "query", self._scale_bytes
        steps, real_row = f"{name}.{part}_steps", REAL_BYTES * elements
        steps_at = self._work(steps, REAL_BYTES, heads)
        one = {"blocks": t, "step": REAL_BYTES * heads, "stride": REAL_BYTES}
        if cached:
            at = self.memory.at(f"{name}.{part}s")
            target = Rows(f"{name}.{part}s", at, heads, self.context * size, t, size, KEY_AT)
            at = self.memory.at(f"{name}.{part}_scales")
            scales = Rows(f"{name}.{part}_scales", at, heads, self.context * scale, t, scale,
                          SCALE_AT)  # fmt: skip
        else:
            size = self._query_bytes
            at = self._work(f"{name}.query", size, heads)
            target = Rows(f"{name}.query", at, heads, size, t, heads * size)
            at = self.memory.at(f"{name}.query_scales")  # the lower half of each word
            scales = Rows(f"{name}.query_scales", at, heads, QUERY_SCALE, t, heads * QUERY_SCALE)
        x = self._rows(node.inputs[part], rows=heads, stride=real_row, blocks=t,
                       step=heads * real_row)  # fmt: skip
        block = int(real(node, "hadamard")) if part in ROTATED_OPERANDS else 0
        rows = {"x": x, "result": target, "scales": Rows(steps, steps_at, heads, **one)}
        self._integers(block, elements, rows)
        factor = self._constant(node, f"{part}_factor", t * heads)
        self.list.rows(
            self.units["scales"], 1,
            {"x": Rows(steps, steps_at, heads, **one), "scales": factor, "result": scales},
            {"scale": 1.0},
        )  # fmt: skip

    def _window(self, node: Node) -> int:
        """Return the positions of a sliding window of attention, 0 for all of the context."""
        window = int(real(node, "window"))
        return window if window < self.context else 0

    def _attend(self, node: Node, out_bytes: int) -> None:
        """Append the attention of each head of keys, as many queries at once as there are rows."""
        heads, kv_heads, _ = sizes_of(node)
        name, group, size = local_name(node), heads // kv_heads, self._head_bytes
        scale = self._scale_bytes
        at_once, window = self._core.array.rows // group, self._window(node)
        if not at_once:
            raise InputError(
                f"units.{self.units['attention'].unit}.compute.array.rows: must be {group} or more,"
                f" the queries of a head of keys, not {self._core.array.rows}"
            )
        for head in range(kv_heads):
            for first in range(0, self._tokens, at_once):
                count = min(at_once, self._tokens - first)
                there = first * heads + head * group
                arrays = {}
                for key, array, row in (("query", "query", self._query_bytes),
                                        ("query_scale", "query_scales", QUERY_SCALE),
                                        ("output", "heads", out_bytes)):  # fmt: skip
                    at = self.memory.at(f"{name}.{array}") + there * row
                    arrays[key] = Rows(f"{name}.{array}", at, group, row, count, heads * row)
                for key, row in (("key", size), ("value", size), ("key_scale", scale),
                                 ("value_scale", scale)):  # fmt: skip
                    at = self.memory.at(f"{name}.{key}s") + head * self.context * row
                    arrays[key] = Rows(f"{name}.{key}s", at, register=CACHE)
                keys = first + count
                self.list.attention(
                    arrays, unit=self.units["attention"].unit, queries=count, group=group,
                    keys=Number(keys, POSITION), last=Number(first + 1, POSITION),
                    key_bytes=Number(keys * size, KEY_BYTES),
                    scale_bytes=Number(keys * scale, SCALE_BYTES),
                    first=Number(first + 1 - window, POSITION) if window else None,
                )  # fmt: skip
