# SPDX-License-Identifier: Apache-2.0
"""Configuration files: what is accepted, and what is said about everything else."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from flows.build.load import load_config, parse_config
from hwgen.config.document import MAX_DEPTH, core_scalar
from hwgen.config.dotted import flattened, nested
from hwgen.config.parameters import either, parameters, ranges
from hwgen.core.registry import families
from hwgen.errors import ConfigError, InputError
from hwgen.reports.configuration import json_schema, markdown, overview, template
from sim_tests.support.paths import ROOT

SHIPPED = sorted((ROOT / "configs").glob("*.yaml"))
HEAD = "name: core\nfamily: systolic\n"


def said(text: str | bytes) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "lut.yaml")
    assert caught.value.exit_status == 2
    assert caught.value.problems
    return str(caught.value)


# Each case: the text after HEAD, and the whole of what must be said about it.
FIELDS = {
    "bound": ("\n\n\narray:\n  rows: 0", r"7:3: array\.rows: must be 1\.\.256, not 0"),
    "bound of a number": (
        "target: {clock_mhz: 5001.5}",
        r"3:10: target\.clock_mhz: must be 1\.\.5000, not 5001\.5",
    ),
    "huge integer": (
        f"max_k: {'9' * 60}",
        r"3:1: max_k: must be 1\.\.16777216, not 9+\.\.\.9+",
    ),
    "integer beyond reading": (
        f"max_k: {'9' * 5000}",
        r"3:8: a number of 5000 characters is too long",
    ),
    "quoted integer": (
        'array: {rows: "8"}',
        r"3:9: array\.rows: must be an integer, not the text '8'; remove the quotes",
    ),
    "text": (
        "array: {rows: eight}",
        r"3:9: array\.rows: must be an integer, not the text 'eight'",
    ),
    "fraction": ("array: {rows: 8.0}", r"3:9: array\.rows: must be an integer, not 8\.0"),
    "boolean": ("array: {rows: true}", r"3:9: array\.rows: must be an integer, not true"),
    "boolean for a number": (
        "target: {clock_mhz: false}",
        r"3:10: target\.clock_mhz: must be a number, not false",
    ),
    "null": (
        "array:\n  rows:\n",
        (
            r"4:3: array\.rows: must be an integer, not null \(nothing\);"
            r" give a value, or remove the line for the default"
        ),
    ),
    "list for a value": ("array: {rows: [8]}", r"3:9: array\.rows: must be an integer, not a list"),
    "group for a value": (
        "array: {rows: {a: 8}}",
        r"3:9: array\.rows: must be an integer, not a group of keys",
    ),
    "list for a group": (
        "pipeline: [1]",
        r"3:1: pipeline: must hold parameters \(pe, final_adder\), not a list",
    ),
    "text for a group": (
        "pipeline: one",
        r"3:1: pipeline: must hold parameters \(pe, final_adder\), not 'one'",
    ),
    "nan": (
        "target: {clock_mhz: .nan}",
        r"3:10: target\.clock_mhz: must be a finite number, not \.nan",
    ),
    "infinity": (
        "target: {clock_mhz: -.inf}",
        r"3:10: target\.clock_mhz: must be a finite number, not -\.inf",
    ),
    "nan for an integer": ("max_k: .nan", r"3:1: max_k: must be an integer, not \.nan"),
    "choice": (
        "array: {dataflow: out_stationary}",
        (
            r"3:9: array\.dataflow: must be output_stationary, weight_stationary or"
            r" input_stationary, not 'out_stationary' \(did you mean 'output_stationary'\?\)"
        ),
    ),
    "YAML 1.1 boolean": ("overflow: on", r"3:1: overflow: must be wrap or saturate, not 'on'"),
    "number for a choice": ("overflow: 1", r"3:1: overflow: must be wrap or saturate, not 1"),
    "format": (
        "activation: in8",
        (
            r"3:1: activation: must be int2\.\.int16, uint2\.\.uint16, ternary, fp16, .*, not 'in8'"
            r" \(did you mean 'int8'\?\)"
        ),
    ),
    "union": (
        "accumulator: exat",
        (
            r"3:1: accumulator: must be exact, int2\.\.int64, uint2\.\.uint64, fp32,"
            r" aligned\(n\) or aligned\(n, m\) with n of 1\.\.48 and m of 1\.\.23,"
            r" or hopper, ada or blackwell, not 'exat'"
            r" \(did you mean 'exact'\?\)"
        ),
    ),
    "unknown key": (
        "array:\n  colls: 3",
        (
            r"4:3: array\.colls: unknown key \(did you mean 'cols'\?\);"
            r" legal here: rows, cols, dataflow, pe, .*"
        ),
    ),
    "key of another group": (
        "rows: 3",
        r"3:1: rows: unknown key \(it belongs under 'array'\); legal here: name, family, .*",
    ),
    "rule": (
        "weight: int2\naccumulator: uint8",
        (
            r"4:1: accumulator: must be signed because int8 x int2 products reach -254;"
            r" use int8 or exact"
        ),
    ),
    "rule about a nested field": (
        "array:\n  rows: 4\n  accumulator_depth: 4",
        (
            r"5:3: array\.accumulator_depth: only weight_stationary and input_stationary have an"
            r" accumulator memory; remove it, or change array\.dataflow"
        ),
    ),
    "long value": (f"overflow: {'x' * 5000}", r"3:1: overflow: .*, not 'x{30}\.\.\.x{7}'"),
    "control characters": (
        'overflow: "\\e[31m\\n"',
        r"3:1: overflow: must be wrap or saturate, not '\\x1b\[31m\\n'",
    ),
    "control characters in a key": ('"\\e[31m": 1', r"3:1: '\\x1b\[31m': unknown key; .*"),
    "empty key": ("'': 1", r"3:1: '': unknown key; .*"),
    "duplicate key": ("max_k: 1\nmax_k: 2", r"4:1: the key 'max_k' is already on line 3"),
    "integer key": ("1: 2", r"3:1: a key must be text, not a number, boolean or null"),
    "list as key": ("? [a]\n: 2", r"3:3: a key must be text, not a list or mapping"),
    "merge key": (
        "<<: {max_k: 2}",
        r"3:1: merge keys \(<<\) are not supported; write the keys out",
    ),
    "tag": ("max_k: !!int 8", r"3:8: tags are not supported; remove '!!int'"),
    "object tag": (
        "overflow: !!python/name:os.system ''",
        r"3:11: tags are not supported; remove '!!python/name:os\.system'",
    ),
    "surrogate": (
        'overflow: "\\ud800"',
        r"3:11: half of a surrogate pair is not a character",
    ),
    "two documents": ("---\na: 1", r"3:1: a second document begins; a file holds one"),
    "tab": ("array:\n\trows: 1", r"4:1: not valid YAML: a tab; indent with spaces"),
    "syntax": ("array: {rows: 1", r"3:16: not valid YAML: expected ',' or '}'.*"),
    "alias of nothing": ("max_k: *a", r"3:8: the alias \*a names no anchor above"),
    "alias in itself": ("array: &a [*a]", r"3:12: the alias \*a stands inside what it names"),
    "deep": ("array: " + "[" * 10_000, r"3:\d+: nested deeper than 32 levels"),
    "many": (
        f"array: [{'1,' * 20_000}]",
        r"3:\d+: more than 10000 values \(aliases expanded\)",
    ),
    "unprintable": ("max_k: \0", r"3:8: unprintable character U\+0000"),
    "bad escape": ('max_k: "\\UFFFFFFFF"', r"3:\d+: not valid YAML: .*"),
}


@pytest.mark.parametrize(("text", "expected"), FIELDS.values(), ids=FIELDS.keys())
def test_each_error(text: str, expected: str) -> None:
    message = said(HEAD + text)
    assert re.fullmatch(f"lut\\.yaml:{expected}", message), message


WHOLE = {
    "empty": (b"", r":1:1: empty; `hwgen init FAMILY` writes a template"),
    "only a comment": (b"# x\n", r":1:1: empty; .*"),
    "list": (b"- a\n", r":1:1: must hold `key: value` lines, not a list"),
    "value": (b"a\n", r":1:1: must hold `key: value` lines, not a single value"),
    "large": (b"#" * 10_000_000, r": larger than 64 KiB"),
    "UTF-16": ("a: 1".encode("utf-16"), r":1:1: not UTF-8: byte 0xff; save it as UTF-8"),
    "Latin-1": (b"a: 1\nb: \xe9\n", r":2:4: not UTF-8: byte 0xe9; save it as UTF-8"),
    "no family": (b"name: a", r":1:1: family: missing; add `family: adder_tree` \(there is: .*\)"),
    "unknown family": (
        b"family: sistolic",
        r":1:1: family: must be adder_tree, .*, not 'sistolic' \(did you mean 'systolic'\?\)",
    ),
    "family of another type": (b"family: [a]", r":1:1: family: must be adder_tree, .*, not a list"),
    "no name": (
        b"# x\nfamily: systolic",
        r":2:1: name: missing; add `name: \.\.\.` \(Name of the top module .*\)",
    ),
    "name": (b"family: systolic\nname: 9", r":2:1: name: must be text, not 9"),
    "reserved name": (
        b"family: systolic\nname: module",
        r":2:1: name: must not be 'module', a reserved word of .*; try 'module_core'",
    ),
    "malformed name": (b"family: systolic\nname: a-b", r":2:1: name: must be a letter .* 'a-b'"),
}


@pytest.mark.parametrize(("text", "expected"), WHOLE.values(), ids=WHOLE.keys())
def test_each_error_of_a_whole_file(text: bytes, expected: str) -> None:
    message = said(text)
    assert re.fullmatch(f"lut\\.yaml{expected}", message), message


@pytest.mark.parametrize("name", families())
def test_a_wrong_value_is_said_of_a_field(name: str) -> None:
    """Also where a default follows from it, which the file does not hold."""
    refused = []
    for path, parameter in parameters(families()[name].params_class).items():
        if parameter.is_group or path in ((), ("name",), ("family",)):
            continue
        values: tuple[object, ...] = ("fp16", "ternary", "int99", -1, 2.5, True, [], {})
        for value in values:
            data = value
            for key in reversed(path):
                data = {key: data}
            assert isinstance(data, dict)
            try:
                parse_config(yaml.safe_dump({"name": "core", "family": name, **data}))
            except ConfigError as error:
                refused.append(error)
    assert len(refused) > 20
    assert [str(e) for e in refused if not all(p.field for p in e.problems)] == []


def test_what_follows_from_a_wrong_value_is_not_said() -> None:
    text = said(HEAD + "activation: fp17")
    expected = r"lut\.yaml:3:1: activation: must be int2\.\.int16, .*, not 'fp17' \(.*\)"
    assert re.fullmatch(expected, text), text


def test_all_problems_at_once_in_order_of_position() -> None:
    message = said(
        HEAD
        + "array: {rows: 0, cols: '4', pipe: 1}\n"
        + "max_k: 1\nmax_k: 2\nweight: int99\naccumulator: !x exact\n"
    )
    places = [line.split(": ")[0] for line in message.splitlines()]
    assert places == [f"lut.yaml:{p}" for p in ("3:9", "3:18", "3:29", "5:1", "6:1", "7:14")]


def test_all_broken_rules_at_once() -> None:
    text = "array: {accumulator_depth: 4}\naccumulator: uint32\n"
    assert [line[:13] for line in said(HEAD + text).splitlines()] == [
        "lut.yaml:3:9:",
        "lut.yaml:4:1:",
    ]


def test_many_problems_are_cut_short() -> None:
    lines = said(HEAD + "".join(f"k{i}: 1\n" for i in range(4000))).splitlines()
    assert len(lines) == 51
    assert lines[-1] == "lut.yaml: and 3950 more problems"


def test_alias_bomb() -> None:
    levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    assert "more than 10000 values" in said("a0: &a0 [x]\n" + "\n".join(levels))


def test_alias_adds_its_own_depth() -> None:
    half = MAX_DEPTH // 2 + 4
    nest = "[" * half + "{}" + "]" * half
    assert "by an alias" in said(f"a: &a {nest.format('1')}\nb: {nest.format('*a')}\n")


def test_values_are_not_converted_but_integers_are_numbers() -> None:
    config = parse_config(HEAD + "target: {clock_mhz: 250}\narray: &a\n  rows: 010\n")
    assert config.resolved()["target"]["clock_mhz"] == 250.0
    assert config.resolved()["array"]["rows"] == 10


def test_an_alias_repeats_a_value_and_its_errors_stand_where_they_are_used() -> None:
    assert parse_config(HEAD + "activation: &f int4\nweight: *f\n").resolved()["weight"] == "int4"
    assert said(HEAD + "max_k: &n 0\narray: {rows: *n}").splitlines()[1].startswith("lut.yaml:4:9:")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("true", True), ("False", False), ("yes", "yes"),
        ("on", "on"), ("010", 10), ("0o17", 15), ("0x1F", 31), ("1:30", "1:30"), ("1_000", "1_000"),
        ("-7", -7), ("1e3", 1000.0), (".5", 0.5), ("2.", 2.0), ("2001-01-01", "2001-01-01"),
        ("+.inf", float("inf")), ("=", "="), ("0b1", "0b1"),
    ],
)  # fmt: skip
def test_core_schema(text: str, value: object) -> None:
    assert core_scalar(text) == value
    assert type(core_scalar(text)) is type(value)


def test_missing_file_directory_and_odd_names(tmp_path: Path) -> None:
    for path in (tmp_path / "none.yaml", tmp_path, Path("/dev/null/x"), "a\0b"):
        with pytest.raises(ConfigError, match=r"cannot be read: |empty;"):
            load_config(path)
    with pytest.raises(ConfigError, match="larger than 64 KiB"):
        load_config("/dev/zero")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_shipped_configuration(path: Path) -> None:
    config = load_config(path)
    assert config.name == path.stem
    again = parse_config(yaml.safe_dump(config.resolved()))
    assert again.resolved() == config.resolved()
    assert again.digest == config.digest


# -- what is made from the models ----------------------------------------------------------------


@pytest.mark.parametrize("name", families())
def test_template_is_every_default(name: str) -> None:
    text = template(name)
    config = parse_config(text, "template")
    model = families()[name].params_class
    assert config.resolved() == model.model_validate({"name": f"{name}_core"}).resolved()
    for parameter in parameters(model).values():
        if parameter.path:
            assert re.search(rf"(?m)^ *(# )?{parameter.path[-1]}:", text), parameter.field
    assert max(map(len, text.splitlines())) <= 100


def test_template_names_the_core_and_refuses_a_bad_name() -> None:
    assert parse_config(template("systolic", "mine")).name == "mine"
    with pytest.raises(InputError, match=r"^the name of the core must not be 'module'"):
        template("systolic", "module")
    with pytest.raises(InputError, match=r"^no family is called 'x'; there is: .*systolic"):
        template("x")


SAMPLES = [
    "max_k: 4", "array: {rows: 256, cols: 1}", "activation: uint16\nweight: int2", "target: {}",
    "accumulator: int48\noverflow: saturate", "target: {technology: ecp5, clock_mhz: 33}",
    "array: {rows: 0}", "array: {rows: 257}", "array: {rows: '8'}", "array: {rows: true}",
    "array: {rows: 1.5}", "array: []", "array:", "array: {x: 1}", "x: 1", "activation: int17",
    "accumulator: 32", "overflow: clamp", "target: {clock_mhz: 0.5}", "target: {clock_mhz: fast}",
    "pipeline: {pe: 3}", "pipeline: {pe: 2}", "max_k: 16777217",
]  # fmt: skip


@pytest.mark.parametrize("text", SAMPLES)
def test_schema_accepts_what_the_tool_accepts(text: str) -> None:
    try:
        parse_config(HEAD + text)
        legal = True
    except ConfigError:
        legal = False
    validator = jsonschema.Draft202012Validator(json_schema())
    assert validator.is_valid(yaml.safe_load(HEAD + text)) == legal


def test_schema_is_valid_and_knows_families_and_defaults() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for path in SHIPPED:
        validator.validate(yaml.safe_load(path.read_text()))
    for text in ("{}", "name: a", "family: systolic", "{name: a, family: x}", "[]"):
        assert not validator.is_valid(yaml.safe_load(text))
    systolic = schema["$defs"]["systolic"]["properties"]
    assert systolic["activation"]["default"] == "int8"
    assert schema["$defs"]["systolic.Array"]["properties"]["rows"]["maximum"] == 256


def test_reference_page_is_current() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == markdown(), "run: python -m hwgen.reports.configuration > docs/configuration.md"


def test_every_parameter_is_described() -> None:
    for entry in overview():
        for parameter in entry["parameters"]:
            assert parameter["description"].endswith("."), parameter["name"]
            assert parameter["allowed"], parameter["name"]


def test_words() -> None:
    assert either([]) == ""
    assert either(["a"]) == "a"
    assert either(["a", "b", "c"]) == "a, b or c"
    assert ranges(["x1", "x2", "y", "x3", "x4", "x5", "x9"]) == ["x1", "x2", "y", "x3..x5", "x9"]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_dotted_names_are_the_groups_of_a_file(path: Path) -> None:
    config = load_config(path)
    tree = {"name": config.name, "family": config.family, **nested(flattened(config.resolved()))}
    assert tree == config.resolved()
