# SPDX-License-Identifier: Apache-2.0
"""Decoders compiled to jobs of an engine of products, and steps of its host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.errors import InputError
from hwgen.families.gemm_stream.schedule import Job, weight_stride
from hwgen.models.compile.compilation import (
    HOST_ALIGNMENT,
    Content,
    Entry,
    JobsCompilation,
    Settings,
    engine_problem,
)
from hwgen.models.compile.compiled_files import JOBS, SUM_BYTES
from hwgen.models.compile.host_steps import Step, StepMaker, cache_bytes
from hwgen.models.compile.placement import IMAGE, WORK, Placement
from hwgen.models.files.store import Model
from hwgen.models.graph.description import Node, real
from hwgen.models.graph.layered import layered, local_name, rope_table
from hwgen.models.run.block_rows import key_format
from hwgen.models.run.float_engine import FloatEngine
from hwgen.models.run.host_arithmetic import CODE_MOST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.families.gemm_stream.schedule import JobEngine
    from hwgen.models.files.gguf_blocks import Groups


class JobCompilation(JobsCompilation):
    """A decoder compiled to jobs: those of a pass of one row, and of a pass of `most` rows.

    Parameters
    ----------
    model : Model
    config : JobEngine
    settings : Settings

    Attributes
    ----------
    steps : Steps
    """

    form = JOBS

    def __init__(self, model: Model, config: JobEngine, settings: Settings) -> None:
        super().__init__(model, config, settings)
        self.decoder = layered(model.description)
        self.context = settings.positions(self.decoder)
        self.most = min(settings.tokens, self.context)
        self._check()
        shifts = {name: self._shift(name) for name in self._products()}
        self.offsets = self._with_offsets()
        self.steps = StepMaker(self.decoder, shifts, self.offsets).make()
        self._place()
        self.memory.check(config.memory.address_width, settings.memory_bytes)
        self.entries = tuple(self._entries())

    # -- what can be compiled --------------------------------------------------------------

    def _check(self) -> None:
        """Refuse operands that are no integers."""
        if "raw" not in self.config.post_features.outputs:
            raise InputError(
                f"{self.config.name}: post.outputs: must have raw: the host turns sums into numbers"
            )
        description = self.model.description
        makers = {node.output: node for node in description.nodes}
        for node in description.nodes:
            if node.operation == "attention" and (
                node.attributes.get("bits") != 8 or key_format(node)
            ):
                raise InputError(
                    f"{node.name}: keys and values are not in int8; run `hwgen model quantise`,"
                    " without --kv-format"
                )
            if node.operation != "gemm":
                continue
            maker = makers.get(node.inputs["x"])
            if maker is not None and maker.attributes.get("format"):
                raise InputError(
                    f"{node.name}: its rows are in {maker.attributes['format']}; jobs take int8:"
                    " quantise the model without --activations mxfp8"
                )
            if maker is None or maker.operation != "quantise" or maker.attributes["bits"] != 8:
                raise InputError(
                    f"{node.name}: its rows are not in int8; run `hwgen model quantise` first"
                )
            if description.tensors[node.inputs["weights"]].scales is None:
                raise InputError(
                    f"{node.name}: its weights are no integers; run `hwgen model quantise` first"
                )

    def _products(self) -> dict[str, list[Node]]:
        """Return products by the name that they have in every layer."""
        result: dict[str, list[Node]] = {}
        for nodes in (*self.decoder.layers, self.decoder.after):
            for node in nodes:
                if node.operation == "gemm":
                    result.setdefault(local_name(node), []).append(node)
        return result

    def _with_offsets(self) -> frozenset[str]:
        """Return the products some of whose weights are more than an integer times a scale."""
        tensors = self.model.description.tensors
        return frozenset(
            name
            for name, nodes in self._products().items()
            if any(tensors[node.inputs["weights"]].offsets for node in nodes)
        )

    def _shift(self, name: str) -> int:
        """Return the number that is subtracted from weights to fit the engine, 0 if they fit."""
        low = high = 0
        nodes = self._products()[name]
        for node in nodes:
            tensor = self.model.description.tensors[node.inputs["weights"]]
            values = self.model.part(tensor.values)
            low, high = min(low, int(values.min())), max(high, int(values.max()))
        weight, most = self.config.weight, CODE_MOST
        shift = -weight.min if high > weight.max and low >= 0 else 0
        assert tensor.scales is not None
        length = tensor.shape[1] // tensor.scales.shape[1]
        if problem := engine_problem(self.config, low - shift, high - shift, length, most):
            raise InputError(
                f"{nodes[0].name} cannot be multiplied by {self.config.name}: {problem}"
            )
        return shift

    # -- contents --------------------------------------------------------------------------

    def _nodes(self, layer: int | None) -> tuple[Node, ...]:
        return self.decoder.after if layer is None else self.decoder.layers[layer]

    def _groups(self, node: Node) -> Groups:
        result = self.model.groups(node.inputs["weights"])
        assert result is not None
        return result

    def _weights(
        self, steps: tuple[Step, ...], layer: int | None
    ) -> Iterator[tuple[str, NDArray[Any]]]:
        """Yield the weights of a layer as the engine reads them, product by product."""
        by_name = {local_name(node): node for node in self._nodes(layer)}
        for step in steps:
            if step.operation != "gemm":
                continue
            values = self._groups(by_name[step.name]).values.astype(np.int16)
            groups, k, n = (step.sizes[key] for key in ("groups", "k", "n"))
            matrices = (values - step.sizes["shift"]).T.reshape(groups, k // groups, n)
            yield step.inputs["weights"], self.packed(matrices)

    def _shared(self) -> dict[str, NDArray[Any]]:
        """Return constants of the host of all layers together."""
        engine = FloatEngine(self.model)
        embed = self.decoder.embed
        table = self.model.numbers(embed.inputs["table"])
        result: dict[str, NDArray[Any]] = {
            "embedding": table * np.float32(real(embed, "scale", 1.0))
        }
        for node in self.decoder.layers[0]:
            if node.operation == "rope":
                turns = engine.rope_angles(node, np.arange(self.context))
                result.setdefault(rope_table(node), turns)
        return result

    def _constants(self, layer: int | None) -> dict[str, NDArray[Any]]:
        """Return constants of the host of a layer, or of what is behind them."""
        result: dict[str, NDArray[Any]] = {}
        for node in self._nodes(layer):
            name = local_name(node)
            if node.operation in ("rms_norm", "layer_norm"):
                for key in ("gamma", "beta"):
                    if key in node.inputs:
                        result[f"{name}.{key}"] = self.model.numbers(node.inputs[key])
            elif node.operation == "gemm":
                groups = self._groups(node)
                result[f"{name}.scales"] = np.ascontiguousarray(groups.scales.T)
                if name in self.offsets:
                    offsets = groups.offsets if groups.offsets is not None else 0 * groups.scales
                    result[f"{name}.offsets"] = np.ascontiguousarray(offsets.T)
                if "bias" in node.inputs:
                    result[f"{name}.bias"] = self.model.numbers(node.inputs["bias"])
        return result

    def contents(self) -> Iterator[Content]:
        """Yield weights and constants, a layer at a time."""
        for name, array in self._shared().items():
            yield Content(self.host, name, array)
        for layer in (*range(len(self.decoder.layers)), None):
            steps = self.steps.after if layer is None else self.steps.layer
            for name, array in self._weights(steps, layer):
                yield Content(self.memory, name, array, layer or 0)
            for name, array in self._constants(layer).items():
                yield Content(self.host, name, array, layer or 0)

    # -- memory ----------------------------------------------------------------------------

    def _place(self) -> None:
        """Give everything its place."""
        memory, steps = self.memory, self.steps
        layers = len(self.decoder.layers)
        sizes = {name: array.nbytes for name, array in self._weights(steps.layer, 0)}
        if sizes:
            memory.repeat(sizes, layers, IMAGE)
        for name, array in self._weights(steps.after, None):
            memory.place(name, array.nbytes, IMAGE)
        for step in (*steps.layer, *steps.after):
            rows = self.most if step in steps.layer else 1
            if step.operation == "quantise":
                memory.place(f"{step.name}.rows", rows * step.sizes["length"], WORK, written=True)
            elif step.operation == "gemm":
                size = step.sizes["groups"] * rows * step.sizes["n"] * SUM_BYTES
                memory.place(sums_of(step), size, WORK, written=True)
        self.host = self._place_constants()
        self.work = self._place_work()

    def _place_constants(self) -> Placement:
        host = Placement(0, HOST_ALIGNMENT)
        for name, array in self._shared().items():
            host.place(name, array.nbytes, IMAGE)
        sizes = {name: array.nbytes for name, array in self._constants(0).items()}
        if sizes:
            host.repeat(sizes, len(self.decoder.layers), IMAGE)
        for name, array in self._constants(None).items():
            host.place(name, array.nbytes, IMAGE)
        return host

    def _place_work(self) -> Placement:
        work = Placement(0, HOST_ALIGNMENT)
        caches: dict[str, int] = {}
        for step in self.steps.layer:
            if step.operation == "attention":
                caches |= cache_bytes(step, self.context)
        if caches:
            work.repeat(caches, len(self.decoder.layers), WORK, written=True)
        for name, size in self.steps.work.items():
            work.place(name, size * self.most, WORK, written=True)
        heads = [step for step in self.steps.layer if step.operation == "attention"]
        longest = max((step.sizes["heads"] * step.sizes["elements"] for step in heads), default=0)
        work.place("scores", 8 * self.context, WORK, written=True)
        work.place("queries", longest, WORK, written=True)
        return work

    # -- jobs ------------------------------------------------------------------------------

    def _entries(self) -> Iterator[Entry]:
        """Yield the jobs in the order of the program; see `entry_number`."""
        for rows in sorted({1, self.most}):
            for layer in range(len(self.decoder.layers)):
                for step in self.steps.layer:
                    if step.operation == "gemm":
                        yield from self._jobs(step, layer, rows)
            if rows == 1:
                for step in self.steps.after:
                    if step.operation == "gemm":
                        yield from self._jobs(step, None, 1)

    def _jobs(self, step: Step, layer: int | None, rows: int) -> Iterator[Entry]:
        """Yield a product's jobs, one for each group along k."""
        groups, n, k = (step.sizes[key] for key in ("groups", "n", "k"))
        length = k // groups
        plan = self.plan(rows, length, n)
        weights = self.memory.arrays[step.inputs["weights"]]
        most = 1 if layer is None else self.most
        for group in range(groups):
            stride = weight_stride(plan)
            offset = group * self.weight_bytes(plan) + (layer or 0) * weights.stride
            job = Job(
                plan,
                a_address=self.memory.at(rows_of(step)) + group * length,
                w_address=weights.address + offset,
                c_address=self.memory.at(sums_of(step)) + group * most * n * SUM_BYTES,
                a_stride=k,
                w_stride=stride,
            )
            yield Entry(step.name, {"layer": layer, "rows": rows, "group": group}, job)

    def facts(self) -> dict[str, Any]:
        """Return the part of `DOCUMENT` that is of decoders."""
        facts = super().facts()
        facts["program"] |= {"of_a_layer": self.steps.jobs, "behind": self.steps.jobs_after}
        return {
            **facts,
            **self.decoder_facts(len(self.decoder.layers), self.context, self.most),
            "width": self.decoder.length(self.decoder.embed.output),
            "steps": {
                "layer": [asdict(step) for step in self.steps.layer],
                "after": [asdict(step) for step in self.steps.after],
            },
        }


def rows_of(step: Step) -> str:
    """Return the array of the engine that holds what a product multiplies."""
    return step.inputs["x"].removesuffix(".result") + ".rows"


def sums_of(step: Step) -> str:
    """Return the array of the engine that holds the sums of a product."""
    return f"{step.name}.sums"


def entry_number(document: Any, step: Step, *, after: bool, layer: int, rows: int) -> int:
    """Return the number of a product's first job in the program.

    Parameters
    ----------
    document : mapping
        See `JobCompilation.document`.
    step : Step
    after : bool
        Whether it is behind the layers.
    layer, rows : int
    """
    program, layers = document["program"], document["layers"]
    start = 0
    if rows > 1:
        start = layers * program["of_a_layer"] + program["behind"]
    if after:
        return int(layers * program["of_a_layer"] + step.sizes["job"])
    return int(start + layer * program["of_a_layer"] + step.sizes["job"])
