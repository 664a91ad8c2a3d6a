# SPDX-License-Identifier: Apache-2.0
"""C of a decoder that is compiled to jobs: the engine's driver, and the network by its host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from flows.build.drivers.c_functions import name_in_c, needed_functions
from flows.build.drivers.c_templates import blocks, render, wrapped_list
from flows.build.drivers.engine_drivers import gemm_driver
from flows.build.drivers.model_driver import job_facts, model_facts
from flows.build.files import c_header
from hwgen.arithmetic.hadamard import LARGEST
from hwgen.families.gemm_stream.core import GemmStreamCore
from hwgen.models.compile.host_steps import CACHE, Step, X
from hwgen.models.compile.job_compilation import entry_number, sums_of
from hwgen.models.run import host_arithmetic as host
from hwgen.models.run.host_functions import GATES, ROUND, tanh

if TYPE_CHECKING:
    from hwgen.families.gemm_stream.schedule import JobEngine
    from hwgen.models.compile.job_compilation import JobCompilation
    from hwgen.models.compile.placement import Array, Placement

INDENT = " " * 8

_ATTENTION = ("heads", "kv_heads", "elements", "window", "hadamard")
"""Sizes of an attention, in the order of the fields of its form."""


def decoder_driver(compilation: JobCompilation) -> dict[str, str]:
    """Return the files, name to text; C99 without a library.

    Parameters
    ----------
    compilation : JobCompilation
    """
    core = GemmStreamCore(compilation.config)
    document = compilation.document()
    values = _Emission(compilation, document).values()
    text = render(core, "host_generate", values)
    return {
        f"{core.name}_regs.h": c_header(core),
        **gemm_driver(core),
        **text,
    }


class _Emission:
    """Emitter of the parts of the program that are specific to the network."""

    def __init__(self, compilation: JobCompilation, document: Mapping[str, Any]) -> None:
        self.compilation, self.document = compilation, document
        self.config: JobEngine = compilation.config
        self.tables: list[str] = []

    def values(self) -> dict[str, str]:
        """Return the fields of the template."""
        steps = self.compilation.steps
        bodies = {
            "LAYER": self._body(steps.layer, after=False),
            "AFTER": self._body(steps.after, after=True),
        }
        every = (*steps.layer, *steps.after)
        used = {step.operation for step in every}
        sums = [step.scale != 1.0 for step in every if step.operation == "add"]
        if any(sums):
            used.add("add_scaled")
        if all(sums):
            used.discard("add")
        capped = any(step.operation == "attention" and step.cap for step in steps.layer)
        places: dict[str, object] = {
            "QUERIES": self._work("queries"),
            "SCORES": self._work("scores"),
            "CAPPED": capped,
        }
        texts = blocks(self.config.name, "host_rows.c", places)
        helpers = "".join(
            text for name, text in texts.items() if name in used and name != "attention"
        )
        attention = texts["attention"] if "attention" in used else ""
        always = f"exponential_of {name_in_c(tanh) if capped else ''}"
        called = f"{always} {helpers} {' '.join(bodies.values())}"
        numbers = blocks(self.config.name, "host_numbers.c", {})
        last = steps.after[-1].output
        return {
            "FACTS": self._facts(),
            "FUNCTIONS": needed_functions(called, numbers).rstrip("\n") + "\n",
            "HELPERS": helpers,
            "ATTENTION": attention,
            **bodies,
            "TABLES": "\n".join(self.tables),
            "ROUND": repr(ROUND),
            "CODE_MOST": str(host.CODE_MOST),
            "MOST_BLOCK": str(LARGEST),
            "X": self._work(X),
            "EMBEDDING": _at(self.compilation.host, "embedding"),
            "LOGITS": self._work(last),
        }

    def _facts(self) -> str:
        """Return the sizes that a user of the header sees."""
        document = self.document
        sizes = {"LAYERS": "layers", "WIDTH": "width", "AT_ONCE": "tokens_at_once"}
        return model_facts(
            self.config.name, document, job_facts(document),
            {name: f"{document[key]}u" for name, key in sizes.items()},
        )  # fmt: skip

    def _body(self, steps: Sequence[Step], *, after: bool) -> str:
        """Return the statements of a layer, or of what is behind; products go together."""
        lines: list[str] = []
        ok = f"{self.config.name.upper()}_OK"
        for products, several in groupby(steps, key=lambda step: step.operation == "gemm"):
            if not products:
                for step in several:
                    lines += getattr(self, f"_{step.operation}")(step)
                continue
            together = list(several)
            table = f"products_{len(self.tables)}"
            rows = ",\n".join(self._product(step, after=after) for step in together)
            self.tables.append(f"static const product {table}[] = {{\n{rows}\n}};\n")
            lines += [
                f"    /* {', '.join(step.name for step in together)} */",
                f"    status = products(host, {table}, {len(together)}u, layer, rows);",
                f"    if (status != {ok})",
                "        return status;",
            ]
        return "\n".join(lines)

    # -- places ----------------------------------------------------------------------------

    def _work(self, name: str) -> str:
        return _at(self.compilation.work, name)

    def _rows(self, name: str) -> str:
        """Return a pointer to rows that the host works on."""
        return f"work_of(host, {self._work(name)})"

    def _constant(self, name: str) -> str:
        """Return a pointer to constants of the layer."""
        array = self.compilation.host.arrays[name]
        step = f" + layer * (size_t){_size(array.stride)}" if array.count > 1 else ""
        return f"constant_of(host, {_size(array.address)}{step})"

    def _places(self, step: Step, name: str) -> str:
        """Return the address of constants of a product, and the stride from layer to layer."""
        if name not in step.inputs:
            return "NOTHING, 0u"
        array: Array = self.compilation.host.arrays[step.inputs[name]]
        return f"{_size(array.address)}, {_size(array.stride)}"

    # -- steps -----------------------------------------------------------------------------

    def _product(self, step: Step, *, after: bool) -> str:
        """Return a row of a table of products."""
        sizes, document = step.sizes, self.document
        job = entry_number(document, step, after=after, layer=0, rows=1)
        later = 0 if after else entry_number(document, step, after=False, layer=0, rows=2) - job
        each = 0 if after else document["program"]["of_a_layer"]
        most = 1 if after else self.compilation.most
        places = (step.inputs["x"], f"{step.inputs['x']}.scales", step.output)
        fields = [
            *(f"{number}u" for number in (job, each, later)),
            *(f"{number}u" for number in (sizes["groups"], sizes["k"], sizes["n"], most)),
            f"UINT64_C({self.compilation.memory.at(sums_of(step)):#x})",
            *map(self._work, places),
            *(self._places(step, name) for name in ("scales", "offsets", "bias")),
            f"{sizes['shift']}u",
        ]
        return f"    /* {step.name} */\n    {{{wrapped_list(fields, INDENT).strip()}}}"

    def _rms_norm(self, step: Step) -> list[str]:
        x, output = self._rows(step.inputs["x"]), self._rows(step.output)
        gamma, heads = self._constant(step.inputs["gamma"]), step.sizes["heads"]
        rows = "rows" if heads == 1 else f"rows * {_size(heads)}"
        length = _size(step.sizes["length"] // heads)
        return _call("rms_norm", rows, length, x, gamma, repr(step.epsilon), output)

    def _layer_norm(self, step: Step) -> list[str]:
        x, output = self._rows(step.inputs["x"]), self._rows(step.output)
        gamma, beta = (self._constant(step.inputs[key]) for key in ("gamma", "beta"))
        length, epsilon = _length(step), repr(step.epsilon)
        return _call("layer_norm", "rows", length, x, gamma, beta, epsilon, output)

    def _quantise(self, step: Step) -> list[str]:
        address = f"UINT64_C({self.compilation.memory.at(f'{step.name}.rows'):#x})"
        x, codes = self._work(step.inputs["x"]), self._work(step.output)
        scales = self._work(f"{step.output}.scales")
        block = _size(step.sizes["hadamard"])
        return _call("quantise", "host", "rows", _length(step), block, x, codes, scales, address)

    def _rope(self, step: Step) -> list[str]:
        elements = _size(step.sizes["elements"])
        turns = f"constant_of(host, {_at(self.compilation.host, step.inputs['turns'])})"
        here = f"{turns} + (size_t)position * {elements}"
        x, output = self._rows(step.inputs["x"]), self._rows(step.output)
        return _call("rope", "rows", _length(step), elements, x, here, output)

    def _gated(self, step: Step) -> list[str]:
        gate = name_in_c(GATES[step.gate])
        x, y = (self._rows(step.inputs[name]) for name in "xy")
        return _call("gated", "rows", _length(step), gate, x, y, self._rows(step.output))

    def _add(self, step: Step) -> list[str]:
        x, y = (self._rows(step.inputs[name]) for name in "xy")
        output, length = self._rows(step.output), _length(step)
        if step.scale != 1.0:
            return _call("add_scaled", "rows", length, x, repr(step.scale), y, output)
        return _call("add", "rows", length, x, y, output)

    def _soft_cap(self, step: Step) -> list[str]:
        x, output = self._rows(step.inputs["x"]), self._rows(step.output)
        return _call("soft_cap", "rows", _length(step), x, repr(step.cap), output)

    def _attention(self, step: Step) -> list[str]:
        sizes, table = step.sizes, f"attention_{len(self.tables)}"
        heads = ", ".join(f"{sizes[key]}u" for key in _ATTENTION)
        rows = (*(step.inputs[name] for name in ("query", "key", "value")), step.output)
        kept = [self._work(step.inputs[part]) for part in CACHE]
        stride = self.compilation.work.arrays[step.inputs["keys"]].stride
        fields = [heads, repr(step.scale), repr(step.cap), *map(self._work, rows)]
        text = wrapped_list([*fields, *kept, _size(stride)], INDENT).strip()
        self.tables.append(f"static const attention {table} = {{{text}}};\n")
        return [f"    attention_of(host, &{table}, layer, position, rows);"]


def _call(name: str, *arguments: str) -> list[str]:
    """Return a statement that calls a function."""
    return [f"    {name}({wrapped_list(arguments, INDENT).strip()});"]


def _length(step: Step) -> str:
    """Return the length of a step's rows."""
    return _size(step.sizes["length"])


def _size(number: int) -> str:
    """Return a number of bytes or elements in C."""
    return f"{number}u"


def _at(memory: Placement, name: str) -> str:
    """Return the address of an array, in C."""
    return _size(memory.at(name))
