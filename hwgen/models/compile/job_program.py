# SPDX-License-Identifier: Apache-2.0
"""Decoders compiled to jobs: the golden models of the host and of the engine at work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.models.compile.compiled_files import HOST_FILE, JOBS, CompiledDecoder, JobFiles
from hwgen.models.compile.golden_jobs import GoldenJobs
from hwgen.models.compile.host_steps import Step, X, step_of
from hwgen.models.compile.job_compilation import entry_number, sums_of
from hwgen.models.graph.hadamard import ROTATED_OPERANDS
from hwgen.models.run import host_arithmetic as host

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reals = NDArray[np.float32]


class CompiledJobs(JobFiles, CompiledDecoder):
    """A decoder compiled to jobs, on disk.

    Parameters
    ----------
    path : Path
        Its directory.

    Attributes
    ----------
    document : dict
        See `hwgen.models.compile.job_compilation.JobCompilation.document`.
    layer, after : tuple of Step

    Raises
    ------
    InputError
        If something is missing, or says what cannot be.
    """

    form = JOBS

    def _read(self, document: dict[str, Any]) -> None:
        super()._read(document)
        self.layer = tuple(step_of(step) for step in document["steps"]["layer"])
        self.after = tuple(step_of(step) for step in document["steps"]["after"])
        self.width = int(document["width"])
        self.most: int = int(document["tokens_at_once"])
        int(document["program"]["of_a_layer"]), int(document["program"]["behind"])

    def products_of(self, prompt: int, count: int, layers: Collection[int] | None = None) -> int:
        """Return the number of products of a run that no token ends, of some layers or of all."""
        inside, behind = (
            sum(step.operation == "gemm" for step in steps) for steps in (self.layer, self.after)
        )
        passes = prompt // self.most + (prompt % self.most if self.most > 1 else 0) + count - 1
        if layers is not None:
            return passes * len(layers) * inside
        return passes * self.layers * inside + count * behind


class JobProgram:
    """A compiled decoder at work: the host's steps, with jobs by an engine.

    Parameters
    ----------
    compiled : CompiledJobs
    engine : GoldenJobs
    """

    def __init__(self, compiled: CompiledJobs, engine: GoldenJobs) -> None:
        self.compiled, self.engine = compiled, engine
        self.position = 0
        self._program = compiled.program()
        self._constants = np.memmap(compiled.path / HOST_FILE, np.uint8, mode="r")
        self._caches: list[dict[str, dict[str, NDArray[Any]]]] = [
            {} for _ in range(compiled.layers)
        ]

    def feed(self, tokens: Sequence[int]) -> Reals:
        """Take tokens behind those before, and return the logits of the last one."""
        most, at = self.compiled.most, 0
        while at < len(tokens):
            rows = most if len(tokens) - at >= most else 1
            x = self._layers(tokens[at : at + rows])
            at += rows
        arrays: dict[str, Any] = {X: x[-1:]}
        for step in self.compiled.after:
            self._do(step, arrays, 0, after=True)
        result: Reals = arrays[self.compiled.after[-1].output][0]
        return result

    def _layers(self, tokens: Sequence[int]) -> Reals:
        """Return the output of the last layer for tokens."""
        table = self._constant("embedding", 0).reshape(-1, self.compiled.width)
        arrays: dict[str, Any] = {X: table[list(tokens)]}
        for layer in range(self.compiled.layers):
            for step in self.compiled.layer:
                self._do(step, arrays, layer, after=False)
        self.position += len(tokens)
        result: Reals = arrays[X]
        return result

    def _constant(self, name: str, layer: int) -> Reals:
        """Return an array of the host's constants."""
        array = self.compiled.constants[name]
        start = array.address + layer * array.stride
        result: Reals = np.asarray(self._constants[start : start + array.bytes]).view("<f4")
        return result

    def _do(self, step: Step, arrays: dict[str, Any], layer: int, *, after: bool) -> None:
        """Do a step on arrays by name."""
        if step.operation == "gemm":
            arrays[step.output] = self._product(step, arrays, layer, after=after)
            return
        inputs = {name: arrays[array] for name, array in step.inputs.items() if array in arrays}
        if step.operation == "quantise":
            codes, scales = host.quantise(inputs["x"], step.sizes.get("hadamard", 0))
            arrays[step.output], arrays[f"{step.output}.scales"] = codes, scales
            self.engine.store(self.compiled.arrays[f"{step.name}.rows"].address, codes.tobytes())
            return
        arrays[step.output] = self._on_rows(step, inputs, layer)

    def _on_rows(self, step: Step, inputs: dict[str, Reals], layer: int) -> Reals:
        if step.operation in ("rms_norm", "layer_norm"):
            gamma = self._constant(step.inputs["gamma"], layer)
            if step.operation == "layer_norm":
                beta = self._constant(step.inputs["beta"], layer)
                return host.layer_norm(inputs["x"], gamma, beta, step.epsilon)
            return host.head_norm(inputs["x"], gamma, step.epsilon)
        if step.operation == "rope":
            table = self._constant(step.inputs["turns"], 0).reshape(-1, step.sizes["elements"])
            return host.rope(inputs["x"], table[self.position : self.position + len(inputs["x"])])
        if step.operation == "gated":
            return host.gated(step.gate, inputs["x"], inputs["y"])
        if step.operation == "add":
            return host.add(inputs["x"], inputs["y"], step.scale)
        if step.operation == "soft_cap":
            return host.soft_cap(inputs["x"], step.cap)
        return self._attention(step, inputs, layer)

    def _product(self, step: Step, arrays: dict[str, Any], layer: int, *, after: bool) -> Reals:
        """Return a product by the engine, turned into numbers."""
        codes, scales = (arrays[step.inputs["x"] + end] for end in ("", ".scales"))
        compiled, rows = self.compiled, len(codes)
        groups, n = step.sizes["groups"], step.sizes["n"]
        first = entry_number(compiled.document, step, after=after, layer=layer, rows=rows)
        name = step.name if after else step.name.replace("layer.", f"layers.{layer}.", 1)
        self.engine.run(self._program[first : first + groups], name, None if after else layer)
        place = compiled.arrays[sums_of(step)]
        data = np.frombuffer(self.engine.load(place.address, place.bytes), "<i4")
        sums = data.reshape(groups, -1, n)[:, :rows]
        weights = self._constant(step.inputs["scales"], layer).reshape(groups, n)
        offsets = None
        if "offsets" in step.inputs or step.sizes["shift"]:
            offsets = step.sizes["shift"] * weights.astype(np.float64)
            if "offsets" in step.inputs:
                offsets = self._constant(step.inputs["offsets"], layer).reshape(groups, n) + offsets
        result = host.dequantise(sums, scales, weights, offsets, codes)
        if "bias" in step.inputs:
            result = host.add(result, self._constant(step.inputs["bias"], layer)[None])
        return result

    def _attention(self, step: Step, inputs: dict[str, Reals], layer: int) -> Reals:
        """Return attention of rows behind what is in the cache, which takes their keys, values."""
        heads, kv_heads, elements = (step.sizes[k] for k in ("heads", "kv_heads", "elements"))
        rows, start = len(inputs["query"]), self.position
        cache = self._caches[layer].setdefault(step.name, {})
        block = step.sizes.get("hadamard", 0)
        for name in ("key", "value"):
            heads_of = inputs[name].reshape(rows, kv_heads, elements)
            codes, scales = host.quantise(heads_of, block if name in ROTATED_OPERANDS else 0)
            for part, new in ((f"{name}s", codes), (f"{name}_scales", scales)):
                shape = (self.compiled.context, *new.shape[1:])
                stored = cache.setdefault(part, np.zeros(shape, new.dtype))
                stored[start : start + rows] = new
        query, scales = host.quantise(inputs["query"].reshape(rows, heads, elements), block)
        output = np.empty((rows, heads * elements), np.float32)
        for row in range(rows):
            end = start + row + 1
            window = step.sizes["window"]
            begin = max(0, end - window) if window else 0
            seen = {name: array[begin:end].swapaxes(0, 1) for name, array in cache.items()}
            result = host.attend(
                query[row].reshape(kv_heads, -1, elements), scales[row].reshape(kv_heads, -1),
                seen["keys"], seen["key_scales"], seen["values"], seen["value_scales"],
                step.scale, step.cap,
            )  # fmt: skip
            output[row] = result.reshape(-1)
        return output


def generate(
    program: JobProgram,
    prompt: list[int],
    count: int,
    choose: Callable[[Reals], int] | None = None,
) -> Iterator[int]:
    """Yield the tokens that follow a prompt; `choose` takes logits and returns a token."""
    program.compiled.check_tokens(prompt, count)
    fed = prompt
    for left in range(count, 0, -1):
        logits = program.feed(fed)
        token = choose(logits) if choose else int(logits.argmax())
        yield token
        if token == program.compiled.end or left == 1:
            return
        fed = [token]
