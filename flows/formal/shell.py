# SPDX-License-Identifier: Apache-2.0
"""The stream ports of a design: its buffers stand at them, and no path leads from ready to valid.

What a buffer promises at its output holds at a port that is nothing but that output, with the same
reset; so the proof of a port is that of the buffer, and a search in the netlist that shows the
connection.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flows.formal.block_proof import BlockProof, Result
from flows.formal.hierarchy import Hierarchy, Origin, Path
from flows.formal.netlists import PathSearch, Pin
from rtl_templates.hdl.hierarchy import Block
from rtl_templates.stream.stream import StreamSkid

PROMISES = {
    "stable": "valid, data and last of the result stay until the beat is accepted",
    "order": "beats leave as the results entered the buffer at the port: none lost, doubled or"
    " out of order",
    "reset": "a reset empties the port",
}
"""Properties of a buffer that its port has."""

_ENGINE = "composition"


class Streams:
    """Stream ports of a design.

    Parameters
    ----------
    modules : mapping
        Netlists of all modules.
    top : str
    buffers : mapping
        Blocks whose contract is that of a buffer, by the names of their modules.
    proofs : mapping
        Proof of each.
    """

    def __init__(
        self,
        modules: Mapping[str, Any],
        top: str,
        buffers: Mapping[str, Block],
        proofs: Mapping[str, BlockProof],
    ) -> None:
        self.modules, self.top = modules, top
        self.buffers, self.proofs = buffers, proofs
        self.hierarchy = Hierarchy(modules, top, buffers)

    def results(self) -> list[Result]:
        """Return the properties of all ports; those that do not follow are ``unknown``."""
        ports = self.modules[self.top]["ports"]
        results = [self._paths(ports), *self._bursts(ports)]
        for name, port in ports.items():
            stem = name.removesuffix("tvalid")
            if stem == name or f"{stem}tready" not in ports:
                continue
            results += self._output(stem) if port["direction"] == "output" else self._input(stem)
        return results

    def _paths(self, ports: Mapping[str, Any]) -> Result:
        """Search paths from a ready to a valid in the same cycle, on any port."""
        start, search, hits = time.monotonic(), PathSearch(self.modules), []
        for name, port in ports.items():
            if port["direction"] == "input" and name.endswith("ready"):
                reached = {pin.port for pin in search.reached(self.top, Pin(name, 0))}
                hits += [f"{name} -> {sink}" for sink in sorted(reached) if sink.endswith("valid")]
        return Result(
            "streams",
            "no path ready -> valid",
            "no valid waits for a ready in the same cycle, on any port",
            "refuted" if hits else "proven",
            "netlist search",
            f"there is {', '.join(hits)}" if hits else "no path in the netlist",
            round(time.monotonic() - start, 2),
        )

    def _bursts(self, ports: Mapping[str, Any]) -> list[Result]:
        """Return whether the bursts of memory ports increment, each beat as wide as the bus."""
        results = []
        for name in ports:
            if not name.endswith(("arburst", "awburst")):
                continue
            stem = name.removesuffix("burst")
            data = f"{stem[:-2]}{'w' if stem.endswith('aw') else 'r'}data"
            size = (len(ports[data]["bits"]) // 8).bit_length() - 1
            wanted = {name: 1, f"{stem}size": size}
            values = {
                port: [each.port for each in self.hierarchy.origins((), port)] for port in wanted
            }
            same = all(
                bits == [str(wanted[port] >> bit & 1) for bit in range(len(bits))]
                for port, bits in values.items()
            )
            results.append(
                Result("bursts", f"{stem[-2:].upper()} INCR",
                       "each beat has the next address and is as wide as the bus",
                       "proven" if same else "refuted", "netlist search",
                       "constants" if same else f"{values}", 0.0)
            )  # fmt: skip
        return results

    def _output(self, stem: str) -> list[Result]:
        ports = self.modules[self.top]["ports"]
        payload = [
            name for name in ports
            if name.startswith(stem) and name not in (f"{stem}tvalid", f"{stem}tready")
        ]  # fmt: skip
        problem, path = self._source(
            f"{stem}tvalid", f"{stem}tready",
            [net for name in payload for net in ports[name]["bits"]],
        )  # fmt: skip
        results = []
        for name, about in PROMISES.items():
            also = problem
            if not also and name != "order" and self._transparent(path):
                also = f"{'.'.join(path)} passes beats through"
            results.append(self._composed(f"{stem.strip('_')} {name}", about, name, path, also))
        return results

    def _transparent(self, path: Path) -> bool:
        return isinstance(self.buffers[self.hierarchy.module(path)], StreamSkid)

    def _source(self, valid: str, ready: str, payload: Sequence[Any]) -> tuple[str, Path]:
        """Find the buffer at an output; return an error, empty if it is right, and the buffer."""
        hierarchy = self.hierarchy
        origin = hierarchy.origins((), valid)[0]
        if origin.cell not in self.buffers or origin.port != "o_valid":
            return f"{valid} is driven by {_words(origin)}, not by a buffer", ()
        path = origin.path
        if hierarchy.origins(path, "o_ready") != [Origin("", (), ready, 0)]:
            return f"{'.'.join(path)} is not ready when {ready} is", path
        for each in {hierarchy.origin((), net) for net in payload}:
            if each.cell and (each.path, each.port) != (path, "o_data"):
                return f"the payload of {valid} comes from {_words(each)}", path
        return self._reset(path), path

    def _reset(self, path: Path) -> str:
        """Check that a buffer is reset by aresetn; return an error, empty if it is."""
        origins = self.hierarchy.origins(path, "rst")
        inverted = origins[0].cell in ("$not", "$logic_not") and [
            Origin("", (), "aresetn", 0)
        ] == self._inputs_of(origins[0])
        return "" if inverted else f"{'.'.join(path)} is not reset by aresetn alone"

    def _inputs_of(self, origin: Origin) -> list[Origin]:
        around = origin.path[:-1]
        cell = self.modules[self.hierarchy.module(around)]["cells"][origin.path[-1]]
        return [self.hierarchy.origin(around, net) for net in cell["connections"]["A"]]

    def _input(self, stem: str) -> list[Result]:
        """Return that the beats of an input port enter a buffer; nothing if there is none."""
        name = f"{stem.strip('_')} accepted once"
        about = "every accepted beat is stored once, in order"
        ready = self.hierarchy.origins((), f"{stem}tready")[0]
        path = ready.path
        if ready.cell not in self.buffers or ready.port != "i_ready":
            return []
        if self.hierarchy.origins(path, "i_valid") != [Origin("", (), f"{stem}tvalid", 0)]:
            problem = f"{'.'.join(path)} does not store exactly the accepted beats"
        else:
            problem = self._reset(path)
        return [self._composed(name, about, "order", path, problem)]

    def _composed(self, name: str, about: str, promise: str, path: Path, problem: str) -> Result:
        if not problem and not self._proven(path, (promise,)):
            problem = f"{promise!r} of {'.'.join(path)} is not proven"
        module = self.hierarchy.module(path) if path else ""
        detail = problem or f"port of {'.'.join(path)}, a {module}"
        return Result(
            "streams", name, about, "unknown" if problem else "proven", _ENGINE, detail, 0.0
        )

    def _proven(self, path: Path, names: Iterable[str]) -> bool:
        proof = self.proofs[self.hierarchy.module(path)]
        statuses = {result.name: result.status for result in proof.properties}
        return all(statuses.get(name) == "proven" for name in names)


def _words(origin: Origin) -> str:
    if not origin.cell:
        return f"the input {origin.port}"
    return f"{origin.port} of {'.'.join(origin.path)} ({origin.cell})"
