# SPDX-License-Identifier: Apache-2.0
"""Jobs of vector units: their commands, and the beats of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hwgen.core.schedule.memory import Access, CoreJob, image, numbers
from hwgen.families.vector.operations import CODES, Datapath
from hwgen.formats.integer import IntegerFormat
from hwgen.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.operation import Arrays, Chunks, Operation, Sizes
    from hwgen.core.port import Beats, StreamPort
    from hwgen.core.schedule.memory import Bytes
    from hwgen.families.vector.params import VectorConfig


PACKED = "p"
"""Name of the array of beats of port ``p``, where numbers of different kinds share them."""


@dataclass(frozen=True)
class VectorMemory:
    """A row operation; see `hwgen.core.schedule.memory.MemoryPlan`."""

    plan: Plan

    @property
    def sizes(self) -> Sizes:
        """The sizes of the job."""
        return self.plan.sizes

    @property
    def _shape(self) -> tuple[int, int]:
        sizes = self.plan.sizes
        return sizes["rows"], sizes["length"]

    @property
    def packed(self) -> bool:
        """Whether beats of port ``p`` lie in memory, since they hold two numbers for each lane."""
        return shares_beats(self.plan.config)

    @property
    def jobs(self) -> Sequence[CoreJob]:
        """The job."""
        plan, (rows, length) = self.plan, self._shape
        config, path = plan.config, plan.datapath
        c1, c2 = constants(config, plan.operation, length, plan.scalars)
        beat = command(CODES[plan.operation.name], rows, length, c1, c2).tobytes()
        reads = {}
        for tensor in plan.operation.operands:
            size = length * tensor.format.lane_width // 8
            if tensor.port == "r":
                reads["r"] = Access(tensor.name, 4 * rows)
            elif tensor.port in ("x", "y"):
                reads[tensor.port] = Access(tensor.name, size, rows, size)
            elif not self.packed:
                again = 0 if tensor.shape == ("length",) else size
                reads[tensor.port] = Access(tensor.name, size, rows, again)
        if path.reads_p and self.packed:
            size = plan.steps * next(p for p in config.ports if p.name == "p").beat_bytes
            reads["p"] = Access(PACKED, size, rows, size if path.factor == "rotate" else 0)
        first, *others = plan.operation.results
        size = self.result_bytes[first.name] // rows
        tail = None
        if others:
            each = others[0].format.width // 8
            tail = Access(others[0].name, each, rows, each)
        return [CoreJob({"cmd": beat}, reads, Access(first.name, size, rows, size), tail)]

    @property
    def result_bytes(self) -> Mapping[str, int]:
        """Bytes of the results."""
        rows, length = self._shape
        return {
            tensor.name: rows
            * (length if len(tensor.shape) > 1 else 1)
            * tensor.format.lane_width
            // 8
            for tensor in self.plan.operation.results
        }

    def arrays(self, operands: Arrays) -> Mapping[str, Bytes]:
        """Return operands as they lie in memory."""
        plan = self.plan
        arrays = {
            tensor.name: image(tensor.format, operands[tensor.name])
            for tensor in plan.operation.operands
            if tensor.port in ("x", "y", "r") or not self.packed
        }
        if plan.datapath.reads_p and self.packed:
            port = next(port for port in plan.config.ports if port.name == "p")
            beats = [block.reshape(-1) for block, _ in plan.stream(port, operands)]
            again = plan.datapath.factor != "rotate"
            arrays[PACKED] = beats[0] if again else np.concatenate(beats)
        return arrays

    def unpack(self, images: Mapping[str, Bytes]) -> dict[str, NDArray[Any]]:
        """Return the results."""
        rows, length = self._shape
        return {
            tensor.name: numbers(
                tensor.format, images[tensor.name], (rows, length)[: len(tensor.shape)]
            )
            for tensor in self.plan.operation.results
        }


def beats_of_row(config: VectorConfig, length: int) -> int:
    """Return the beats of a row of `x`."""
    return -(-length // config.array.lanes)


def shares_beats(config: VectorConfig) -> bool:
    """Return whether beats of port ``p`` have two numbers for each lane."""
    return config.has_p and config.p_lanes > config.array.lanes


def parameter_bytes(config: VectorConfig, length: int) -> int:
    """Return the bytes in memory of a row of parameters."""
    width: int = config.parameters.width
    if shares_beats(config):
        return beats_of_row(config, length) * config.p_lanes * width // 8
    return length * width // 8


def pack_parameters(
    config: VectorConfig, first: NDArray[Any], second: NDArray[Any] | None = None
) -> NDArray[Any]:
    """Return rows of parameters as they lie in memory.

    Parameters
    ----------
    config : VectorConfig
    first : ndarray, shape (..., length)
        Numbers of the first half of each beat, in the format of parameters: gamma and others.
    second : ndarray, optional
        Numbers of the second half, such as beta.
    """
    bits: NDArray[Any] = config.parameters.encode(first)
    if not shares_beats(config):
        return bits
    length, lanes = bits.shape[-1], config.array.lanes
    steps = beats_of_row(config, length)
    result = np.zeros((2, *bits.shape[:-1], steps * lanes), bits.dtype)
    result[0, ..., :length] = bits
    if second is not None:
        result[1, ..., :length] = config.parameters.encode(second)
    halves = result.reshape(2, *bits.shape[:-1], steps, lanes)
    return np.ascontiguousarray(np.moveaxis(halves, 0, -2))


def constants(
    config: VectorConfig, operation: Operation, length: int, scalars: Mapping[str, float]
) -> tuple[float, float]:
    """Return `c1` and `c2` of a command.

    `c1` is one over the length for normalisations, one over the largest integer for `quantise`,
    two over the largest number for `quantise_block`, one over the scale for `softmax`, else the
    scale; `c2` is epsilon.
    """
    one, path = np.float32(1.0), config.datapaths[operation.name]
    c1 = np.float32(scalars.get("scale", 1.0))
    if path.epsilon:
        c1 = one / np.float32(length)
    elif path.tail:  # a power of two is at most two times smaller
        c1 = (one + np.float32(path.exponent)) / np.float32(config.output_of(path).max)
    elif path.scale:
        c1 = one / c1
    return float(c1), float(np.float32(scalars.get("epsilon", 0.0)))


def command(code: int, rows: int, length: int, c1: float, c2: float) -> Beats:
    """Return the beat of port ``cmd`` of a job, shape (1, 20)."""
    words = np.array([code, rows, length, 0, 0], "<u4")
    words[3:] = np.array([c1, c2], "<f4").view("<u4")
    return words.view(np.uint8).reshape(1, -1)


@dataclass(frozen=True)
class Plan:
    """The beats of a job; see `hwgen.core.operation.StreamPlan`."""

    config: VectorConfig
    operation: Operation
    sizes: Sizes
    scalars: Mapping[str, float]

    @property
    def datapath(self) -> Datapath:
        """The datapath of the operation."""
        return self.config.datapaths[self.operation.name]

    @property
    def steps(self) -> int:
        """Beats of a row of `x`."""
        return beats_of_row(self.config, self.sizes["length"])

    @property
    def result_port(self) -> StreamPort:
        """The port of results, with elements of the operation's format."""
        return self.config.port_of(self.datapath, "out")

    @property
    def result_steps(self) -> int:
        """Beats of elements of results of a row."""
        return -(-self.sizes["length"] // self.result_port.lanes)

    @property
    def output_steps(self) -> int:
        """Beats of results of a row."""
        return 1 if self.datapath.last_only else self.result_steps + self.datapath.tail

    @property
    def output_beats(self) -> int:
        """Beats of results."""
        return self.sizes["rows"] * self.output_steps

    def pack(self, operands: Arrays) -> dict[str, Chunks]:
        """Return the beats of every input port by name; ``tlast`` is on none."""
        self.operation.check_operands(operands)
        inputs = (port for port in self.config.ports if port.direction == "in")
        return {port.name: self.stream(port, operands) for port in inputs}

    def stream(self, port: StreamPort, operands: Arrays) -> Chunks:
        """Yield the beats of an input port and whether ``tlast`` is set: it is on none."""
        rows, length = self.sizes["rows"], self.sizes["length"]
        if port.name == "cmd":
            c1, c2 = constants(self.config, self.operation, length, self.scalars)
            yield command(CODES[self.operation.name], rows, length, c1, c2), False
            return
        if port.name == "r":
            if self.datapath.reads_r:
                yield port.pack(np.asarray(operands["row_scales"]).reshape(rows, 1)), False
            return
        if port.name in ("x", "y"):
            matrix, own = operands.get(port.name), self.config.port_of(self.datapath, port.name)
            for row in matrix if matrix is not None else ():
                yield self._packed(own, row), False
        elif self.datapath.factor == "rotate":
            for row in operands["turns"]:
                yield self._packed(port, row), False
        elif self.datapath.reads_p:
            lines = [operands[t.name] for t in self.operation.operands if t.port == "p"]
            block = self._packed(port, *lines)
            for _ in range(rows):
                yield block, False

    def _packed(self, port: StreamPort, *lines: NDArray[Any]) -> Beats:
        """Return the beats of a row; what is behind its end means nothing, and is the largest."""
        lanes = self.config.array.lanes if port.name == "p" else port.lanes
        steps = -(-self.sizes["length"] // lanes)
        padded = np.full((len(lines), steps * lanes), port.format.max, port.format.dtype)
        padded[:, : self.sizes["length"]] = lines
        beats = padded.reshape(len(lines), steps, lanes).transpose(1, 0, 2)
        return port.pack(beats.reshape(steps, -1))

    def output_last(self) -> Iterator[bool]:
        """Yield ``tlast`` of every result beat: the end of a row."""
        for _ in range(self.sizes["rows"]):
            for step in range(self.output_steps):
                yield step == self.output_steps - 1

    def unpack(self, beats: Beats) -> dict[str, NDArray[Any]]:
        """Return the results by name from result beats, shape (output_beats, bytes)."""
        rows, port = self.sizes["rows"], self.result_port
        image = beats.reshape(rows, self.output_steps, -1)
        word = replace(port, lanes=1, lane_width=32)
        if self.datapath.last_only:
            low = np.ascontiguousarray(image[:, 0, :4])
            positions = replace(word, format=IntegerFormat(32, True)).unpack(low)
            return {"positions": positions.reshape(-1)}
        values = port.unpack(image[:, : self.result_steps])
        result = {"result": values.reshape(rows, -1)[:, : self.sizes["length"]]}
        if self.datapath.tail:
            scales = self.operation.results[-1].format
            low = np.ascontiguousarray(image[:, -1, : scales.width // 8])
            one = replace(word, lane_width=scales.width, format=scales)
            result["scales"] = one.unpack(low).reshape(-1)
        return result

    def pack_results(self, results: Arrays) -> tuple[Beats, Beats]:
        """Return result beats and a mask of their specified bits, shape (output_beats, bytes)."""
        rows, length, port = self.sizes["rows"], self.sizes["length"], self.result_port
        steps = self.result_steps
        beats = np.zeros((rows, self.output_steps, port.beat_bytes), np.uint8)
        mask = np.zeros_like(beats)
        if self.datapath.last_only:
            words = np.asarray(results["positions"]).astype("<i4")
            beats[:, 0, :4] = words.reshape(rows, 1).view(np.uint8)
            mask[:, 0, :4] = 0xFF
            return beats.reshape(-1, port.beat_bytes), mask.reshape(-1, port.beat_bytes)
        padded = np.zeros((rows, steps * port.lanes), np.asarray(results["result"]).dtype)
        padded[:, :length] = results["result"]
        beats[:, :steps] = port.pack(padded.reshape(rows, steps, port.lanes))
        bits = np.zeros((steps * port.lanes, port.lane_width), np.uint8)
        bits[:length] = 1
        mask[:, :steps] = np.packbits(bits.reshape(steps, -1), axis=-1, bitorder="little")
        if self.datapath.tail:
            scales = self.operation.results[-1].format
            words = scales.encode(np.asarray(results["scales"])).astype("<u4")
            beats[:, -1, :4] = words.reshape(rows, 1).view(np.uint8)
            mask[:, -1, :4] = 0xFF
        return beats.reshape(-1, port.beat_bytes), mask.reshape(-1, port.beat_bytes)

    def memory(self) -> VectorMemory:
        """Return its plan from memory to memory."""
        return VectorMemory(self)

    def locate(self, name: str, index: tuple[int, ...]) -> int:
        """Return the result beat of an element."""
        start = index[0] * self.output_steps
        if len(index) == 1:
            return start + self.output_steps - 1
        return start + index[1] // self.result_port.lanes
