# SPDX-License-Identifier: Apache-2.0
"""A decoder as one command list: from tokens in memory to tokens in memory.

The list takes the tokens of a prompt, several at once where there are as many, keeps their keys and
values, and appends the most likely token, again and again. What differs between layers lies in
memory, at the same distance from layer to layer: a loop over layers adds it to two registers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from hwgen.core.lists.builder import ListBuilder, Rows
from hwgen.errors import InputError
from hwgen.models.compile.constants import Constants
from hwgen.models.compile.lowered_operations import (
    CACHE,
    END,
    KEY_AT,
    KEY_BYTES,
    LAST,
    LAYERS,
    OTHER,
    POSITION,
    PROMPT,
    QUERY_SCALE,
    REAL_BYTES,
    SCALE,
    SCALE_AT,
    SCALE_BYTES,
    STOP,
    TOKEN,
    TOKENS,
    TURNS,
    WEIGHTS,
    Operations,
    X,
)
from hwgen.models.compile.placement import IMAGE, WORK, Placement
from hwgen.models.graph.layered import Layered
from hwgen.models.graph.units import REAL
from hwgen.models.quantise.hadamard_blocks import HADAMARD
from hwgen.models.run.engine import sizes_of
from hwgen.models.run.token_scales import FORMAT

if TYPE_CHECKING:
    from hwgen.core.lists.builder import ListEngine


def units_of(builder: ListBuilder, blocks: Collection[int] = ()) -> dict[str, str]:
    """Return the units of an engine by what they do in a decoder.

    Parameters
    ----------
    builder : ListBuilder
    blocks : collection of int
        Elements of the blocks that are turned before they are quantised.

    Raises
    ------
    InputError
        If there is none for something.
    """
    of = builder.unit
    found = {name: of(name, x=REAL, result=REAL) for name in ("rms_norm", "rope", "gated", "add")}
    found |= {
        f"{HADAMARD}_{block}": of(HADAMARD, multiple=block, x=REAL, result="int8")
        for block in blocks
    }
    return found | {
        "argmax": of("argmax", x=REAL),
        "quantise": of("quantise", x=REAL, result="int8"),
        "sums": of("dequantise_rows", x="int32", result=REAL),
        "scales": of("dequantise", x=REAL, result=FORMAT),
        "attention": of("attention"),
        "results": of("dequantise", x="int16", result=REAL),
    }


class Lowering(Operations):
    """Makes the list.

    Parameters
    ----------
    config : ListEngine
    decoder : Layered
    constants : Constants
    builder : ListBuilder
    units : mapping of str
    place : Placement
        Empty; it gets all arrays but the list.
    tokens : int
        Tokens of a prompt that are taken at once where there are as many.
    context : int
        Positions that the cache has room for.
    """

    def __init__(
        self,
        config: ListEngine,
        decoder: Layered,
        constants: Constants,
        builder: ListBuilder,
        units: Mapping[str, str],
        place: Placement,
        tokens: int,
        context: int,
    ) -> None:
        cores = constants.engine.cores
        super().__init__(config, decoder, builder, units, cores, place, tokens, context)
        self._check()
        self._place_image(constants)
        self._place_work()

    def _check(self) -> None:
        registers = self.config.lists.registers
        if registers <= OTHER:
            raise InputError(f"lists.registers: must be 16 or more, not {registers}")
        if self.context > self._core.max_keys:
            raise InputError(
                f"units.{self.units['attention']}.compute.max_keys: must be {self.context} or more"
                f" for a context of as many positions, not {self._core.max_keys}"
            )
        for node in (*self.decoder.layers[0], *self.decoder.after):
            if not hasattr(self, f"_{node.operation}") or node.operation == "embed":
                raise InputError(
                    f"{node.name}: {node.operation} is no operation of compiled decoders; run the"
                    " model operation by operation (`hwgen model run --engine golden`)"
                )

    # -- places ----------------------------------------------------------------------------

    def _place_image(self, constants: Constants) -> None:
        for name, array in constants.shared(self.context).items():
            self.place.place(name, array.nbytes, IMAGE)
        first, *_ = self.decoder.layers
        layer = {
            f"{self._name(node)}.{key}": array.nbytes
            for node in first for key, array in constants.of(node).items()
        }  # fmt: skip
        self._weight_stride = self.place.repeat(layer, len(self.decoder.layers), IMAGE)
        for node in self.decoder.after:
            for key, array in constants.of(node).items():
                self.place.place(f"{self._name(node)}.{key}", array.nbytes, IMAGE)
        for node in first:
            if node.operation == "attention":
                heads = sizes_of(node)[0]
                name = f"{self._name(node)}.query_scales"
                self.place.place(name, self.most * heads * QUERY_SCALE, IMAGE, written=True)

    def _place_work(self) -> None:
        self.place.place(TOKENS, 4 * (self.context + 1), WORK, written=True)
        cache = {}
        for node in self.decoder.layers[0]:
            if node.operation == "attention":
                heads, name = sizes_of(node)[1], self._name(node)
                for part in ("key", "value"):
                    cache[f"{name}.{part}s"] = heads * self.context * self._head_bytes
                    cache[f"{name}.{part}_scales"] = heads * self.context * SCALE
        count = len(self.decoder.layers)
        self._cache_stride = self.place.repeat(cache, count, WORK, written=True)

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
        for place in range(tokens):
            self._embed(place)
        turns = {self._turn_bytes(n) for n in self.decoder.layers[0] if n.operation == "rope"}
        if len(turns) > 1:
            raise InputError("rotations of several sizes are not compiled")
        program.multiply(TURNS, POSITION, turns.pop() if turns else 0)
        program.multiply(KEY_BYTES, POSITION, self._head_bytes)
        program.multiply(SCALE_BYTES, POSITION, SCALE)
        program.set(WEIGHTS, 0)
        program.set(CACHE, 0)
        program.set(LAYERS, len(self.decoder.layers))
        self.list.wait()
        self._label(f"layer_{tokens}")
        program.add(KEY_AT, CACHE, KEY_BYTES)
        program.add(SCALE_AT, CACHE, SCALE_BYTES)
        nodes = self.decoder.layers[0]
        for node in nodes:
            self._arrays[node.output] = X if node is nodes[-1] else f"{self._name(node)}.result"
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
            self._arrays[node.output] = f"{self._name(node)}.result"
            self._operate(node)
        last = self.decoder.after[-1].output
        program.multiply(OTHER, POSITION, 4)
        at = Rows(TOKENS, self.place.at(TOKENS), register=OTHER)
        self._submit("argmax", "argmax", last, {"x": self._rows(last), "positions": at})
        self.list.wait()
        program.load(TOKEN, OTHER, size=4, offset=self.place.at(TOKENS))
        program.add(PROMPT, POSITION, value=1)
