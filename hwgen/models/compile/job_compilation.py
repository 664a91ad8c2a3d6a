# SPDX-License-Identifier: Apache-2.0
"""A decoder for an engine that multiplies: its jobs, and what a host does between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hwgen.errors import InputError
from hwgen.families.gemm_stream.jobs import Job, plan_of, weight_stride
from hwgen.models.compile.compiled import Settings, context_of, memory_of
from hwgen.models.compile.compiled_files import (
    HOST_FILE,
    IMAGE_FILE,
    JOBS,
    VERSION,
    end_of,
    write_files,
)
from hwgen.models.compile.golden_jobs import SUM_BYTES
from hwgen.models.compile.host_steps import Step, StepMaker, cache_bytes, name_of
from hwgen.models.compile.job_contents import JobContents
from hwgen.models.compile.placement import IMAGE, WORK, Placement
from hwgen.models.files.store import Model
from hwgen.models.graph.description import Node, Tensor
from hwgen.models.graph.layered import layered
from hwgen.models.run.host_arithmetic import CODE_MOST

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.jobs import JobEngine, Plan

HOST_ALIGNMENT = 64


@dataclass(frozen=True)
class Entry:
    """A job of the program.

    Parameters
    ----------
    step : Step
    layer : int or None
    rows, group : int
    job : Job
    """

    step: Step
    layer: int | None
    rows: int
    group: int
    job: Job


class JobCompilation:
    """A network on its way to jobs.

    Parameters
    ----------
    model : Model
        Quantised, a decoder.
    config : JobEngine
    settings : Settings

    Attributes
    ----------
    steps : Steps
    contents : JobContents
    memory : Placement
        The engine's.
    host, work : Placement
        Constants of the host, and what it works on, each from 0 on.
    entries : list of Entry
        The jobs of a pass of one row, and those of one of `most` rows.

    Raises
    ------
    InputError
        If the engine cannot do what the network needs, or something does not fit.
    """

    def __init__(self, model: Model, config: JobEngine, settings: Settings) -> None:
        self.model, self.config, self.settings = model, config, settings
        self.decoder = layered(model.description)
        self.context = context_of(self.decoder, settings)
        self.most = min(settings.tokens, self.context)
        self._check()
        self._plans: dict[tuple[int, int, int], Plan] = {}
        shifts = {name: self._shift(name) for name in self._products()}
        offsets = self._with_offsets()
        self.steps = StepMaker(self.decoder, shifts, offsets).make()
        self.contents = JobContents(model, config, self.decoder, self.context, offsets)
        self.memory = memory_of(settings, config.longest_burst_bytes)
        self._place()
        self.memory.check(config.memory.address_width, settings.room)
        self.entries = list(self._entries())

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
            if node.operation == "attention" and node.attributes.get("bits") != 8:
                raise InputError(
                    f"{node.name}: keys and values are not in int8; run `hwgen model quantise`"
                )
            if node.operation != "gemm":
                continue
            maker = makers.get(node.inputs["x"])
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
        found: dict[str, list[Node]] = {}
        for nodes in (*self.decoder.layers, self.decoder.after):
            for node in nodes:
                if node.operation == "gemm":
                    found.setdefault(name_of(node), []).append(node)
        return found

    def _with_offsets(self) -> frozenset[str]:
        """Return the products some of whose weights are more than an integer times a scale."""
        tensors = self.model.description.tensors
        return frozenset(
            name
            for name, nodes in self._products().items()
            if any(tensors[node.inputs["weights"]].offsets for node in nodes)
        )

    def _shift(self, name: str) -> int:
        """Return what weights are lowered by to be the engine's, 0 if they are as they stand."""
        low = high = 0
        nodes = self._products()[name]
        for node in nodes:
            tensor = self.model.description.tensors[node.inputs["weights"]]
            values = self.model.part(tensor.values)
            low, high = min(low, int(values.min())), max(high, int(values.max()))
        weight: Any = self.config.weight
        shift = -weight.min if high > weight.max and low >= 0 else 0
        self._check_core(nodes[0].name, low - shift, high - shift, tensor)
        return shift

    def _check_core(self, name: str, low: int, high: int, tensor: Tensor) -> None:
        """Refuse an engine that cannot multiply by weights of a range, or whose sums overflow."""
        assert tensor.scales is not None
        config: Any = self.config
        length = tensor.shape[1] // tensor.scales.shape[1]
        most = CODE_MOST * max(-low, high) * length
        if str(config.activation) != "int8":
            problem = f"compute.activation: must be int8, not {config.activation}"
        elif config.weight.min > low or config.weight.max < high:
            problem = f"compute.weight: must hold {low}..{high}, not {config.weight}"
        elif config.result.width > 8 * SUM_BYTES or most > config.result.max:
            problem = (
                f"compute.accumulator: must hold sums up to {most:,d} in at most"
                f" {8 * SUM_BYTES} bits, not {config.result}"
            )
        elif config.max_k < length:
            problem = f"compute.max_k: must be at least {length}, not {config.max_k}"
        else:
            return
        raise InputError(f"{name} cannot be multiplied by {config.name}: {problem}")

    # -- memory ----------------------------------------------------------------------------

    def _place(self) -> None:
        """Give everything its place."""
        memory, steps = self.memory, self.steps
        layers = len(self.decoder.layers)
        sizes = {name: array.nbytes for name, array in self.contents.weights(steps.layer, 0)}
        if sizes:
            memory.repeat(sizes, layers, IMAGE)
        for name, array in self.contents.weights(steps.after, None):
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
        for name, array in self.contents.shared().items():
            host.place(name, array.nbytes, IMAGE)
        sizes = {name: array.nbytes for name, array in self.contents.constants(0).items()}
        if sizes:
            host.repeat(sizes, len(self.decoder.layers), IMAGE)
        for name, array in self.contents.constants(None).items():
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
        key = (rows, length, n)
        if key not in self._plans:
            self._plans[key] = plan_of(self.config, *key)
        plan = self._plans[key]
        weights = self.memory.arrays[step.inputs["weights"]]
        most = 1 if layer is None else self.most
        for group in range(groups):
            stride = weight_stride(plan)
            offset = group * plan.weight_image_rows * stride + (layer or 0) * weights.stride
            job = Job(
                plan,
                a_address=self.memory.at(rows_of(step)) + group * length,
                w_address=weights.address + offset,
                c_address=self.memory.at(sums_of(step)) + group * most * n * SUM_BYTES,
                a_stride=k,
                w_stride=stride,
            )
            yield Entry(step, layer, rows, group, job)

    # -- files -----------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """Return what `DOCUMENT` holds."""
        description, memory = self.model.description, self.memory
        return {
            "hwgen_compiled": VERSION,
            "form": JOBS,
            "name": description.name,
            "engine": self.config.name,
            "context": self.context,
            "vocabulary": description.vocabulary,
            "layers": description.layers,
            "width": self.decoder.length(self.decoder.embed.output),
            "end": end_of(self.model),
            "tokens_at_once": self.most,
            "base": memory.base,
            "bytes": memory.end - memory.base,
            "image_bytes": memory.region(IMAGE)[1] - memory.base,
            "host_bytes": self.host.end,
            "work_bytes": self.work.end,
            "program": {"jobs": len(self.entries), "words": len(self.entries[0].job.writes()),
                        "of_a_layer": self.steps.jobs, "behind": self.steps.jobs_after},
            "steps": {"layer": [asdict(step) for step in self.steps.layer],
                      "after": [asdict(step) for step in self.steps.after]},
            "arrays": [array.document() for array in memory.arrays.values()],
            "host_arrays": [array.document() for array in self.host.arrays.values()],
            "work_arrays": [array.document() for array in self.work.arrays.values()],
            "jobs": [{"operation": entry.step.name, "layer": entry.layer, "rows": entry.rows,
                      "group": entry.group} for entry in self.entries],
        }  # fmt: skip

    def write(self, directory: Path) -> None:
        """Write the files of a compiled network."""
        words = [[value for _, value in entry.job.writes()] for entry in self.entries]
        self._write_images(directory)
        program = np.array(words, "<u4").tobytes()
        write_files(directory, self.model, self.config, program, self.document())

    def _write_images(self, directory: Path) -> None:
        """Write weights and constants, an array at a time."""
        layers: list[int | None] = [*range(len(self.decoder.layers)), None]
        with (directory / IMAGE_FILE).open("wb") as file:
            file.truncate(self.memory.region(IMAGE)[1] - self.memory.base)
            for layer in layers:
                steps = self.steps.after if layer is None else self.steps.layer
                for name, array in self.contents.weights(steps, layer):
                    self.memory.put(file, name, array, layer or 0)
        with (directory / HOST_FILE).open("wb") as file:
            file.truncate(self.host.end)
            for name, array in self.contents.shared().items():
                self.host.put(file, name, array)
            for layer in layers:
                for name, array in self.contents.constants(layer).items():
                    self.host.put(file, name, array, layer or 0)


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
