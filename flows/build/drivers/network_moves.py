# SPDX-License-Identifier: Apache-2.0
"""Statements of a network on arrays that move elements and compute nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from flows.build.drivers.host_tables import C_TYPES, integer, number
from flows.build.drivers.network_text import NetworkText, statement, steps_of, strides_of

if TYPE_CHECKING:
    from hwgen.models.compile.network_compilation import NetworkStep


class Moves(NetworkText):
    """A method for each operation that only moves."""

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
