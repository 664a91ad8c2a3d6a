# SPDX-License-Identifier: Apache-2.0
"""The hardware that a model runs on: accelerators, and which of them does what.

Operations are asked for by name and formats; nothing is converted on the way, so that what one
unit gives is what another one takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hwgen.core.operation import GEMM
from hwgen.core.registry import core_of
from hwgen.errors import InputError
from hwgen.models.graph.hadamard import HADAMARD
from hwgen.models.run.block_rows import ELEMENT
from hwgen.models.run.group_weights import misfit, suggested
from hwgen.models.run.shipped import shipped_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hwgen.core.operation import Operation
    from hwgen.core.params.base import FamilyConfig
    from hwgen.models.files.gguf_blocks import Groups

REAL = "fp32"
"""Format of everything between products."""

GROUPS = ("32", "64", "128")
"""Elements along K that may share a scale, as `hwgen model quantise --group` has them."""

KEY = "int8"
"""Format of keys and values that have scales of tokens."""


@dataclass(frozen=True)
class Unit:
    """An operation of an accelerator.

    Parameters
    ----------
    config : FamilyConfig
    operation : Operation
    """

    config: FamilyConfig
    operation: Operation

    def __call__(
        self, operands: dict[str, NDArray[Any]], **scalars: float
    ) -> dict[str, NDArray[Any]]:
        """Return the results by name, as the hardware's golden model computes them."""
        core = core_of(self.config)
        return core.golden(core.job(operands, scalars, operation=self.operation.name), operands)

    def format_of(self, name: str) -> str:
        """Return the name of an operand's or result's format."""
        tensors = (*self.operation.operands, *self.operation.results)
        return str(next(tensor.format for tensor in tensors if tensor.name == name))


def parts_of(config: FamilyConfig) -> Iterable[FamilyConfig]:
    """Return the units of an engine of several, else the configuration itself."""
    units = getattr(config, "units", None)
    return units.values() if isinstance(units, Mapping) else (config,)


