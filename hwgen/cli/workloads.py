# SPDX-License-Identifier: Apache-2.0
"""List the shipped workloads, or the layers of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hwgen.cli.support.common import emit_json, example, json_option, new_table
from hwgen.cli.support.names import WorkloadName
from hwgen.reports.terminal import console

if TYPE_CHECKING:
    from hwgen.workloads import Layer, Network


@click.command(
    epilog=example(
        "hwgen workloads gpt2_decode",
        "`--workload` of hwgen estimate and report takes a name, a file of your own, or the"
        " directory of a model; docs/cost-model.md describes the file.",
    )
)
@click.argument("name", metavar="[NAME|FILE]", default="", type=WorkloadName())
@json_option
def command(name: str, as_json: bool) -> None:
    """List the shipped workloads, or the layers of one, of a file or of a model's directory."""
    from hwgen.models.workload import load_network
    from hwgen.workloads import load_workload, shipped

    if name:
        stem, network = load_network(name)
        layers = [_layer(layer, network) for layer in network.layers]
        if as_json:
            emit_json({**_entry(stem, network), "layers": layers})
        else:
            _show_one(stem, network, layers)
        return
    entries = [_entry(*load_workload(each)) for each in shipped()]
    if as_json:
        emit_json(entries)
        return
    table = new_table("workload", "tokens", "context", "million weights", "million MACs")
    for entry in entries:
        table.add_row(
            entry["name"],
            "-" if entry["tokens"] is None else str(entry["tokens"]),
            str(entry["context"]) if entry["tokens"] else "-",
            f"{entry['weights'] / 1e6:,.1f}",
            f"{(entry['macs'] + entry['attention_macs']) / 1e6:,.0f}",
        )
    console().print(table)


def _entry(name: str, network: Network) -> dict[str, Any]:
    """Return a workload as JSON values."""
    return {
        "name": name,
        "tokens": network.tokens,
        "context": network.context,
        "weights": network.weights,
        "macs": network.macs,
        "attention_macs": network.attention_macs,
        "operations": network.operations,
    }


def _layer(layer: Layer, network: Network) -> dict[str, Any]:
    """Return a layer as JSON values; counts are of one time."""
    entry: dict[str, Any] = {"name": layer.name, "repeat": layer.repeat}
    if layer.product is not None:
        return {**entry, "m,k,n": list(layer.product), "macs": layer.product.macs}
    if layer.attention is not None:
        return {**entry, "macs": layer.attention.macs(network.context)}
    return {**entry, "operations": layer.operations}


def _show_one(name: str, network: Network, layers: Sequence[Mapping[str, Any]]) -> None:
    about = "no tokens" if network.tokens is None else f"{network.tokens} tokens"
    if network.context:
        about += f" after {network.context} others"
    out = console()
    out.print(
        f"{name}: {about}, {network.weights:,} weights, {network.macs:,} multiply-accumulates"
    )
    table = new_table("layer", "times", "M x K x N", "MACs each", "operations each")
    for layer in layers:
        sizes = " x ".join(map(str, layer.get("m,k,n", ())))
        numbers = (f"{layer[key]:,}" if key in layer else "" for key in ("macs", "operations"))
        table.add_row(layer["name"], f"{layer['repeat']:,}", sizes, *numbers)
    out.print(table)
