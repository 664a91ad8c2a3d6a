# SPDX-License-Identifier: Apache-2.0
"""A small graph network over the modules of a netlist, in PyTorch.

A node is a module with its components; messages go from a module to those that instantiate it, by
how often they do.  The top module's state gives the prediction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwgen.errors import ToolMissing

Row = Mapping[str, Any]
Floats = NDArray[np.float64]

WIDTH, ROUNDS, EPOCHS, SEED = 24, 2, 150, 37


def fit_and_predict(train: Sequence[Row], test: Sequence[Row], targets: Floats) -> Floats:
    """Return the exponentials of predictions for test rows.

    Parameters
    ----------
    train, test : sequence of mapping
    targets : array, shape (train,)
        Logarithms.

    Raises
    ------
    ToolMissing
        If PyTorch is not installed.
    """
    try:
        import torch
    except ImportError:
        raise ToolMissing(
            "the graph network needs torch; pip install 'hwgen[agents-learned]'"
        ) from None
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    names = sorted({n for row in train for node in _graph(row)["nodes"] for n in node})
    technologies = sorted({row["technology"] for row in train})
    learn, held = (_batch(rows, names, technologies, torch) for rows in (train, test))
    mean, scale = targets.mean(), targets.std() or 1.0
    wanted = torch.tensor((targets - mean) / scale, dtype=torch.float32)
    model = torch.nn.ModuleDict({
        "own": torch.nn.Linear(learn["x"].shape[1], WIDTH),
        "other": torch.nn.Linear(WIDTH, WIDTH),
        "next": torch.nn.Linear(2 * WIDTH, WIDTH),
        "out": torch.nn.Sequential(
            torch.nn.Linear(3 * WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, 1)
        ),
    })  # fmt: skip

    def predict(data: Mapping[str, Any]) -> Any:
        state = torch.relu(model["own"](data["x"]))
        for _ in range(ROUNDS):
            message = model["other"](state)[data["child"]] * data["weight"][:, None]
            sums = torch.zeros_like(state).index_add(0, data["parent"], message)
            state = torch.relu(model["next"](torch.cat([state, sums], 1))) + state
        weighted = state * data["log_count"][:, None]
        pooled = torch.zeros(data["rows"], WIDTH).index_add(0, data["row"], weighted)
        index = data["row"][:, None].expand(-1, WIDTH)
        largest = torch.zeros(data["rows"], WIDTH).scatter_reduce(0, index, state, "amax")
        return model["out"](torch.cat([state[data["top"]], pooled, largest], 1))[:, 0]

    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-3)
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        loss = ((predict(learn) - wanted) ** 2).mean()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        guess = predict(held).numpy().astype(np.float64)
    bounded = np.clip(guess * scale + mean, targets.min() - 5, targets.max() + 5)
    return np.asarray(np.exp(bounded), np.float64)


def _graph(row: Row) -> dict[str, Any]:
    graph: dict[str, Any] = json.loads(row["graph"])
    return graph


def _batch(
    rows: Sequence[Row], names: Sequence[str], technologies: Sequence[str], torch: Any
) -> dict[str, Any]:
    """Return the graphs of rows as one graph of tensors."""
    x: list[list[float]] = []
    parents, children, weights, row_of, tops, counts = [], [], [], [], [], []
    for number, row in enumerate(rows):
        graph, first = _graph(row), len(x)
        tops.append(first)  # parents are before their children
        whose = [float(row["technology"] == each) for each in technologies]
        for node, count in zip(graph["nodes"], graph["instances"], strict=True):
            parts = [np.log1p(node.get(name, 0.0)) for name in names]
            x.append([*parts, np.log1p(sum(node.values())), np.log1p(count), *whose])
            row_of.append(number)
            counts.append(np.log1p(count))
        for parent, child, count in graph["edges"]:
            parents.append(first + parent)
            children.append(first + child)
            weights.append(np.log1p(count))
    return {
        "x": torch.tensor(np.array(x), dtype=torch.float32),
        "parent": torch.tensor(parents, dtype=torch.long),
        "child": torch.tensor(children, dtype=torch.long),
        "weight": torch.tensor(weights, dtype=torch.float32),
        "row": torch.tensor(row_of, dtype=torch.long),
        "top": torch.tensor(tops, dtype=torch.long),
        "log_count": torch.tensor(counts, dtype=torch.float32),
        "rows": len(rows),
    }