class Units:
    """Accelerators by what they do.

    Parameters
    ----------
    configs : iterable of FamilyConfig
        Where several can do the same, the first one does.
    make : callable
        Makes a unit of a configuration and one of its operations.
    of_engine : bool
        Whether they are the units of one engine, so that no other can be named beside them.
    """

    def __init__(
        self,
        configs: Iterable[FamilyConfig],
        make: Callable[[FamilyConfig, Operation], Unit] = Unit,
        *,
        of_engine: bool = False,
    ) -> None:
        self._of_engine = of_engine
        self.configs = tuple(unit for config in configs for unit in parts_of(config))
        self._units = [
            make(config, operation) for config in self.configs for operation in config.operations
        ]

    def find(self, name: str, **formats: str) -> Unit:
        """Return the unit of an operation.

        Parameters
        ----------
        name : str
            Of the operation.
        **formats : str
            Formats that operands or results must have, by name.

        Raises
        ------
        InputError
            If there is none.
        """
        offered = [unit for unit in self._units if unit.operation.common_name == name]
        for unit in offered:
            if all(unit.format_of(key) == value for key, value in formats.items()):
                return unit
        wanted = ", ".join(f"{key} in {value}" for key, value in formats.items())
        there = ", ".join(
            f"{unit.config.name} ({', '.join(unit.format_of(key) for key in formats)})"
            for unit in offered
        )
        raise InputError(
            f"the model needs {name} with {wanted}; "
            + (f"there is {there}" if there else "no unit has that operation")
            + f"; {self._advice()}"
        )

    def quantise(self, block: int = 0, result: str = "int8") -> Unit:
        """Return the unit that makes integers of rows in single precision.

        Parameters
        ----------
        block : int
            Elements of the blocks that are turned before; 0: none are.
        result : str
            Format of the integers.

        Raises
        ------
        InputError
            If there is none.
        """
        if not block:
            return self.find("quantise", x=REAL, result=result)
        there = []
        for unit in self._units:
            if unit.operation.name == HADAMARD:
                own, made = unit.operation.block, unit.format_of("result")
                if own == block and (unit.format_of("x"), made) == (REAL, result):
                    return unit
                there.append(f"{unit.config.name} has {own}, to {made}")
        raise InputError(
            f"the model needs {HADAMARD} from {REAL} to {result} in blocks of {block}; "
            + (", ".join(there) or "no unit has that operation")
            + f"; {self._advice()}, or quantise the model with another --hadamard or without"
        )

    def quantise_block(self, element: str = ELEMENT.name) -> Unit:
        """Return the unit that makes blocks of rows in single precision.

        Parameters
        ----------
        element : str
            Format of the elements; by default those of MXFP8.

        Raises
        ------
        InputError
            If there is none.
        """
        return self.find("quantise_block", x=REAL, result=element)

    def offers(self, name: str, **formats: str) -> Unit | None:
        """Return the unit of an operation, or None; see `find`."""
        try:
            return self.find(name, **formats)
        except InputError:
            return None

    def first(self, names: Sequence[str], **formats: str) -> Unit:
        """Return the unit of the first of some operations that there is; see `find`."""
        for name in names[:-1]:
            if any(unit.operation.common_name == name for unit in self._units):
                try:
                    return self.find(name, **formats)
                except InputError:
                    continue  # of other formats: the next operation may do
        return self.find(names[-1], **formats)

    def rows(self, name: str, length: int, gate: str = "") -> Unit | None:
        """Return the unit of an operation on rows in single precision, None if there is none.

        Parameters
        ----------
        name : str
            Of the operation.
        length : int
            Of the rows.
        gate : str
            The function of a gate.
        """
        for unit in self._units:
            if unit.operation.common_name != name:
                continue
            if unit.format_of("x") != REAL or unit.format_of("result") != REAL:
                continue
            longest = min((s.most for s in unit.operation.sizes if s.name == "length"), default=0)
            parameters = {t.format for t in unit.operation.operands if t.port == "p"}
            same_gate = not gate or getattr(getattr(unit.config, "array", None), "gate", "") == gate
            if length <= longest and same_gate and all(str(f) == REAL for f in parameters):
                return unit
        return None

    def attention(self, elements: int, blocks: str = "") -> Unit:
        """Return the unit of attention over heads of some elements, with scales of tokens.

        Parameters
        ----------
        elements : int
        blocks : str
            Format of the elements of blocks with scales of their own, if keys and values are in
            such; the heads of the unit are then exactly as long.

        Raises
        ------
        InputError
            If there is none.
        """
        for unit in self._units:
            if unit.operation.name != "attention":
                continue
            names = {tensor.name for tensor in unit.operation.operands}
            sizes = {size.name: size.most for size in unit.operation.sizes}
            if "key_scale" not in names:
                continue
            if blocks:
                stored = {unit.format_of(name) for name in ("key", "value")}
                if stored == {blocks} and sizes["elements"] == elements:
                    return unit
            elif unit.format_of("key") == KEY and sizes["elements"] >= elements:
                return unit
        scales = f"blocks of {blocks}" if blocks else "scales of tokens"
        raise InputError(
            f"the model needs attention over heads of {elements} elements with {scales}; no"
            f" unit has it; {self._advice()}"
        )

    def core(self, low: int, high: int, k: int, activation: str = "int8") -> FamilyConfig:
        """Return a core that multiplies integers, with sums that cannot overflow.

        Parameters
        ----------
        low, high : int
            Smallest and largest weight.
        k : int
            Length of the sums.
        activation : str
            Format of the rows.

        Raises
        ------
        InputError
            If there is none.
        """
        reasons = []
        for config in self.configs:
            if not config.multiplies:
                continue
            weight: Any = config.weight
            result: Any = config.result
            if str(config.activation) != activation or not weight.is_integer:
                reasons.append(f"{config.name} takes {config.activation} by {weight}")
            elif weight.min > low or weight.max < high:
                reasons.append(f"{config.name} has weights of {weight}")
            elif str(result) != "int32" or (
                -config.activation.min * max(-low, high) * k > result.max
            ):
                reasons.append(f"sums of {k} do not fit into {config.name}'s {result}")
            elif (config.max_k or k) < k:
                reasons.append(f"{config.name} adds up at most {config.max_k}")
            else:
                return config
        raise InputError(
            f"the model needs {GEMM} of {activation} by {low}..{high} with int32 sums of {k}: "
            + ("; ".join(reasons) or "no unit multiplies matrices")
            + self._integer_advice(activation, low, high)
        )

    def block_core(self, groups: Groups, activation: str = "int8") -> FamilyConfig:
        """Return a core that multiplies rows by weights in groups, with sums in single precision.

        Parameters
        ----------
        groups : Groups
        activation : str
            Format of the rows.

        Raises
        ------
        InputError
            If there is none; it says what each has, and what to do.
        """
        reasons = []
        for config in self.configs:
            if not config.multiplies:
                continue
            weight: Any = config.weight
            if str(config.activation) != activation or not weight.is_block:
                reasons.append(f"{config.name} takes {config.activation} by {weight}")
            elif str(config.result) != REAL:
                reasons.append(f"{config.name} gives {config.result}")
            elif reason := misfit(weight, groups):
                reasons.append(f"{config.name}, with weights of {weight}, {reason}")
            elif (config.max_k or groups.values.shape[1]) < groups.values.shape[1]:
                reasons.append(f"{config.name} adds up at most {config.max_k}")
            else:
                return config
        length = groups.values.shape[1] // groups.scales.shape[1]
        low, high = int(groups.values.min()), int(groups.values.max())
        name = suggested(groups)
        raise InputError(
            f"the model needs {GEMM} of {activation} by {low}..{high} in groups of {length} with"
            f" {'scales' if groups.offsets is None else 'scales and minima'}: "
            + ("; ".join(reasons) or "no unit multiplies matrices")
            + f"; {self._block_advice(activation, name)}, or quantise it with --weights int8 and"
            " without --group"
        )

    def _advice(self) -> str:
        """Return the way out where no unit has an operation."""
        if self._of_engine:
            return "take an engine that has it (docs/compiled-models.md lists those of configs)"
        return "name a configuration that has it with --unit"

    def _integer_advice(self, activation: str, low: int, high: int) -> str:
        """Return the ways out where no core of an engine takes weights with a scale a row."""
        if not self._of_engine:
            return ""
        ways = []
        for config in self.configs:
            weight: Any = config.weight if config.multiplies else None
            if weight is None or not weight.is_block or str(config.activation) != activation:
                continue
            elements = weight.element.values
            if str(weight.block) in GROUPS and min(elements) <= low and high <= max(elements):
                ways.append(f"quantise the model with --group {weight.block}")
        if file := shipped_file(activation, "int8"):
            ways.append(f"compile it for configs/{file}")
        return f"; {', or '.join(ways)}" if ways else ""

    def _block_advice(self, activation: str, weight: str) -> str:
        """Return the core that would take weights in groups, and where it is."""
        streaming = "an engine that multiplies matrices in memory"
        if not self._of_engine:
            named = f"name a core with weight: {weight} by --unit, " if weight else ""
            return f"{named}compile the model for {streaming}"
        file = shipped_file(activation, weight)
        ways = [f"configs/{file}"] if file else []
        ways += [f"an engine whose core has weight: {weight}"] if weight else []
        return f"compile it for {', for '.join([*ways, streaming])}"
