# SPDX-License-Identifier: Apache-2.0
"""Whatever a configuration file holds: a valid configuration or a `ConfigError`, soon.

The campaign has more than 2,000 examples: random text and bytes, shipped files with random edits,
structured documents over the real field names with wrong values, and files made to exhaust
memory, time or the stack.  Every example goes the way of ``hwgen build`` as well: a file that is
refused leaves no output directory behind.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flows.build.load import load_config, parse_config
from hwgen.cli import cli, main
from hwgen.cli.support.outputs import atomic_directory
from hwgen.config.parameters import parameters
from hwgen.core.params.base import FamilyConfig
from hwgen.core.registry import families
from hwgen.errors import ConfigError, InputError
from sim_tests.support.paths import ROOT

SECONDS = 5.0
SHIPPED = [p.read_bytes() for p in sorted((ROOT / "configs").glob("*.yaml"))]
PARAMETERS = [p for f in families().values() for p in parameters(f.params_class).values() if p.path]
POSITION = re.compile(r"f\.yaml(:[1-9]\d*:[1-9]\d*)?: \S.*")


def campaign(examples: int) -> Any:
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def check(content: bytes | str) -> FamilyConfig | None:
    """Return the configuration, None if it is refused as a user expects; fail otherwise."""
    start = time.monotonic()
    refused: ConfigError | None = None
    config: FamilyConfig | None = None
    try:
        config = parse_config(content, "f.yaml")
    except ConfigError as error:
        refused = error
    assert time.monotonic() - start < SECONDS
    if refused is not None:
        assert 0 < len(refused.problems) <= 60
        for line in str(refused).split("\n"):
            assert POSITION.fullmatch(line), line
            assert line.isprintable(), line
            assert len(line) < 1000, line
    return config


# -- random text ---------------------------------------------------------------------------------

KEYS = sorted({key for p in PARAMETERS for key in p.path})
YAML = r"""
systolic int8 uint4 exact wrap 16 0 -1 8.0 .nan -.inf 1e999 true null ~ : - ? , [ ] { } # ' "
| > &a *a !!int !x ! <<: --- ... %YAML %TAG ` @ "\x1b" "\ud800" "\UFFFFFFFF" é
"""
PIECES = st.sampled_from(
    [
        *KEYS,
        *YAML.split(),
        *(f"{word} " for word in YAML.split()),
        *("\n", "\n  ", "\n    ", "\t", " ", "\r", "\0", "\x85", "\u2028", "\ufeff", "\ud800"),
        *("|\n", ">-\n", "---\n", "9" * 400, "0x" + "f" * 30, "\U0001f600"),
    ]
)


@campaign(400)
@given(st.text(max_size=300))
def test_random_text(text: str) -> None:
    check(text)


@campaign(500)
@given(st.lists(PIECES, max_size=60).map("".join))
def test_random_yaml(text: str) -> None:
    check(text)
    check("name: core\nfamily: systolic\n" + text)


@campaign(300)
@given(st.binary(max_size=400))
def test_random_bytes(content: bytes) -> None:
    check(content)


# -- mutated files -------------------------------------------------------------------------------

EDIT = st.tuples(
    st.floats(0, 1),
    st.integers(0, 12),
    st.one_of(PIECES.map(lambda s: s.encode(errors="surrogatepass")), st.binary(max_size=3)),
)


def mutated(content: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    for where, length, new in edits:
        start = int(where * len(content))
        content = content[:start] + new + content[start + length :]
    return content


@campaign(700)
@given(st.sampled_from(SHIPPED), st.lists(EDIT, min_size=1, max_size=4))
def test_mutated_files(content: bytes, edits: list[tuple[float, int, bytes]]) -> None:
    check(mutated(content, edits))


# -- structured documents ------------------------------------------------------------------------

VALUES = st.one_of(
    st.integers(-3, 300),
    st.integers(),
    st.integers(-(10**80), 10**80),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=60),
    st.sampled_from([c for p in PARAMETERS for c in p.choices] + KEYS),
    st.recursive(
        st.one_of(st.integers(), st.text(max_size=4)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)
        ),
        max_leaves=12,
    ),
)
ENTRIES = st.lists(st.tuples(st.sampled_from(PARAMETERS), VALUES), max_size=10)


def document(entries: list[tuple[Any, Any]], extra: dict[Any, Any]) -> dict[Any, Any]:
    root: dict[Any, Any] = {"name": "core", "family": "systolic", **extra}
    for parameter, value in entries:
        group = root
        for key in parameter.path[:-1]:
            if not isinstance(group.get(key), dict):
                group[key] = {}
            group = group[key]
        group[parameter.path[-1]] = value
    return root


@campaign(600)
@given(ENTRIES, st.dictionaries(st.one_of(st.text(max_size=9), st.integers()), VALUES, max_size=2))
def test_structured_documents(entries: list[tuple[Any, Any]], extra: dict[Any, Any]) -> None:
    config = check(yaml.safe_dump(document(entries, extra), allow_unicode=True, width=1000))
    if config is not None:
        assert check(yaml.safe_dump(config.resolved())) == config


# -- files made to do harm -----------------------------------------------------------------------

LEVELS = "".join(f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 20))
HARMFUL: dict[str, bytes] = {
    name: text.encode()
    for name, text in {
        "alias bomb": "a0: &a0 [x, x]\n" + LEVELS,
        "alias bomb of mappings": "a0: &a0 {x: 1}\n"
        + "".join(
            f"a{i}: &a{i} {{{', '.join(f'k{j}: *a{i - 1}' for j in range(9))}}}\n"
            for i in range(1, 20)
        ),
        "ladder of aliases": "a0: &a0 [x]\n"
        + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, 3000)),
        "merge bomb": "a0: &a0 {x: 1}\n"
        + "".join(f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}\n" for i in range(1, 500)),
        "open lists": "a: " + "[" * 60_000,
        "open mappings": "{" * 60_000,
        "nested pairs": "[a: " * 15_000,
        "dashes": "- " * 30_000,
        "question marks": "? " * 30_000,
        "steps": "\n".join(" " * i + "a:" for i in range(350)),
        "many keys": "name: core\nfamily: systolic\n" + "".join(f"k{i}: 0\n" for i in range(4990)),
        "many wrong keys": "name: core\nfamily: systolic\narray:\n"
        + "".join(f"  rowss{i}: 0\n" for i in range(4000)),
        "many items": "name: core\nfamily: systolic\nmax_k: [" + "1," * 9_900 + "]",
        "duplicate keys": "a: 1\n" * 12_000,
        "tags": "".join(f"k{i}: !t{i} 1\n" for i in range(4000)),
        "long key": "? " + "k" * 60_000 + "\n: 1",
        "long value": "name: " + "n" * 60_000 + "\nfamily: systolic",
        "long family": "family: " + "systolic" * 7_000,
        "long integer": "name: core\nfamily: systolic\nmax_k: " + "9" * 60_000,
        "long hexadecimal": "name: core\nfamily: systolic\nmax_k: 0x" + "f" * 60_000,
        "long float": "name: core\nfamily: systolic\ntarget: {clock_mhz: 1." + "9" * 60_000 + "}",
        "long exponent": "name: core\nfamily: systolic\ntarget: {clock_mhz: 1e"
        + "9" * 60_000
        + "}",
        "long directive": "%YAML 1." + "9" * 60_000 + "\n---\na: 1",
        "directives": "%a\n" * 20_000,
        "documents": "---\n" * 16_000,
        "quotes": "'" * 60_001,
        "escapes": 'a: "' + "\\n" * 30_000 + '"',
        "comments": "#\n" * 30_000,
        "blank lines": "a:" + "\n" * 60_000,
        "anchors": "&a " * 20_000,
        "literal": "a: |\n" + " x\n" * 20_000,
    }.items()
}
HARMFUL |= {
    "10 MB of text": b"a: 1\n" * 2_000_000,
    "10 MB of lists": b"[" * 10_000_000,
    "10 MB of zeros": bytes(10_000_000),
    "10 MB of 0xff": b"\xff" * 10_000_000,
    "UTF-16": SHIPPED[0].decode().encode("utf-16"),
    "UTF-32": SHIPPED[0].decode().encode("utf-32"),
    "truncated UTF-8": b"a: \xf0\x9f\x98",
    "overlong UTF-8": b"a: \xc0\xaf",
    "binary": bytes(range(256)),
}


@pytest.mark.parametrize("content", HARMFUL.values(), ids=HARMFUL.keys())
def test_harmful_files(content: bytes, tmp_path: Path) -> None:
    assert check(content) is None
    path = tmp_path / "f.yaml"
    path.write_bytes(content)
    start = time.monotonic()
    with pytest.raises(ConfigError):
        load_config(path)
    assert time.monotonic() - start < SECONDS


# -- the way of a build --------------------------------------------------------------------------


def build(config: Path, output: Path, fail_after: int) -> None:
    """Write three files like ``hwgen build``; fail before the file number `fail_after`."""
    loaded = load_config(config)
    with atomic_directory(output) as folder:
        for number, suffix in enumerate(("v", "json", "sdc")):
            if number == fail_after:
                raise OSError(28, "No space left on device")
            (folder / f"{loaded.name}.{suffix}").write_text(loaded.digest)


@campaign(200)
@given(st.sampled_from(SHIPPED), st.lists(EDIT, max_size=2), st.integers(0, 4), st.booleans())
def test_no_partial_output(
    content: bytes, edits: list[tuple[float, int, bytes]], fail_after: int, earlier: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        config, output = home / "f.yaml", home / "out"
        expected = {"f.yaml"}
        if earlier:
            config.write_bytes(SHIPPED[0])
            build(config, output, 9)
            expected.add("out")
        before = _listing(output)
        config.write_bytes(mutated(content, edits))
        try:
            build(config, output, fail_after)
        except (ConfigError, InputError):
            assert _listing(output) == before
        else:
            expected.add("out")
            assert len(_listing(output)) == 4
        assert {p.name for p in home.iterdir()} == expected


def _listing(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()} if folder.exists() else {}


@pytest.mark.skipif("build" not in cli.list_commands(click.Context(cli)), reason="no build")
@campaign(60)
@given(st.sampled_from(SHIPPED), st.lists(EDIT, min_size=1, max_size=3))
def test_build_command(content: bytes, edits: list[tuple[float, int, bytes]]) -> None:
    content = mutated(content, edits)
    if check(content) is not None:
        return
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "f.yaml"
        path.write_bytes(content)
        message = io.StringIO()
        with contextlib.redirect_stderr(message):
            assert main(["build", "--config", str(path), "--output", f"{name}/out"]) == 2
        assert message.getvalue().startswith(f"{path}:")
        assert [p.name for p in Path(name).iterdir()] == ["f.yaml"]
