# SPDX-License-Identifier: Apache-2.0
"""Attention as jobs of the core: rows of queries that share keys, and the keys that they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hwgen.core.operation import lengths_of
from hwgen.core.schedule.memory import SIZE_BITS, Access, CoreJob
from hwgen.families.attention.formats import SCALE
from hwgen.families.attention.operands import packed_powers
from hwgen.families.attention.params import COMMAND, FIRST_MOVES, LAST_MOVES
from hwgen.formats.block.elements import E8M0_BIAS, E8M0_NAN
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.operation import Arrays, Chunks, Operation, Sizes
    from hwgen.core.port import Beats, StreamPort
    from hwgen.core.schedule.memory import Bytes
    from hwgen.families.attention.params import AttentionConfig


@dataclass(frozen=True)
class AttentionMemory:
    """An attention; see `hwgen.core.schedule.memory.MemoryPlan`."""

    plan: Plan

    @property
    def sizes(self) -> Sizes:
        """The sizes of the job."""
        return self.plan.sizes

    @property
    def _ports(self) -> dict[str, StreamPort]:
        return {port.name: port for port in self.plan.config.ports}

    def _row(self, name: str) -> int:
        """Return the bytes of a row of an array: beats of a vector, or one scale."""
        port = self._ports[name]
        return port.beat_bytes * (1 if name.endswith("_scale") else self.plan.config.steps)

    @property
    def jobs(self) -> Sequence[CoreJob]:
        """A job for each block."""
        return [self._job(block) for block in self.plan.blocks]

    def _job(self, block: Block) -> CoreJob:
        words = np.array(block.command, "<i4").tobytes()
        reads = {
            name: self._of_keys(name, block)
            if name.startswith(("key", "value"))
            else self._of_queries(name, name, block)
            for name, port in self._ports.items()
            if port.direction == "in"
            and not port.per_job
            and (len(block.keys) or name.startswith("query"))
        }
        return CoreJob({"command": words}, reads, self._of_queries("out", "output", block))

    def _of_keys(self, name: str, block: Block) -> Access:
        """Return the rows of keys or values, in as few as possible: they are whole beats."""
        size, keys, count = self._row(name), self.plan.sizes["keys"], len(block.keys)
        first = block.head * keys + block.keys.start
        rows = next(
            n for n in range(1, count + 1) if count % n == 0 and size * count // n < 1 << SIZE_BITS
        )
        together = size * count // rows
        return Access(name, together, rows, together, offset=first * size)

    def _of_queries(self, port: str, array: str, block: Block) -> Access:
        """Return the rows of queries or results: heads of a query, and then the next query."""
        size, sizes = self._row(port), self.plan.sizes
        queries = sizes["queries"]
        first = (block.head * sizes["group"] + block.heads.start) * queries + block.queries.start
        return Access(
            array, size, len(block.heads), queries * size, len(block.queries), size, first * size
        )

    @property
    def result_bytes(self) -> Mapping[str, int]:
        """Bytes of the results."""
        sizes = self.plan.sizes
        rows = sizes["kv_heads"] * sizes["group"] * sizes["queries"]
        return {"output": rows * self._row("out")}

    def arrays(self, operands: Arrays) -> Mapping[str, Bytes]:
        """Return operands as they lie in memory."""
        result = {}
        for name, operand in operands.items():
            port = self._ports[name]
            if name.endswith("_scale"):
                rows = operand.reshape(-1, 1)
            else:
                vectors = operand.reshape(-1, operand.shape[-1])
                width = self.plan.config.steps * port.lanes
                rows = np.zeros((len(vectors), width), vectors.dtype)
                rows[:, : vectors.shape[1]] = vectors
            result[name] = port.pack(rows.reshape(-1, port.lanes)).reshape(-1)
        return result

    def unpack(self, images: Mapping[str, Bytes]) -> dict[str, NDArray[Any]]:
        """Return the results."""
        sizes, port = self.plan.sizes, self._ports["out"]
        shape = [sizes[name] for name in ("kv_heads", "group", "queries")]
        values = port.unpack(images["output"].reshape(-1, port.beat_bytes))
        return {"output": values.reshape(*shape, -1)[..., : sizes["elements"]]}


def words_of(beat: Bytes) -> dict[str, int]:
    """Return the words of a command by name."""
    return dict(zip(COMMAND, np.ascontiguousarray(beat).view("<i4").tolist(), strict=True))


_FAR = 0.02  # powers of two of blocks that are anything
_SPECIAL = 0.02  # vectors of random ones with an element that is no finite number


@dataclass(frozen=True)
class Mask:
    """Attention mask: the keys that a query looks at.

    Parameters
    ----------
    causal : bool
        None behind its own position.
    offset : int
        Position of the first query among the keys.
    window : int
        Only so many keys up to its own position, whether causal or not; 0 for all.
    """

    causal: bool = False
    offset: int = 0
    window: int = 0

    @classmethod
    def of(cls, scalars: Mapping[str, float]) -> Mask:
        """Return the mask that the scalars of an operation describe."""
        return cls(bool(scalars["causal"]), int(scalars["offset"]), int(scalars["window"]))

    def ranges(
        self, queries: NDArray[np.int64], keys: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first key that each query looks at, and the one behind the last.

        Bounds may lie outside of the keys; a range that ends where it starts, or before, is empty.
        """
        position = np.asarray(queries, np.int64) + self.offset
        last = position + 1 if self.causal else np.full_like(position, keys)
        first = position + 1 - self.window if self.window else np.zeros_like(position)
        return first, last


