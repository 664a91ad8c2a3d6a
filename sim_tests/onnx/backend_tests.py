# SPDX-License-Identifier: Apache-2.0
"""The tests that the `onnx` package has for each operator, against the float reference.

``python -m sim_tests.onnx.backend_tests`` runs them and writes `docs/onnx-backend-tests.md`.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from hwgen.errors import InputError
from hwgen.models.files.store import Model
from hwgen.models.onnx.file import WIDENED
from hwgen.models.onnx.import_onnx import import_onnx
from hwgen.models.onnx.operator_table import OPERATORS
from hwgen.models.run.tensor_engine import TensorEngine

PAGE = Path("docs/onnx-backend-tests.md")
_HEAD = """# Tests of ONNX operators

The `onnx` package ({version}) brings tests for each of ONNX's operators. `make onnx-tests` imports
each of their networks, runs it by the float reference, and compares the results within the
tolerances of the test; types of 16 bits and float64 are computed in others, and expected results
converted to these. What is an input there and must be known at import is made a constant. Not
supported are tests that the import refuses; the reasons are those of its messages.
[Supported operators](supported-operators.md) lists what is read of each operator.

| operator | passed | failed | not supported | reasons |
| --- | --- | --- | --- | --- |
"""


@dataclass
class Outcome:
    """Results of the tests of an operator.

    Parameters
    ----------
    passed : int
    failed : list of str
        Names of tests.
    reasons : Counter
        Why tests are not supported.
    """

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


def cases() -> list[Any]:
    """Return the tests of nodes."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(load_model_tests(kind="node"))


def operator_of(case: Any) -> str | None:
    """Return the operator of the table that a test is for, None if it is for another one."""
    nodes = [node for node in case.model.graph.node if node.op_type != "Constant"]
    nodes = nodes or list(case.model.graph.node)
    names = {node.op_type for node in nodes}
    if len(nodes) == 1:
        (name,) = names
        return name if name in OPERATORS and not nodes[0].domain else None
    return "several operators" if names <= set(OPERATORS) else None


def run(case: Any) -> str:
    """Run a test, and return what was wrong: nothing, ``!`` and a difference, or a refusal."""
    inputs, outputs = case.data_sets[0]
    reason = ""
    for free in (len(inputs), 1, 0):
        try:
            result = _results(case.model, inputs, free)
        except InputError as error:
            reason = reason or short(str(error))
            continue
        for one, expected in zip(result, outputs, strict=True):
            if isinstance(expected, onnx.TensorProto):
                expected = numpy_helper.to_array(expected)
            expected = _widened(np.asarray(expected))
            if one.dtype != expected.dtype or one.shape != expected.shape:
                return f"!{one.dtype} {one.shape}, not {expected.dtype} {expected.shape}"
            if not np.allclose(one, expected, rtol=case.rtol, atol=case.atol, equal_nan=True):
                return "!other elements"
        return ""
    return reason


def _widened(array: np.ndarray) -> np.ndarray:
    """Return an array in the type that hwgen computes it in."""
    return array.astype(WIDENED.get(array.dtype.name, array.dtype))


def _results(model: Any, inputs: Sequence[Any], free: int) -> list[np.ndarray]:
    """Return the outputs of a model; all inputs but the first `free` ones become constants."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    feeds: dict[str, Any] = {}
    for index, (value, array) in enumerate(zip([*graph.input], inputs, strict=True)):
        if index >= free:
            graph.input.remove(value)
            tensor = array if isinstance(array, onnx.TensorProto) else (
                numpy_helper.from_array(np.asarray(array), value.name))  # fmt: skip
            graph.initializer.add().CopyFrom(tensor)
            graph.initializer[-1].name = value.name
        else:
            if isinstance(array, onnx.TensorProto):
                array = numpy_helper.to_array(array)
            if not isinstance(array, (np.ndarray, np.generic)):
                raise InputError("inputs that are no tensors")
            feeds[value.name] = _widened(np.asarray(array))
    if not free:
        _depend(graph, feeds)
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "net.onnx", Path(folder) / "model"
        path.write_bytes(copy.SerializeToString())
        out.mkdir()
        import_onnx(path, out)
        engine = TensorEngine(Model(out))
        names = engine.description.inputs
        return list(engine.run(dict(zip(names, feeds.values(), strict=True))).values())


def _depend(graph: Any, feeds: dict[str, Any]) -> None:
    """Add a zero that is an input to each output, so that none is known at import."""
    for index, value in enumerate(graph.output):
        kind = value.type.tensor_type.elem_type
        if kind not in (1, 6, 7, 9):
            continue
        name, old = f"zero{index}", value.name
        value.name = f"{old}.sum"
        graph.input.append(helper.make_tensor_value_info(name, kind, []))
        feeds[name] = np.zeros((), helper.tensor_dtype_to_np_dtype(kind))
        graph.node.append(helper.make_node("Or" if kind == 9 else "Add", [old, name], [value.name]))


def short(text: str) -> str:
    """Return the first reason of a refusal, without names and numbers of the test."""
    lines = text.splitlines()
    line = lines[1] if len(lines) > 1 else lines[0]
    line = re.sub(r"^ *(node|input|output) '[^']*'(, [\w:.]+)?: ", "", line)
    line = re.sub(r"^.*: refused by the onnx package: ", "refused by onnx: ", line)
    line = re.sub(r"\(node_name: [^)]*\)|\s*\([A-Z]\w+: .*\)$", "", line)
    line = re.sub(r"^([\w:]+) \('.*'\) is not supported.*", r"\1 inside of it", line)
    line = re.sub(r"'[^']*/net.onnx'|/\S*net.onnx", "the file", line)
    line = re.sub(r"\(\d[\d, ]*\)|(?<!\w)-?\d+(\.\d+)?(e-?\d+)?(?!\w)", "n", line).partition(";")[0]
    return line.replace("|", "\\|").strip()[:110]


def outcomes(tests: Iterable[Any]) -> dict[str, Outcome]:
    """Return the results of tests by operator."""
    result: dict[str, Outcome] = defaultdict(Outcome)
    for case in tests:
        name = operator_of(case)
        if name is None:
            continue
        reason = run(case)
        if not reason:
            result[name].passed += 1
        elif reason.startswith("!"):
            result[name].failed.append(f"{case.name}: {reason[1:]}")
        else:
            result[name].reasons[reason] += 1
    return result


def page(result: dict[str, Outcome]) -> Iterator[str]:
    """Return the lines of the page."""
    yield from _HEAD.format(version=version("onnx")).splitlines()
    for name, each in sorted(result.items()):
        refused = "; ".join(f"{count}: {reason}" for reason, count in each.reasons.most_common(6))
        failed = "; ".join(each.failed)
        text = "; ".join(part for part in (failed, refused) if part)
        yield (
            f"| `{name}` | {each.passed} | {len(each.failed)} | {each.reasons.total()} | {text} |"
        )
    passed = sum(each.passed for each in result.values())
    failed_count = sum(len(each.failed) for each in result.values())
    refused_count = sum(each.reasons.total() for each in result.values())
    yield f"| in all | {passed} | {failed_count} | {refused_count} | |"


def main() -> int:
    """Run all tests, write the page, and say what failed."""
    result = outcomes(cases())
    PAGE.write_text("\n".join(page(result)) + "\n", encoding="utf-8")
    failed = [text for each in result.values() for text in each.failed]
    sys.stdout.write("\n".join([*failed, f"{len(failed)} failed; written: {PAGE}"]) + "\n")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
