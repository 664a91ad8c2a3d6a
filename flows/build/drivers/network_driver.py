# SPDX-License-Identifier: Apache-2.0
"""C of a network on arrays that is compiled to jobs: the engine's driver, and its host."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from flows.build.drivers.c_expressions import C_TYPES, expression, integer, number, requantised
from flows.build.drivers.c_functions import needed_definitions, needed_functions
from flows.build.drivers.c_templates import blocks, render, wrapped_list
from flows.build.drivers.engine_drivers import gemm_driver
from flows.build.drivers.model_driver import job_facts, model_facts
from flows.build.files import c_header
from hwgen.families.gemm_stream.core import GemmStreamCore
from hwgen.models.compile.network_compilation import COLUMNS, ROWS, SUMS, NetworkStep
from hwgen.models.compile.network_steps import AXES
from hwgen.models.run.host_arithmetic import CODE_MOST
from hwgen.models.run.host_functions import ROUND

if TYPE_CHECKING:
    from hwgen.models.compile.network_compilation import NetworkCompilation

_ELEMENTS = (
    "unary", "binary", "add", "where", "clip", "cast", "quantise_linear", "dequantise_linear",
    "requantise", "linear", "rescale",
)  # fmt: skip
_OPERANDS = ("condition", "x", "y", "scale", "zero", "multiplier", "shift")
_PARAMETERS = ("scale", "zero", "multiplier", "shift")
_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const
    constexpr continue decltype default delete do double else enum explicit export extern false
    float for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr
    operator or or_eq private protected public register restrict return short signed sizeof static
    struct switch template this throw true try typedef typeid typename union unsigned using virtual
    void volatile wchar_t while xor xor_eq
    """.split()  # noqa: SIM905
)


def network_driver(compilation: NetworkCompilation) -> dict[str, str]:
    """Return the files, name to text; C99 without a library.

    Parameters
    ----------
    compilation : NetworkCompilation
    """
    core = GemmStreamCore(compilation.config)
    text = render(core, "host_infer", _Emission(compilation).values())
    return {
        f"{core.name}_regs.h": c_header(core),
        **gemm_driver(core),
        **text,
    }


def names_in_c(names: Sequence[str]) -> list[str]:
    """Return names that C and C++ take, each once."""
    result: list[str] = []
    for name in names:
        text = re.sub(r"\W", "_", name, flags=re.ASCII)
        if not text or text[0].isdigit() or text in _KEYWORDS:
            text = f"_{text}" if text and text[0] != "_" else f"a{text}"
        first, count = text, 1
        while text in result:
            count += 1
            text = f"{first}_{count}"
        result.append(text)
    return result


