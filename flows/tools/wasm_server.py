# SPDX-License-Identifier: Apache-2.0
"""A WebAssembly program that is loaded once and run many times; see `flows.tools.warm_yosys`.

``python wasm_server.py PACKAGE FILE ARGUMENT...`` loads the module `FILE` of a Python package.
Each line on its standard input names a folder: the program runs, with the arguments and in a memory
of its own, from the file ``in`` of that folder to ``out`` and ``err``; its exit status is printed.

It imports nothing of hwgen, to be started quickly.
"""

from __future__ import annotations

import sys
import traceback
from importlib import resources

import wasmtime


class Program:
    """A module, compiled or taken from wasmtime's cache.

    Parameters
    ----------
    package, file : str
        Where the module is.
    """

    def __init__(self, package: str, file: str) -> None:
        config = wasmtime.Config()
        config.cache = True
        self._engine = wasmtime.Engine(config)
        self._linker = wasmtime.Linker(self._engine)
        self._linker.define_wasi()
        binary = (resources.files(package) / file).read_bytes()
        self._module = wasmtime.Module(self._engine, binary)

    def run(self, arguments: list[str], folder: str) -> int:
        """Run it in memory of its own, with the files of a folder, and return its exit status."""
        system = wasmtime.WasiConfig()
        system.argv = arguments
        system.stdin_file = f"{folder}/in"
        system.stdout_file = f"{folder}/out"
        system.stderr_file = f"{folder}/err"
        store = wasmtime.Store(self._engine)
        store.set_wasi(system)
        try:
            start = self._linker.instantiate(store, self._module).exports(store)["_start"]
            start(store)  # type: ignore[operator]
        except wasmtime.ExitTrap as ended:
            return int(ended.code)
        return 0


def main(package: str, file: str, *arguments: str) -> None:
    """Serve until there is no more input: until the process that asks is gone."""
    program = Program(package, file)
    for line in sys.stdin:
        folder = line.removesuffix("\n")
        try:
            status = program.run([package, *arguments], folder)
        except Exception:
            status = 1
            with open(f"{folder}/err", "a", encoding="utf-8") as file_of_errors:
                traceback.print_exc(file=file_of_errors)
        sys.stdout.write(f"{status}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
