# SPDX-License-Identifier: Apache-2.0
"""C of a network on arrays that is compiled to jobs: the engine's driver, and its host."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from flows.build.drivers import driver
from flows.build.drivers.c_templates import filled, wrapped_list
from flows.build.files import c_header
from flows.build.drivers.host_driver import exponential_fields
from flows.build.drivers.host_tables import C_TYPES, expression, integer, number, requantised
from flows.build.drivers.model_facts import job_facts, model_facts
from flows.build.drivers.network_moves import Moves
from flows.build.drivers.network_text import statement, steps_of, strides_of
from hwgen.models.run import host_arithmetic, host_functions
from hwgen.models.compile.network_compilation import COLUMNS, ROWS, SUMS, NetworkStep
from hwgen.models.compile.network_steps import AXES

if TYPE_CHECKING:
    from hwgen.models.compile.network_compilation import NetworkCompilation

_ELEMENTS = (
    "unary", "binary", "add", "where", "clip", "cast", "quantise_linear", "dequantise_linear",
    "requantise", "linear",
)  # fmt: skip
_OPERANDS = ("condition", "x", "y", "scale", "zero")
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_SAID = re.compile(r"/\*.*?\*/|->\w+", re.DOTALL)
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
    config = compilation.config
    text = filled(config, "host_infer", _Emission(compilation).values())
    return {
        f"{config.name}_regs.h": c_header(config),
        **driver.driver(config),
        **text,
    }


def names_in_c(names: Sequence[str]) -> list[str]:
    """Return names that C and C++ take, each once."""
    found: list[str] = []
    for name in names:
        text = re.sub(r"\W", "_", name, flags=re.ASCII)
        if not text or text[0].isdigit() or text in _KEYWORDS:
            text = f"_{text}" if text and text[0] != "_" else f"a{text}"
        first, count = text, 1
        while text in found:
            count += 1
            text = f"{first}_{count}"
        found.append(text)
    return found


class _Emission(Moves):
    """Makes the parts of the program that are the network's own."""

    def values(self) -> dict[str, str]:
        """Return what the template's places are filled with."""
        body = "\n".join(self._body())
        tables = "".join(text.replace("$", name) + "\n" for text, name in self.tables.items())
        functions = "\n".join(text.replace("$", name) for text, name in self.functions.items())
        numbers = {
            key: repr(getattr(host_functions, key))
            for key in ("SMALL", "ROOT_2", "ERF_BOUND", "ERF_TERMS", "ERF_DEPTH", "ERF_FACTOR",
                        "ROOT_PI", "INVERSE_ROOT_2", "TANH_MOST", "TURN_MOST", "TWO_OVER_PI",
                        "CUBE", "TWICE_ROOT")
        }  # fmt: skip
        tuples = {
            key: wrapped_list([repr(each) for each in getattr(host_functions, key)], " " * 8)
            for key in ("LESS_ONE", "RATIO", "SINE", "COSINE")
        }
        inputs, outputs = self.compilation.description.inputs, self.compilation.description.outputs
        return {
            "FACTS": self._facts(),
            "INPUTS": self._members(inputs, "const "),
            "OUTPUTS": self._members(outputs, ""),
            "AXES": str(AXES),
            "ADDRESSES": "\n".join(
                f"#define {name.upper()} UINT64_C({self.compilation.memory.at(name):#x})"
                for name in (ROWS, COLUMNS, SUMS) if name in self.compilation.memory.arrays
            ),
            "HELPERS": self._helpers(body + tables + functions) + functions,
            "TABLES": tables,
            "BODY": body,
            **numbers,
            **tuples,
            **{f"HALF_PI_{i}": repr(part) for i, part in enumerate(host_functions.HALF_PI)},
            **exponential_fields(),
            "CODE_STEP": number(np.float32(1 / host_arithmetic.CODE_MOST)),
        }  # fmt: skip

    def _helpers(self, text: str) -> str:
        """Return the sections that a text names, and those that they name."""
        wanted: set[str] = set()
        names = _names_in(text)
        while names:
            new = names & set(self.sections) - wanted
            wanted |= new
            names = {word for name in new for word in _names_in(self.sections[name])} - wanted
        return "".join(part for name, part in self.sections.items() if name in wanted)

    def _facts(self) -> str:
        """Return the sizes that a user of the header sees."""
        document = self.compilation.document()
        return model_facts(self.compilation.config, document, job_facts(document))

    def _members(self, names: Sequence[str], const: str) -> str:
        lines = []
        for name, member in zip(names, names_in_c(names), strict=True):
            sizes = " x ".join(map(str, self.shapes.shape(name))) or "one number"
            kind = C_TYPES[self.shapes.type(name)]
            shown = re.sub(r"[^ -~]|\*/|[@$\\?]", "_", name)
            lines.append(f"    {const}{kind} *{member}; /* {shown}: {sizes} */")
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
        parameters = {step.inputs.get("scale"), step.inputs.get("zero")}
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
            kind = C_TYPES[dtype]
            parameters.append(f"const {kind} *{'xyw'[place]}")
            at = "i" if plain else f"here.places[{place}]"
            if re.search(rf"\b{letter}\b", text):
                reads.append(f"        const {kind} {letter} = {'xyw'[place]}[{at}];\n")
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
        arguments += [f"(const {C_TYPES[kind]} *){self._place(each)}"
                      for each, kind in zip(operands, types, strict=True)]  # fmt: skip
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
        kind = C_TYPES[dtype]
        if name in ("largest", "least"):
            order = ">" if name == "largest" else "<"
            function = self._instance("reduced_largest", TYPE=kind, ORDER=order)
        else:
            wide = "double" if dtype == "float32" else "uint64_t"
            found = "found / (double)count" if name == "mean" else "found"
            function = self._instance("reduced_sum", TYPE=kind, RESULT=kind, WIDE=wide, FOUND=found)
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
        from hwgen.models.run.tensor_operations import window_counts

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
        least = "(float)double_of(UINT64_C(0xFFF0000000000000))"
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
        from hwgen.families.gemm_stream.jobs import weight_stride

        product = step.product
        assert product is not None
        stride = 0 if product.constant else weight_stride(self.compilation.plan(product))
        numbers = (step.job, product.parts, product.m, product.k, product.n, stride)
        text = ", ".join(f"{n}u" for n in numbers)
        return f"&{self._table(f'static const product $ = {{{text}}};', 'product')}"

    def _zero(self, step: NetworkStep, operand: str) -> tuple[str, str]:
        """Return what makes int8 of an operand, and its zero point then."""
        less = 128 if self.shapes.type(step.inputs[operand]) == "uint8" else 0
        zero = step.inputs.get(f"{operand}_zero")
        text = "0" if zero is None else f"(int32_t)({self._read(zero)})[0]"
        return f"{less}u", f"{text} - {less}"

    def _optional(self, step: NetworkStep, operand: str, kind: str) -> str:
        return self._read(step.inputs[operand], kind) if operand in step.inputs else "NULL"

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


def _names_in(text: str) -> set[str]:
    """Return the words of a program, without comments and members."""
    return set(_WORD.findall(_SAID.sub("", text)))