class _Emission:
    """Emitter of the parts of the program that are specific to the network.

    Parameters
    ----------
    compilation : NetworkCompilation

    Attributes
    ----------
    functions, tables : dict of str
        Text with ``$`` in place of its name, and that name; each is defined once.
    """

    def __init__(self, compilation: NetworkCompilation) -> None:
        self.compilation, self.shapes = compilation, compilation.shapes
        self.name = compilation.config.name
        self.prefix = self.name.upper()
        values = {"CODE_STEP": number(np.float32(1 / CODE_MOST))}
        self.sections = blocks(self.name, "host_arrays.c", values)
        self.functions: dict[str, str] = {}
        self.tables: dict[str, str] = {}

    def _place(self, name: str) -> str:
        """Return the address of an array."""
        if name in self.compilation.constants:
            return f"constant_at(host, {self.compilation.host.at(name)}u)"
        return f"work_at(host, {self.compilation.work.at(self.compilation.place_of(name))}u)"

    def _read(self, name: str, ctype: str = "") -> str:
        """Return a pointer to an array that is read."""
        return f"(const {ctype or C_TYPES[self.shapes.type(name)]} *){self._place(name)}"

    def _write(self, name: str, ctype: str = "") -> str:
        """Return a pointer to an array that is written."""
        return f"({ctype or C_TYPES[self.shapes.type(name)]} *){self._place(name)}"

    def _table(self, text: str, hint: str) -> str:
        """Return the name of a table; `text` has ``$`` in its place."""
        return self.tables.setdefault(text, f"{hint}_{len(self.tables)}")

    def _function(self, text: str, hint: str) -> str:
        """Return the name of a function; `text` has ``$`` in its place."""
        return self.functions.setdefault(text, f"{hint}_{len(self.functions)}")

    def _instance(self, section: str, **fields: str) -> str:
        """Return the name of a block's function for some types."""
        (text,) = blocks(self.name, "host_typed.c", fields, section).values()
        return self._function(re.sub(rf"\b{section}\b", "$", text), section)

    def _walk(self, shape: Sequence[int], *steps: Sequence[int]) -> str:
        """Return the name of a table for elements in some order, by the steps of each array."""
        lengths, joined = _joined(shape, steps)
        rows = [*joined, *[[0] * len(lengths)] * (3 - len(joined))]
        numbers = ", ".join("{" + ", ".join(map(str, row or [0])) + "}" for row in rows)
        counts = ", ".join(f"{length}u" for length in lengths) or "1u"
        text = f"static const walk $ = {{{len(lengths)}u, {{{counts}}}, {{{numbers}}}}};"
        return self._table(text, "walk")

    def _form(self, name: str) -> tuple[tuple[int, ...], int]:
        """Return the shape of an array, and the bytes of an element."""
        return self.shapes.shape(name), np.dtype(self.shapes.type(name)).itemsize

    def _lines(self, x: str, axes: Sequence[int]) -> list[str]:
        """Return the lines of an array along axes, and the elements of each."""
        shape = self.shapes.shape(x)
        strides = strides_of(shape)
        inner = sorted(axis % len(shape) for axis in axes)
        outer = [axis for axis in range(len(shape)) if axis not in inner]
        result = []
        for group in (outer, inner):
            lengths, steps = ([array[axis] for axis in group] for array in (shape, strides))
            result += [f"{math.prod(lengths)}u", f"&{self._walk(lengths, steps)}"]
        return result

    def _checked(self, name: str, *arguments: str) -> list[str]:
        """Return a call whose status may be an error."""
        call = wrapped_list(arguments, " " * 8)
        return [f"    status = {name}({call.strip()});", f"    if (status != {self.prefix}_OK)",
                "        return status;"]  # fmt: skip

    def values(self) -> dict[str, str]:
        """Return the fields of the template."""
        body = "\n".join(self._body())
        tables = "".join(text.replace("$", name) + "\n" for text, name in self.tables.items())
        functions = "\n".join(text.replace("$", name) for text, name in self.functions.items())
        inputs, outputs = self.compilation.description.inputs, self.compilation.description.outputs
        return {
            "FACTS": self._facts(),
            "INPUTS": self._members(inputs, "const "),
            "OUTPUTS": self._members(outputs, ""),
            "AXES": str(AXES),
            "ADDRESSES": "\n".join(
                f"#define {name.upper()} UINT64_C({self.compilation.memory.at(name):#x})"
                for name in (ROWS, COLUMNS, SUMS)
                if name in self.compilation.memory.arrays
            ),
            "HELPERS": self._helpers(body + tables + functions) + functions,
            "TABLES": tables,
            "BODY": body,
            "ROUND": repr(ROUND),
        }

    def _helpers(self, text: str) -> str:
        """Return the functions that a text calls, and those that they call."""
        helpers = needed_definitions(text, self.sections)
        numbers = blocks(self.name, "host_numbers.c", {})
        return needed_functions(text + helpers, numbers) + helpers

    def _facts(self) -> str:
        """Return the sizes that a user of the header sees."""
        document = self.compilation.document()
        return model_facts(self.name, document, job_facts(document))

    def _members(self, names: Sequence[str], const: str) -> str:
        lines = []
        for name, member in zip(names, names_in_c(names), strict=True):
            sizes = " x ".join(map(str, self.shapes.shape(name))) or "one number"
            ctype = C_TYPES[self.shapes.type(name)]
            shown = re.sub(r"[^ -~]|\*/|[@$\\?]", "_", name)
            lines.append(f"    {const}{ctype} *{member}; /* {shown}: {sizes} */")
        return "\n".join(lines)

    def _body(self) -> list[str]:
        """Return the statements of a frame."""
        lines = []
        description = self.compilation.description
        for name, member in zip(description.inputs, names_in_c(description.inputs), strict=True):
            place = self._place(name)
            lines.append(f"    memcpy({place}, inputs->{member}, {self.shapes.bytes(name)}u);")
        for step in self.compilation.steps:
            made: Callable[[NetworkStep], list[str]]
            if step.operation in _ELEMENTS:
                made = self._elements
            else:
                made = getattr(self, f"_{step.operation}")
            shown = re.sub(r"[^ -~]|\*/|/\*|[@$\\?]", "_", step.name)
            lines += [f"    /* {shown} */", *made(step)]
        for name, member in zip(description.outputs, names_in_c(description.outputs), strict=True):
            place = self._place(name)
            lines.append(f"    memcpy(outputs->{member}, {place}, {self.shapes.bytes(name)}u);")
        return lines

    # -- elements --------------------------------------------------------------------------

    def _elements(self, step: NetworkStep) -> list[str]:
        """Return the call of a function for each element."""
        operands = [step.inputs[key] for key in _OPERANDS if key in step.inputs]
        types = [self.shapes.type(name) for name in operands]
        shapes = [self._aligned(step, name) for name in operands]
        text = expression(step.operation, step.attributes, types, self.shapes.type(step.output))
        return self._each(step.output, operands, shapes, text)

    def _aligned(self, step: NetworkStep, name: str) -> tuple[int, ...]:
        """Return the shape of an operand; scales and zeros lie along an axis of the result."""
        shape, whole = self.shapes.shape(name), self.shapes.shape(step.output)
        parameters = {step.inputs.get(key) for key in _PARAMETERS}
        if name not in parameters or name == step.inputs.get("x"):
            return shape
        if math.prod(shape) == 1:
            return ()
        axis = int(step.attributes.get("axis", -1)) % len(whole)
        return tuple(n if i == axis else 1 for i, n in enumerate(whole))

    def _each(
        self, output: str, operands: Sequence[str], shapes: Sequence[tuple[int, ...]], text: str,
        types: Sequence[str] = (),
    ) -> list[str]:  # fmt: skip
        """Return a loop over elements of operands, each of a shape that goes with the result's."""
        whole = self.shapes.shape(output)
        types = types or [self.shapes.type(name) for name in operands]
        plain = all(shape == whole for shape in shapes)
        parameters, reads = [], []
        for place, (letter, dtype) in enumerate(zip("abc", types, strict=False)):
            ctype = C_TYPES[dtype]
            parameters.append(f"const {ctype} *{'xyw'[place]}")
            at = "i" if plain else f"here.places[{place}]"
            if re.search(rf"\b{letter}\b", text):
                reads.append(f"        const {ctype} {letter} = {'xyw'[place]}[{at}];\n")
            else:
                reads.append(f"        (void){'xyw'[place]};\n")
        result = C_TYPES[self.shapes.type(output)]
        form, here, step = ("", "", "") if plain else (
            "const walk *form, ", "    cursor here = {{0}, {0}};\n",
            "        advance(form, &here);\n")  # fmt: skip
        body = (
            f"static void $(size_t count, {form}{', '.join(parameters)}, {result} *z)\n{{\n{here}"
            f"    size_t i;\n\n    for (i = 0; i < count; i++) {{\n{''.join(reads)}\n"
            f"        z[i] = ({result})({text});\n{step}    }}\n}}\n"
        )
        name = self._function(body, "elements")
        arguments = [f"{math.prod(whole)}u"]
        if not plain:
            steps = [steps_of(shape, whole) for shape in shapes]
            arguments.append(f"&{self._walk(whole, *steps)}")
        arguments += [f"(const {C_TYPES[ctype]} *){self._place(each)}"
                      for each, ctype in zip(operands, types, strict=True)]  # fmt: skip
        return statement(name, *arguments, self._write(output))

    def _linear_mean(self, step: NetworkStep) -> list[str]:
        at, x = step.attributes, step.inputs["x"]
        shape = self.shapes.shape(x)
        count = math.prod(shape[axis] for axis in at["axes"])
        less = f"(uint32_t)found - {count}u * (uint32_t){at['x_zero']}"
        name = self._instance(
            "reduced_sum", TYPE=C_TYPES[self.shapes.type(x)], RESULT="int32_t", WIDE="uint64_t",
            FOUND=less,
        )  # fmt: skip
        sums = f"{step.name}:sums"
        lines = statement(
            name, *self._lines(x, at["axes"]), self._read(x), self._write(sums, "int32_t")
        )
        scale, zero = number(at["scale"]), integer(int(at["zero"]))
        result = self.shapes.type(step.output)
        whole = self.shapes.shape(step.output)
        text = requantised(at, result, scale, zero)
        return lines + self._each(step.output, [sums], [whole], text, ["int32"])

    # -- lines -----------------------------------------------------------------------------

    def _reduce(self, step: NetworkStep) -> list[str]:
        at, x = step.attributes, step.inputs["x"]
        dtype, name = self.shapes.type(x), at["function"]
        ctype = C_TYPES[dtype]
        if name in ("largest", "least"):
            order = ">" if name == "largest" else "<"
            function = self._instance("reduced_largest", TYPE=ctype, ORDER=order)
        else:
            wide = "double" if dtype == "float32" else "uint64_t"
            result = "found / (double)count" if name == "mean" else "found"
            function = self._instance(
                "reduced_sum", TYPE=ctype, RESULT=ctype, WIDE=wide, FOUND=result
            )
        return statement(
            function, *self._lines(x, at["axes"]), self._read(x), self._write(step.output)
        )

    def _softmax(self, step: NetworkStep) -> list[str]:
        x = step.inputs["x"]
        shape = self.shapes.shape(x)
        axis = step.attributes["axis"] % len(shape)
        steps, outer = strides_of(shape), [i for i in range(len(shape)) if i != axis]
        walk = self._walk([shape[i] for i in outer], [steps[i] for i in outer])
        lines = math.prod(shape) // shape[axis]
        return statement("softmax", f"{lines}u", f"&{walk}", f"{shape[axis]}u", f"{steps[axis]}",
                     self._read(x), self._write(step.output))  # fmt: skip

    def _table_softmax(self, step: NetworkStep) -> list[str]:
        shape = self.shapes.shape(step.inputs["x"])
        operands = [self._read(step.inputs[key]) for key in ("x", "table")]
        return statement(
            "table_softmax", f"{math.prod(shape[:-1])}u", f"{shape[-1]}u", *operands,
            self._write(step.output),
        )  # fmt: skip

    def _layer_norm(self, step: NetworkStep) -> list[str]:
        x = step.inputs["x"]
        shape = self.shapes.shape(x)
        rows, length = f"{math.prod(shape[:-1])}u", f"{shape[-1]}u"
        operands = [self._read(step.inputs[key]) for key in ("x", "gamma", "beta")]
        epsilon = repr(float(step.attributes["epsilon"]))
        return statement("layer_norm", rows, length, *operands, epsilon, self._write(step.output))

    def _dynamic_quantise(self, step: NetworkStep) -> list[str]:
        x, part = step.inputs["x"], step.attributes["part"]
        name = {"values": "dynamic_codes", "scale": "dynamic_scale", "zero": "dynamic_zero"}[part]
        count = f"{math.prod(self.shapes.shape(x))}u"
        return self._checked(name, count, self._read(x), self._write(step.output))

    # -- windows ---------------------------------------------------------------------------

    def _windows(self, step: NetworkStep) -> str:
        """Return the table of the windows of an operation."""
        from hwgen.models.graph.tensor_shapes import window_counts

        at, shape = step.attributes, self.shapes.shape(step.inputs["x"])
        spare = 3 - len(at["kernel"])

        def three(numbers: Sequence[int], fill: int) -> str:
            return "{" + ", ".join(f"{n}u" for n in (*[fill] * spare, *numbers)) + "}"

        numbers = {"lengths": shape[2:], "counts": window_counts(shape, at), **at}
        keys = ("lengths", "counts", "kernel", "strides", "dilations", "before")
        rows = [three(numbers[key], int(key != "before")) for key in keys]
        text = (
            f"{{{shape[0] * shape[1]}u, {shape[1]}u,\n    {wrapped_list(rows, ' ' * 4).strip()}}}"
        )
        return self._table(f"static const windows $ = {text};", "windows")

    def _patches(self, step: NetworkStep) -> list[str]:
        x = step.inputs["x"]
        dtype, size = self.shapes.type(x), self._form(x)[1]
        if "fill" in step.inputs:
            outside = self._place(step.inputs["fill"])
        else:
            outside = f"&{self._table(f'static const {C_TYPES[dtype]} $ = 0;', 'value')}"
        return statement("patches", f"&{self._windows(step)}", f"{size}u", outside, self._place(x),
                     self._place(step.output))  # fmt: skip

    def _pool(self, step: NetworkStep) -> list[str]:
        x, at = step.inputs["x"], step.attributes
        dtype = self.shapes.type(x)
        arguments = self._read(x), self._write(step.output)
        form = f"&{self._windows(step)}"
        if at["function"] != "largest":
            return statement("mean_window", form, str(int(at["padded"])), *arguments)
        least = "(float)-double_of(INT64_C(0x7ff0000000000000))"
        if dtype != "float32":
            least = integer(int(np.iinfo(dtype).min))
        name = self._instance("largest_window", TYPE=C_TYPES[dtype], LEAST=least)
        return statement(name, form, *arguments)

    # -- products --------------------------------------------------------------------------

    def _quantise(self, step: NetworkStep) -> list[str]:
        shape = self.shapes.shape(step.output)
        scales = self._write(f"{step.output}.scales", "float")
        return statement(
            "quantise", f"{math.prod(shape[:-1])}u", f"{shape[-1]}u", self._read(step.inputs["x"]),
            self._write(step.output, "int8_t"), scales,
        )  # fmt: skip

    def _product(self, step: NetworkStep) -> str:
        """Return the table of a product's jobs."""
        from hwgen.families.gemm_stream.schedule import weight_stride

        product = step.product
        assert product is not None
        stride = 0 if product.constant else weight_stride(self.compilation.plan_of(product))
        numbers = (step.job, product.parts, product.m, product.k, product.n, stride)
        text = ", ".join(f"{n}u" for n in numbers)
        return f"&{self._table(f'static const product $ = {{{text}}};', 'product')}"

    def _zero(self, step: NetworkStep, operand: str) -> tuple[str, str]:
        """Return the mask that converts an operand to int8, and its zero point then."""
        less = 128 if self.shapes.type(step.inputs[operand]) == "uint8" else 0
        zero = step.inputs.get(f"{operand}_zero")
        text = "0" if zero is None else f"(int32_t)({self._read(zero)})[0]"
        return f"{less}u", f"{text} - {less}"

    def _optional(self, step: NetworkStep, operand: str, ctype: str) -> str:
        return self._read(step.inputs[operand], ctype) if operand in step.inputs else "NULL"

    def _integer_gemm(self, step: NetworkStep) -> list[str]:
        rest = [self._optional(step, key, "int32_t") for key in ("columns", "zeros", "bias")]
        return self._checked("integer_gemm", "host", self._product(step),
                             self._place(step.inputs["x"]), *self._zero(step, "x"), *rest,
                             self._write(step.output, "int32_t"))  # fmt: skip

    def _gemm(self, step: NetworkStep) -> list[str]:
        x = step.inputs["x"]
        return self._checked(
            "gemm", "host", self._product(step), self._read(x, "int8_t"),
            self._read(f"{x}.scales", "float"), self._read(step.inputs["scales"], "float"),
            self._optional(step, "bias", "float"), self._write(step.output, "float"),
        )  # fmt: skip

    def _batch(self, step: NetworkStep) -> str:
        """Return the table of the matrices that a product of activations multiplies."""
        lead = self.shapes.shape(step.output)[:-2]
        steps = []
        for operand in "xy":
            shape = self.shapes.shape(step.inputs[operand])
            matrix = math.prod(shape[-2:])
            steps.append([matrix * each for each in steps_of(shape[:-2], lead)])
        return f"&{self._walk(lead, *steps)}"

    def _integer_matmul(self, step: NetworkStep) -> list[str]:
        x, y = (self._place(step.inputs[operand]) for operand in "xy")
        return self._checked(
            "integer_matmul", "host", self._product(step), self._batch(step), x,
            *self._zero(step, "x"), y, *self._zero(step, "y"),
            self._write(f"{step.name}:columns", "int32_t"), self._write(step.output, "int32_t"),
        )  # fmt: skip

    def _matmul(self, step: NetworkStep) -> list[str]:
        name = step.name
        return self._checked(
            "matmul", "host", self._product(step), self._batch(step),
            *(self._read(step.inputs[operand]) for operand in "xy"),
            self._write(f"{name}:codes", "int8_t"), self._write(f"{name}:row_scales", "float"),
            self._write(f"{name}:column_scales", "float"), self._write(step.output, "float"),
        )  # fmt: skip

    # -- elements that move -------------------------------------------------------------------

    def _copy(
        self, x: str, output: str, shape: Sequence[int], steps: Sequence[int],
        to: Sequence[int], start: int = 0, target: int = 0,
    ) -> list[str]:  # fmt: skip
        """Return a copy of elements, by steps in both arrays from a first one on."""
        size = self._form(x)[1]
        walk = self._walk(shape, steps, to)
        source = f"(const uint8_t *){self._place(x)} + {start * size}u"
        sink = f"(uint8_t *){self._place(output)} + {target * size}u"
        return statement("copy", f"{math.prod(shape)}u", f"{size}u", f"&{walk}", source, sink)

    def _reshape(self, step: NetworkStep) -> list[str]:
        x, output = step.inputs["x"], step.output
        if self.compilation.place_of(output) != output:
            return []
        return [f"    memcpy({self._place(output)}, {self._place(x)}, {self.shapes.bytes(x)}u);"]

    def _transpose(self, step: NetworkStep) -> list[str]:
        x, shape = step.inputs["x"], self.shapes.shape(step.output)
        steps = strides_of(self.shapes.shape(x))
        moved = [steps[axis] for axis in step.attributes["order"]]
        return self._copy(x, step.output, shape, moved, strides_of(shape))

    def _expand(self, step: NetworkStep) -> list[str]:
        x, shape = step.inputs["x"], self.shapes.shape(step.output)
        steps = steps_of(self.shapes.shape(x), shape)
        return self._copy(x, step.output, shape, steps, strides_of(shape))

    def _slice(self, step: NetworkStep) -> list[str]:
        x, at, shape = step.inputs["x"], step.attributes, self.shapes.shape(step.output)
        steps, start = list(strides_of(self.shapes.shape(x))), 0
        for axis, first, each in zip(at["axes"], at["starts"], at["steps"], strict=True):
            start += first * steps[axis]
            steps[axis] *= each
        return self._copy(x, step.output, shape, steps, strides_of(shape), start)

    def _pad(self, step: NetworkStep) -> list[str]:
        x, at, shape = step.inputs["x"], step.attributes, self.shapes.shape(step.output)
        dtype = self.shapes.type(x)
        value = np.dtype(dtype).type(at["value"])
        text = number(value) if dtype == "float32" else integer(int(value))
        table = self._table(f"static const {C_TYPES[dtype]} $ = {text};", "value")
        size = self._form(x)[1]
        strides = strides_of(shape)
        target = sum(before * each for before, each in zip(at["before"], strides, strict=True))
        fill = statement("fill", f"{math.prod(shape)}u", f"{size}u", f"&{table}",
                     self._place(step.output))  # fmt: skip
        inside = self.shapes.shape(x)
        return fill + self._copy(x, step.output, inside, strides_of(inside), strides, 0, target)

    def _concat(self, step: NetworkStep) -> list[str]:
        shape, size = self._form(step.output)
        axis = step.attributes["axis"] % len(shape)
        rows, every = math.prod(shape[:axis]), math.prod(shape[axis:]) * size
        lines, at = [], 0
        for index in range(len(step.inputs)):
            x = step.inputs[f"x{index}"]
            part = math.prod(self.shapes.shape(x)[axis:]) * size
            sink = f"(uint8_t *){self._place(step.output)} + {at}u"
            lines += statement("join", f"{rows}u", f"{part}u", f"{every}u", self._place(x), sink)
            at += part
        return lines

    def _gather(self, step: NetworkStep) -> list[str]:
        x, indices = step.inputs["x"], step.inputs["indices"]
        shape, size = self._form(x)
        axis = step.attributes["axis"] % len(shape)
        places, width = self._form(indices)
        outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :]) * size
        return self._checked(
            "gather", f"{outer}u", f"{shape[axis]}", f"{inner}u", f"{math.prod(places)}u",
            f"{width}u", *map(self._place, (indices, x, step.output)),
        )  # fmt: skip

    def _gather_nd(self, step: NetworkStep) -> list[str]:
        x, indices = step.inputs["x"], step.inputs["indices"]
        shape, size = self._form(x)
        places, width = self._form(indices)
        axes = places[-1]
        lengths = ", ".join(str(length) for length in shape[:axes])
        table = self._table(f"static const int64_t $[] = {{{lengths}}};", "lengths")
        numbers = (axes, math.prod(shape[axes:]) * size, math.prod(places[:-1]), width)
        return self._checked("gather_places", table, *(f"{n}u" for n in numbers),
                             *map(self._place, (indices, x, step.output)))  # fmt: skip


def statement(name: str, *arguments: str) -> list[str]:
    """Return a statement that calls a function."""
    return [f"    {name}({wrapped_list(arguments, ' ' * 8).strip()});"]


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the stride of each axis, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def steps_of(shape: Sequence[int], whole: Sequence[int]) -> tuple[int, ...]:
    """Return the same of an array that is repeated to another shape."""
    spare = len(whole) - len(shape)
    own = [0 if n == 1 else each for n, each in zip(shape, strides_of(shape), strict=True)]
    return (*[0] * spare, *own)


def _joined(
    shape: Sequence[int], steps: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Return axes without those of one element, neighbours joined that lie behind one another."""
    lengths: list[int] = []
    result: list[list[int]] = [[] for _ in steps]
    for axis, length in enumerate(shape):
        if length == 1:
            continue
        here = [each[axis] for each in steps]
        if lengths and all(
            row[-1] == step * length for row, step in zip(result, here, strict=True)
        ):
            lengths[-1] *= length
            for row, step in zip(result, here, strict=True):
                row[-1] = step
            continue
        lengths.append(length)
        for row, step in zip(result, here, strict=True):
            row.append(step)
    return lengths, result