@dataclass(frozen=True)
class Block:
    """A job: rows of queries of one head of keys, and the keys that they need.

    Parameters
    ----------
    head : int
        Of keys and values.
    heads : range
        Heads of queries within their group.
    queries : range
        Of each head; rows are ordered by query, then by head.
    keys : range
        Keys that go past.
    first, last : int
        Keys that the first query looks at, as `Mask.ranges`, counted from `keys.start`.
    moves : int
        Which of the two bounds move with the queries.
    """

    head: int
    heads: range
    queries: range
    keys: range
    first: int
    last: int
    moves: int

    @property
    def rows(self) -> int:
        """Rows of queries."""
        return len(self.heads) * len(self.queries)

    @property
    def command(self) -> tuple[int, ...]:
        """The words of the command."""
        return (
            self.rows, len(self.keys), len(self.heads), self.first, self.last, self.moves
        )  # fmt: skip


def blocks_of(config: AttentionConfig, sizes: Sizes, mask: Mask) -> Iterator[Block]:
    """Yield the jobs of an attention, in order.

    A block holds all heads of a group for as many queries as there are rows for, or a part of the
    heads of one query. Keys that no row of a block looks at do not go past.
    """
    rows, group = config.array.rows, sizes["group"]
    heads_at_once = min(group, rows)
    queries_at_once = rows // heads_at_once
    moves = (FIRST_MOVES if mask.window else 0) | (LAST_MOVES if mask.causal else 0)
    for head in range(sizes["kv_heads"]):
        for start in range(0, sizes["queries"], queries_at_once):
            queries = range(start, min(start + queries_at_once, sizes["queries"]))
            ends = np.array([queries[0], queries[-1]])
            first, last = (bound.tolist() for bound in mask.ranges(ends, sizes["keys"]))
            low = min(max(first[0], 0), sizes["keys"])
            high = max(low, min(last[1], sizes["keys"]))
            for at in range(0, group, heads_at_once):
                heads = range(at, min(at + heads_at_once, group))
                # Bounds move by fewer than `rows`: further away they mean the same.
                start_at, end_at = (
                    min(max(bound - low, -rows), high - low) for bound in (first[0], last[0])
                )
                yield Block(head, heads, queries, range(low, high), start_at, end_at, moves)


