# SPDX-License-Identifier: Apache-2.0
"""Space of engines that execute a decoder: options of each unit, for each width of the port.

An engine has a unit that multiplies, row units and a unit for attention, as a compiled decoder
needs them (`hwgen.models.compile.decoder_list`). What the model fixes, such as formats, the longest
row and the heads, is derived from it; sizes are options.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import ValidationError

from hwgen.errors import InputError
from hwgen.families.transformer.params import TransformerConfig
from hwgen.formats.registry import block_format
from hwgen.models.graph.description import real, sizes_of
from hwgen.models.run.block_rows import key_format, row_format
from hwgen.models.run.group_weights import misfit, suggested

if TYPE_CHECKING:
    from hwgen.models.files.gguf_blocks import Groups
    from hwgen.models.files.store import Model
    from hwgen.models.graph.description import Node

_ROW = 64  # elements that longest rows are multiples of

_BETWEEN = ("dequantise_rows_int32_fp32", "dequantise_fp32_int16", "dequantise_int16_fp32")
"""Operations of a unit that does what `sums`, `scales` and `results` do."""

_BITS = {"int8": 8, "ternary": 2}


@cache
def units_file() -> dict[str, Any]:
    """Return the units of engines and the sizes that are tried: ``engine.yaml``."""
    text = Path(__file__).with_name("engine.yaml").read_text(encoding="utf-8")
    result: dict[str, Any] = yaml.safe_load(text)
    return result


@dataclass(frozen=True)
class Option:
    """Choice of the parameters of a unit.

    Parameters
    ----------
    unit : str
        Its name in the engine.
    values : mapping
        Parameters of the unit, as a configuration has them.
    shown : mapping
        What distinguishes it from other options, by dotted name.
    """

    unit: str
    values: Mapping[str, Any]
    shown: Mapping[str, Any]

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.shown.items())


@dataclass(frozen=True, order=True)
class Frame:
    """Memory port of an engine, and the queues and lists behind it, which all its units share.

    Frames are ordered by size, the smallest first.

    Parameters
    ----------
    data_width : int
        Bits of the port.
    max_burst, outstanding : int
        Beats of its bursts, and bursts in flight.
    queue : int
        Jobs of the queue of each unit; 0 for the default of its family.
    registered : bool
        Whether its channels have registers.
    address_width : int
        Bits of an address; 0 for the default.
    lists : tuple of (str, int)
        Parameters of the processor of command lists.
    """

    data_width: int
    max_burst: int
    outstanding: int
    queue: int = 0
    registered: bool = False
    address_width: int = 0
    lists: tuple[tuple[str, int], ...] = ()

    @property
    def memory(self) -> dict[str, Any]:
        """Parameters of the port."""
        result: dict[str, Any] = {
            "data_width": self.data_width, "max_burst": self.max_burst,
            "outstanding": self.outstanding,
        }  # fmt: skip
        if self.address_width:
            result["address_width"] = self.address_width
        if self.registered:
            result["registered"] = True
        return result

    @property
    def shown(self) -> dict[str, Any]:
        """Distinguishing parameters, by dotted name."""
        if not self.queue:
            return {"memory.data_width": self.data_width}
        return {
            "memory.data_width": self.data_width, "memory.max_burst": self.max_burst,
            "memory.channels": "registered" if self.registered else "direct", "queue": self.queue,
        }  # fmt: skip

    def __str__(self) -> str:
        text = f"port of {self.data_width} bits"
        if self.queue:
            text += f", bursts of {self.max_burst}, queues of {self.queue}"
        return text + ", registered" * self.registered

    def steps_to(self, other: Frame) -> Iterator[Frame]:
        """Yield frames that differ from this one as another does, each in one parameter."""
        for name in ("data_width", "max_burst", "queue", "registered"):
            if getattr(self, name) != getattr(other, name):
                yield replace(self, **{name: getattr(other, name)})


@dataclass(frozen=True)
class Needs:
    """Requirements of a quantised decoder, the same for all sizes of an engine.

    Parameters
    ----------
    activation, weight : str
        Formats of rows and of weights of products.
    operations : tuple of str
        Operations on rows.
    gate : str
        Function of its gates; empty where it has none.
    hadamard : int
        Elements of blocks that are rotated before they are quantised, 0 for none.
    longest_row, longest_k, head : int
        Elements: of any row, of a row that is multiplied, of a head of keys.
    group : int
        Queries of a head of keys.
    context : int
        Positions of the cache.
    others : tuple of str
        Further formats of weights, each of which takes a unit of its own.
    shared : bool
        Whether one unit does all operations on rows, between several formats.
    """

    activation: str
    weight: str
    operations: tuple[str, ...]
    gate: str
    hadamard: int
    longest_row: int
    longest_k: int
    head: int
    group: int
    context: int
    others: tuple[str, ...] = ()
    shared: bool = False

    @property
    def sharable(self) -> bool:
        """Whether one unit can do all operations on rows."""
        return self.activation in ("int8", "int16") and not (self.in_blocks or self.hadamard)

    @property
    def in_blocks(self) -> bool:
        """Whether weights are blocks with scales."""
        return self.weight not in ("int8", "ternary")


@dataclass
class Space:
    """Options of each unit by the frame of the engine, and what no configuration may have.

    Parameters
    ----------
    needs : Needs
    target : mapping
        Of the configurations.
    options : dict
        By frame, by unit.
    illegal : dict of int
        Options that a rule of their family refuses, by the rule.
    """

    needs: Needs
    target: Mapping[str, Any]
    options: dict[Frame, dict[str, list[Option]]] = field(default_factory=dict)
    illegal: dict[str, int] = field(default_factory=dict)

    @property
    def points(self) -> int:
        """Engines, one for each combination of options."""
        return self.points_of(self.options)

    @property
    def widths(self) -> list[int]:
        """Widths of the port, the narrowest first."""
        return sorted({frame.data_width for frame in self.options})

    def points_of(self, frames: Iterable[Frame]) -> int:
        """Return the engines with some frames."""
        return sum(math.prod(map(len, self.options[frame].values())) for frame in frames)

    def of_width(self, width: int) -> list[Frame]:
        """Return the frames with a port of a width, the smallest first."""
        return sorted(frame for frame in self.options if frame.data_width == width)

    def of_frames(self, frames: Sequence[Frame]) -> Space:
        """Return the part with some frames."""
        return replace(self, options={frame: self.options[frame] for frame in frames})

    def engine(self, name: str, frame: Frame, options: Iterable[Option]) -> dict[str, Any]:
        """Return the parameters of an engine."""
        result = {
            "name": name,
            "family": "transformer",
            "units": {each.unit: dict(each.values) for each in options},
            "memory": frame.memory,
            "target": dict(self.target),
        }
        if frame.lists:
            result["lists"] = dict(frame.lists)
        return result

    def config(self, name: str, frame: Frame, options: Iterable[Option]) -> TransformerConfig:
        """Return the configuration of an engine."""
        return TransformerConfig.model_validate(self.engine(name, frame, options))


def needs_of(model: Model, context: int) -> Needs:
    """Return the requirements of a quantised decoder.

    Raises
    ------
    InputError
        If it is no quantised decoder, or needs what engines of a search do not have.
    """
    description = model.description
    nodes = description.nodes
    if not description.decodes:
        raise InputError(f"{model.path}: {description.name} is no decoder")
    if not any(node.operation == "quantise" for node in nodes):
        raise InputError(
            f"{model.path} is not quantised, and engines multiply integers; run"
            f" `hwgen model quantise {model.path} --output DIR --calibration FILE` and search for"
            " its result"
        )
    attentions = [node for node in nodes if node.operation == "attention"]
    if any(key_format(node) for node in attentions):
        raise InputError(f"{model.path}: keys and values in blocks are not searched for; quantise"
                         " without --kv-format")  # fmt: skip
    makers = [n for n in nodes if n.operation == "quantise"]
    rows = sorted({row_format(node) for node in makers})
    if len(rows) > 1 or any(node.attributes.get("format") for node in makers):
        raise InputError(f"{model.path}: rows of products must be of one integer format")
    blocks = {int(real(n, "hadamard")) for n in (*makers, *attentions)} - {0}
    if len(blocks) > 1:
        raise InputError(f"{model.path}: rotated blocks must have one size, not {sorted(blocks)}")
    most = description.context or 0
    if context > most:
        raise InputError(f"--context: must be {most} or less, the positions of the model, not"
                         f" {context}")  # fmt: skip
    sizes = [sizes_of(node) for node in attentions]
    arrays = [a[-1] for a in description.arrays.values() if a and isinstance(a[-1], int)]
    gates = {str(node.attributes["gate"]) for node in nodes if node.operation == "gated"}
    if len(gates) > 1:
        raise InputError(f"{model.path}: gates must be of one function, not {sorted(gates)}")
    present = {node.operation for node in nodes}
    on_rows = [n for n in ("rms_norm", "layer_norm", "rope", "gated") if n in present]
    weight, *others = _weight_formats(model)
    return Needs(
        rows[0], weight, (*on_rows, "add", "argmax"), next(iter(gates), ""),
        next(iter(blocks), 0), longest_row=max(arrays),
        longest_k=max(description.tensors[n.inputs["weights"]].shape[1] for n in _products(nodes)),
        head=max(size[2] for size in sizes),
        group=max(heads // kv_heads for heads, kv_heads, _ in sizes), context=context,
        others=tuple(others),
    )  # fmt: skip


def _products(nodes: Sequence[Node]) -> list[Node]:
    return [node for node in nodes if node.operation == "gemm"]


def _weight_formats(model: Model) -> list[str]:
    """Return the narrowest formats that hold all weights as they are, the narrowest first.

    Raises
    ------
    InputError
        If there are more than units of an engine can have.
    """
    names = dict.fromkeys(n.inputs["weights"] for n in _products(model.description.nodes))
    every: list[Groups] = []
    for name in names:
        groups = model.groups(name)
        if groups is None:
            raise InputError(f"{model.path}: {name} has no integers; run `hwgen model quantise`")
        every.append(groups)
    if all(g.scales.shape[1] == 1 and g.offsets is None for g in every):
        low, high = min(int(g.values.min()) for g in every), max(int(g.values.max()) for g in every)
        return ["ternary" if low >= -1 and high <= 1 else "int8"]
    found: dict[str, list[Groups]] = {}
    for groups in every:
        found.setdefault(suggested(groups), []).append(groups)
    if "" in found:
        raise InputError(f"{model.path}: no format holds the weights of all layers as they are")
    formats = sorted(found, key=lambda fmt: block_format(fmt).element.width)
    for narrow in formats[:-1] if len(formats) > MIXED else ():
        for wider in formats[formats.index(narrow) + 1 :]:
            if not any(misfit(block_format(wider), groups) for groups in found[narrow]):
                found[wider] += found.pop(narrow)
                formats = [fmt for fmt in formats if fmt != narrow]
                break
        if len(formats) <= MIXED:
            break
    if len(formats) > MIXED:
        raise InputError(
            f"{model.path}: weights are in {', '.join(formats)}; an engine has units for"
            f" {MIXED} formats of weights at most"
        )
    return formats


def space_of(needs: Needs, target: Mapping[str, Any], widths: Sequence[int] = ()) -> Space:
    """Return the space of engines for a decoder: legal options of each unit.

    Parameters
    ----------
    needs : Needs
    target : mapping
        Of the configurations.
    widths : sequence of int, optional
        Of the port; default all that there are.

    Raises
    ------
    InputError
        If no engine is legal.
    """
    space = Space(needs, target)
    for frame in frames_of(needs, widths or units_file()["port"]["data_width"]):
        legal: dict[str, list[Option]] = {}
        for unit, options in unit_options(needs, frame).items():
            others = [legal[PRODUCTS][0]] if legal.get(PRODUCTS) else []
            legal[unit] = [each for each in options if _legal(space, frame, each, others)]
        if all(legal.values()):
            space.options[frame] = legal
    if not space.options:
        raise InputError("no engine is legal: " + "; ".join(space.illegal))
    return space


def frames_of(needs: Needs, widths: Sequence[int]) -> list[Frame]:
    """Return the frames of engines with ports of some widths."""
    port = units_file()["port"]
    if not needs.shared:
        return [Frame(width, port["max_burst"], port["outstanding"]) for width in widths]
    small = units_file()["small"]
    port, lists = small["port"], tuple(small["lists"].items())
    return [
        Frame(width, burst, port["outstanding"], queue, registered, port["address_width"], lists)
        for width, burst, queue, registered in itertools.product(
            widths, port["max_burst"], small["queue"], port["registered"]
        )
    ]


PRODUCTS = "products"
"""The unit that multiplies, the first one; units for further formats are called after it."""

MIXED = 2
"""Formats of weights that the units of an engine multiply by; it has eight units at most."""


def multiplies(unit: str) -> bool:
    """Return whether a unit multiplies matrices, by its name."""
    return unit.partition("_")[0] == PRODUCTS


def buffers_name(unit: str) -> str:
    """Return the name of the buffers of a unit that multiplies, among what options show."""
    return f"{unit}.buffer_kib"


def unit_options(needs: Needs, frame: Frame) -> dict[str, list[Option]]:
    """Return the options of each unit of engines with a frame, legal or not."""
    file = units_file()
    rows = [name for name in file if name not in ("port", "small", PRODUCTS, "heads")]
    if needs.shared:
        rows = ["rows"]
    wider = {f"{PRODUCTS}_{fmt}": _product_options(needs, frame, fmt) for fmt in needs.others}
    return {
        PRODUCTS: _product_options(needs, frame, needs.weight),
        **wider,
        **{name: _row_options(name, needs, frame) for name in rows},
        "heads": _head_options(needs, frame),
    }


def _legal(space: Space, frame: Frame, option: Option, others: Sequence[Option]) -> bool:
    """Return whether a unit is legal beside one that multiplies; note the rule that refuses it."""
    beside = [] if option.unit == PRODUCTS else others
    try:
        space.config("engine", frame, [*beside, option])
    except ValidationError as error:
        rule = str(error.errors()[0]["msg"]).split(", not ")[0]
        space.illegal[rule] = space.illegal.get(rule, 0) + 1
        return False
    return True


_LONG = 4096
"""Elements of rows from which on units store only those that they must: others pass."""


def _rounded(elements: int) -> int:
    return -(-elements // _ROW) * _ROW


def _stream_unit(
    file: Mapping[str, Any],
    compute: Mapping[str, Any],
    frame: Frame,
    pipeline: Mapping[str, int],
) -> dict[str, Any]:
    """Return a unit around a core, with room for two bursts at its ports."""
    core = {**compute, "pipeline": dict(pipeline)} if pipeline else dict(compute)
    buffers = {"port_beats": 2 * frame.max_burst}
    return {**_queued(file["unit"], frame), "compute": core, "buffers": buffers}


def _queued(unit: Mapping[str, Any], frame: Frame) -> dict[str, Any]:
    return {**unit, "queue": frame.queue} if frame.queue else dict(unit)


def _row_options(unit: str, needs: Needs, frame: Frame) -> list[Option]:
    """Return the options of a row unit: lanes, as many as the port can feed."""
    file = units_file()[unit]
    compute, least = dict(file["compute"]), int(file["least"])
    longest = needs.head
    if unit == "rows":
        between = (f"quantise_fp32_{needs.activation}", *_BETWEEN) if needs.shared else ()
        array: dict[str, Any] = {"operations": [*needs.operations, *between]}
        if needs.gate:
            array["gate"] = needs.gate
        longest = needs.longest_row
    elif unit == "integers":
        compute["output"] = needs.activation
        array = {"operations": ["quantise"]}
        if needs.hadamard:
            array = {"operations": ["quantise", "hadamard_quantise"], "hadamard": needs.hadamard}
            least = max(least, needs.hadamard)
        longest = max(needs.longest_k, needs.head)
    elif unit == "sums":
        compute["input"] = "fp32" if needs.in_blocks else "int32"
        array, longest = {"operations": ["dequantise_rows"]}, needs.longest_row
    else:
        array = {"operations": ["dequantise"]}
    array["longest_row"] = _rounded(longest)
    if longest >= _LONG:
        array["stored_row"] = _rounded(needs.longest_k) if unit == "rows" else 0
    most = max(least, frame.data_width // 32)
    pipelines = units_file()["small"]["pipelines"][unit] if needs.shared else [{}]
    return [
        Option(
            unit,
            _stream_unit(file, {**compute, "array": {**array, "lanes": lanes}}, frame, pipeline),
            {f"{unit}.lanes": lanes, **_shown_pipeline(unit, pipeline)},
        )
        for lanes in file["lanes"]
        if least <= lanes <= most
        for pipeline in pipelines
    ]


def _shown_pipeline(unit: str, pipeline: Mapping[str, int]) -> dict[str, str]:
    """Return the registers of a core that are not the default, as options show them."""
    text = ", ".join(f"{name} {number}" for name, number in pipeline.items())
    return {f"{unit}.pipeline": text} if text else {}


def _head_options(needs: Needs, frame: Frame) -> list[Option]:
    """Return the options of the unit for attention: lanes; its rows are those of a head of keys."""
    file = units_file()["heads"]
    core = {**file["compute"], "head": needs.head, "max_keys": _rounded(needs.context)}
    pipelines = units_file()["small"]["pipelines"]["heads"] if needs.shared else [{}]
    return [
        Option(
            "heads",
            _stream_unit(
                file, {**core, "array": {"rows": needs.group, "lanes": lanes}}, frame, pipeline
            ),
            {"heads.rows": needs.group, "heads.lanes": lanes, **_shown_pipeline("heads", pipeline)},
        )
        for lanes in file["lanes"]
        if lanes <= min(max(2, frame.data_width // 8), needs.head)
        for pipeline in pipelines
    ]


def _product_options(needs: Needs, frame: Frame, weight: str) -> list[Option]:
    """Return the options of the unit that multiplies by weights of a format.

    A token of decode streams all weights once, so that arrays take from a quarter to twice the
    weights that a beat of the port brings; of small engines from half of these to all.
    """
    width = frame.data_width
    bits = _BITS.get(weight) or block_format(weight).element.width
    most, least = max(8, 2 * width // bits), width // bits // 4
    if needs.shared:
        most, least = max(8, width // bits), width // bits // 2
    if needs.in_blocks:  # a core has a block of products at a time, and two columns at least
        most = max(most, 2 * block_format(weight).block)
    file = units_file()[PRODUCTS]
    unit_name = PRODUCTS if weight == needs.weight else f"{PRODUCTS}_{weight}"
    result = []
    for core, shown, macs in _cores(needs, file["cores"], weight, unit_name):
        if not least <= macs <= most:
            continue
        for kib in file["buffer_kib"]:
            buffers = {
                **file["unit"]["buffers"], "weight_kib": kib, "output_kib": kib,
                "activation_kib": max(kib, _kib(needs.longest_k)),
            }  # fmt: skip
            unit = {**_queued(file["unit"], frame), "compute": core, "buffers": buffers}
            result.append(Option(unit_name, unit, {**shown, buffers_name(unit_name): kib}))
    return result


def _kib(elements: int) -> int:
    """Return a power of two of KiB that hold a row of activations."""
    return 1 << max(0, math.ceil(math.log2(max(1, elements) / 1024)))


def _cores(
    needs: Needs, cores: Iterable[Mapping[str, Any]], weight: str, unit: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any], int]]:
    """Yield cores that multiply by the weights: parameters, those to show, products a cycle."""
    formats = {
        "activation": needs.activation, "weight": weight,
        "max_k": max(1024, 1 << (needs.longest_k - 1).bit_length()),
        "accumulator": "fp32" if needs.in_blocks else "int32",
    }  # fmt: skip
    of = "blocks" if needs.in_blocks else "ternary" if weight == "ternary" else "integers"
    for core in cores:
        if of not in core["weights"]:
            continue
        sizes: dict[str, list[int]] = dict(core["sizes"])
        if needs.in_blocks:
            sizes[core["block"]] = [block_format(weight).block]
        for values in itertools.product(*sizes.values()):
            array = dict(zip(sizes, values, strict=True))
            array |= {name: array[other] for name, other in core.get("same", {}).items()}
            compute = core["compute"]
            shown = {f"{unit}.family": compute["family"]}
            shown |= {f"{unit}.{name}": value for name, value in array.items()}
            fixed = compute.get("array", {})
            yield (
                {**compute, **formats, "array": {**fixed, **array}},
                shown,
                math.prod(array[name] for name in core["macs"]),
            )
