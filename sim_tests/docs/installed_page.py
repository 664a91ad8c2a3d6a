# SPDX-License-Identifier: Apache-2.0
"""A package, mostly of the listings of a page, installed as pip would install it.

A listing is a fenced block whose first line is ``# PATH``.  The package named in
``pyproject.toml`` and its entry points are found by whatever `Installed.run` starts.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sim_tests.support.paths import ROOT

DOCS = ROOT / "docs"


def listings(page: str) -> dict[str, str]:
    """Return the files that a page of ``docs`` lists: path to text."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return dict(re.findall(r"^```\w+\n# (\S+\.\w+)\n(.*?)^```$", text, re.M | re.S))


@dataclass
class Installed:
    """A directory with an installed package, and one to work in.

    Attributes
    ----------
    site, work : Path
    variables : dict
        Further variables of the environment of what is run.
    """

    site: Path
    work: Path
    variables: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, page: str, directory: Path) -> Installed:
        """Install the listings of a page below a directory."""
        return cls.of_files(listings(page), directory)

    @classmethod
    def of_files(cls, files: Mapping[str, str], directory: Path) -> Installed:
        """Install the files of a project, by their paths, below a directory."""
        site, work = directory / "site", directory / "work"
        work.mkdir(parents=True)
        files = dict(files)
        project = tomllib.loads(files.pop("pyproject.toml"))["project"]
        for name, text in files.items():
            path = site / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
        )
        groups = project["entry-points"].items()
        (info / "entry_points.txt").write_text(
            "".join(
                f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in points.items())
                for group, points in groups
            )
        )
        return cls(site, work)

    def run(self, *arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
        """Run ``hwgen`` in the working directory with the package installed."""
        done = self.module("hwgen", *arguments)
        assert done.returncode == status, done.stdout + done.stderr
        return done

    def module(self, name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run a Python module in the working directory with the package installed."""
        command = [sys.executable, "-m", name, *map(str, arguments)]
        # Paths of this process come first: the package may lie anywhere.
        paths = os.pathsep.join([str(self.site), *sys.path])
        environment = {**os.environ, "PYTHONPATH": paths, **self.variables}
        return subprocess.run(
            command, cwd=self.work, env=environment, capture_output=True, text=True, check=False
        )