@dataclass(frozen=True)
class Plan:
    """The beats of an attention; see `hwgen.core.operation.StreamPlan`."""

    config: AttentionConfig
    sizes: Sizes
    mask: Mask

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The jobs in order."""
        return tuple(blocks_of(self.config, self.sizes, self.mask))

    @property
    def output_beats(self) -> int:
        """Result beats of all jobs."""
        return sum(block.rows for block in self.blocks) * self.config.steps

    def pack(self, operands: Arrays) -> dict[str, Chunks]:
        """Return the beats of every input port by name."""
        self.config.operations[0].check_operands(operands)
        inputs = (port for port in self.config.ports if port.direction == "in")
        return {port.name: self._stream(port, operands) for port in inputs}

    def _stream(self, port: StreamPort, operands: Arrays) -> Chunks:
        for block in self.blocks:
            values = self._values(port.name, block, operands)
            if len(values):
                yield port.pack(values.reshape(-1, port.lanes)), False

    def _values(self, name: str, block: Block, operands: Arrays) -> NDArray[Any]:
        """Return the elements that a port takes for a job."""
        if name == "command":
            return np.array(block.command, np.int64)
        array: NDArray[Any] = operands[name][block.head]
        if name.startswith("query"):
            part = array[block.heads.start : block.heads.stop]
            part = part[:, block.queries.start : block.queries.stop].swapaxes(0, 1)
        else:
            part = array[block.keys.start : block.keys.stop]
        if name.endswith("_scale"):
            return np.asarray(part.reshape(-1, 1))
        vectors = part.reshape(-1, part.shape[-1])
        wide: NDArray[Any] = np.zeros(
            (len(vectors), self.config.steps * self.config.array.lanes), part.dtype
        )
        wide[:, : vectors.shape[1]] = vectors
        return wide

    def output_last(self) -> Iterator[bool]:
        """Yield ``tlast`` of every result beat: at the end of a job."""
        for block in self.blocks:
            beats = block.rows * self.config.steps
            yield from (beat == beats - 1 for beat in range(beats))

    def unpack(self, beats: Beats) -> dict[str, NDArray[Any]]:
        """Return the results by name from result beats, shape (output_beats, bytes)."""
        port, sizes = self.config.ports[-1], self.sizes
        rows = port.unpack(beats).reshape(-1, self.config.steps * port.lanes)
        names = ("kv_heads", "group", "queries", "elements")
        result = np.zeros([sizes[name] for name in names], rows.dtype)
        at = 0
        for block in self.blocks:
            part = rows[at : at + block.rows, : sizes["elements"]]
            shape = (len(block.queries), len(block.heads), sizes["elements"])
            part = part.reshape(shape).swapaxes(0, 1)
            heads = slice(block.heads.start, block.heads.stop)
            result[block.head, heads, block.queries.start : block.queries.stop] = part
            at += block.rows
        return {"output": result}

    def memory(self) -> AttentionMemory:
        """Return its plan from memory to memory."""
        return AttentionMemory(self)

    def locate(self, name: str, index: tuple[int, ...]) -> int:
        """Return the result beat that holds an element of the result."""
        head, of_group, query, element = index
        at = 0
        for block in self.blocks:
            if block.head == head and of_group in block.heads and query in block.queries:
                row = (query - block.queries.start) * len(block.heads)
                row += of_group - block.heads.start
                step = element // self.config.array.lanes
                return (at + row) * self.config.steps + step
            at += block.rows
        raise IndexError(index)


def draw_operands(
    config: AttentionConfig,
    operation: Operation,
    sizes: Sizes,
    pattern: str,
    rng: np.random.Generator,
) -> dict[str, NDArray[Any]]:
    """Return operands for a regression; see `flows.simulation.operands`.

    Scales of queries mostly leave scaled scores within their range and differ in all rows; some
    are anything, so that scores saturate, or are all the same.
    """
    result = {}
    for index, tensor in enumerate(operation.operands):
        shape, fmt = lengths_of(tensor, sizes), tensor.format
        ends = {"lowest": fmt.min, "highest": fmt.max, "opposite": (fmt.min, fmt.max)[index % 2]}
        if pattern in ends:
            values = np.full(shape, ends[pattern])
        elif pattern == "alternating":
            values = np.where(np.indices(shape).sum(axis=0) % 2, fmt.min, fmt.max)
        else:
            in_blocks = config.blocks and tensor.name in ("key_scale", "value_scale")
            values = _powers(config, rng, shape) if in_blocks else fmt.random(rng, shape)
            if pattern != "random":
                values[rng.random(shape) < (0.8 if pattern == "sparse" else 1)] = 0
        if tensor.name == "query_scale" and pattern != "highest":
            values = np.where(rng.random(shape) < 0.1, values, _usual_scales(config, rng, shape))
        result[tensor.name] = values.astype(fmt.dtype)
        if config.floating and pattern == "random" and not tensor.name.endswith("scale"):
            _make_special(result[tensor.name], fmt, rng)
    return result


def _make_special(vectors: NDArray[Any], fmt: Any, rng: np.random.Generator) -> None:
    """Put infinities and NaNs, where the format has them, into a few vectors."""
    ends = np.array([value for value in fmt.specials if not np.isfinite(value)])
    if not len(ends):
        return
    flat = vectors.reshape(-1, vectors.shape[-1])  # the same elements
    some = np.flatnonzero(rng.random(len(flat)) < _SPECIAL)
    flat[some, rng.integers(flat.shape[1], size=len(some))] = rng.choice(ends, len(some))


def _powers(
    config: AttentionConfig, rng: np.random.Generator, shape: tuple[int, ...]
) -> NDArray[Any]:
    """Return powers of two of blocks: most near 1, a few anything, or no number."""
    each = (*shape, config.blocks)
    powers = E8M0_BIAS + rng.integers(-6, 7, each)
    powers = np.where(rng.random(each) < _FAR, rng.integers(0, E8M0_NAN, each), powers)
    powers = np.where(rng.random(each) < _SPECIAL / 4, E8M0_NAN, powers)
    return packed_powers(config, powers)


def _usual_scales(
    config: AttentionConfig, rng: np.random.Generator, shape: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return scales of queries with which random scores are some powers of two apart."""
    typical = SCALE.width * (1 + config.scaled_keys) + config.head.bit_length() // 2
    if not config.floating:
        typical += config.query.width + config.key.width - 4
    shift = typical - config.softmax.fraction_bits - rng.integers(-1, 5, shape)
    mantissa = rng.integers(1 << (SCALE.width - 1), SCALE.max, shape, endpoint=True)
    return np.clip(shift, 0, 63) << SCALE.width | mantissa
