# SPDX-License-Identifier: Apache-2.0
"""Predictions of synthesis results: the analytical model, and models that learn from rows.

Every model predicts the logarithm of a figure.  *Alone* means from the configuration and its
components, *correction* the ratio of the measured figure to the analytical one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from flows.bench.surrogates.collect import DATA, METADATA, digest
from hwgen.errors import InputError, ToolMissing

Floats = NDArray[np.float64]
Row = Mapping[str, Any]

METRICS = ("area_mm2", "fmax_mhz", "lut", "ff")

SEED = 37


def load(path: Path = DATA) -> list[dict[str, Any]]:
    """Return the rows of a data set.

    Raises
    ------
    InputError
        If it is no data set, or its digest is not the one it states.
    ToolMissing
        If pyarrow is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ToolMissing("data sets need pyarrow; pip install 'hwgen[gym]'") from None
    try:
        table = pyarrow.parquet.read_table(path)
        head = json.loads(table.schema.metadata[METADATA])
    except (OSError, pyarrow.ArrowException, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: no data set of synthesis results: {error}") from None
    rows: list[dict[str, Any]] = table.to_pylist()
    if digest(rows) != head["digest"]:
        raise InputError(
            f"{path}: the digest of its rows is not the stated {head['digest'][:16]}: it is"
            " damaged; make it again with `make surrogate-data`"
        )
    return rows


class Features:
    """Numbers that describe configurations: parameters, components, technology.

    Parameters
    ----------
    rows : sequence of mapping
        Rows whose parameters, values and components are known afterwards; others are left out.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        values = [_parameters(row) for row in rows]
        self.numbers = sorted({n for v in values for n, x in v.items() if _is_number(x)})
        self.texts = sorted({(n, x) for v in values for n, x in v.items() if isinstance(x, str)})
        self.parts = sorted({n for row in rows for n in json.loads(row["components"])})
        self.technologies = sorted({row["technology"] for row in rows})

    def __call__(self, rows: Sequence[Row]) -> Floats:
        """Return a row of numbers for each configuration; NaN where it has no such parameter."""
        result = []
        for row in rows:
            values, parts = _parameters(row), json.loads(row["components"])
            result.append([
                *(float(values[n]) if _is_number(values.get(n)) else np.nan for n in self.numbers),
                *(float(values.get(n) == x) for n, x in self.texts),
                *(np.log1p(parts.get(n, 0.0)) for n in self.parts),
                np.log1p(sum(parts.values())),
                *(float(row["technology"] == each) for each in self.technologies),
            ])  # fmt: skip
        return np.array(result)


def _parameters(row: Row) -> dict[str, Any]:
    """Return the parameters of a row; what it was drawn for is not that which it is mapped to."""
    values = json.loads(row["configuration"])
    return {name: value for name, value in values.items() if not name.startswith("target.")}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def estimated(rows: Sequence[Row], metric: str) -> Floats:
    """Return the estimates of the analytical model; at least half a unit, for logarithms."""
    return np.maximum([float(row[f"estimated_{metric}"]) for row in rows], _least(metric))


def measured(rows: Sequence[Row], metric: str) -> Floats:
    """Return the measurements of synthesis."""
    return np.maximum([float(row[f"measured_{metric}"]) for row in rows], _least(metric))


def _least(metric: str) -> float:
    return 0.5 if metric in ("lut", "ff") else 1e-9


def usable(rows: Sequence[Row], metric: str) -> list[Row]:
    """Return the rows that have an estimate and a measurement of a metric."""
    keys = (f"estimated_{metric}", f"measured_{metric}")
    return [row for row in rows if all(row.get(key) for key in keys)]


def _learn(inputs: Floats, targets: Floats) -> Any:
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
    except ImportError:
        raise ToolMissing("boosting needs scikit-learn; pip install 'hwgen[demo]'") from None
    model = HistGradientBoostingRegressor(
        max_iter=150, learning_rate=0.06, min_samples_leaf=5, l2_regularization=1.0,
        random_state=SEED, early_stopping=False,
    )  # fmt: skip
    with threadpool_limits(1):  # threads that wait for each other take longer than the work
        return model.fit(inputs, targets)


def analytical(train: Sequence[Row], test: Sequence[Row], metric: str) -> Floats:
    """Return estimates of the analytical model; nothing is learned."""
    return estimated(test, metric)


def boosting(train: Sequence[Row], test: Sequence[Row], metric: str) -> Floats:
    """Return predictions of gradient boosting alone."""
    features = Features(train)
    model = _learn(features(train), np.log(measured(train, metric)))
    return np.asarray(np.exp(model.predict(features(test))), np.float64)


def corrected(train: Sequence[Row], test: Sequence[Row], metric: str) -> Floats:
    """Return estimates that gradient boosting corrects."""
    features = Features(train)
    ratio = np.log(measured(train, metric) / estimated(train, metric))
    model = _learn(features(train), ratio)
    return np.asarray(estimated(test, metric) * np.exp(model.predict(features(test))), np.float64)


def shifted(train: Sequence[Row], test: Sequence[Row], metric: str) -> Floats:
    """Return estimates times the median ratio of the training rows: the simplest correction."""
    ratio = float(np.median(measured(train, metric) / estimated(train, metric)))
    return estimated(test, metric) * ratio


def graph_network(train: Sequence[Row], test: Sequence[Row], metric: str) -> Floats:
    """Return predictions of a small graph network over the modules of the netlist."""
    from flows.bench.surrogates.graph import fit_and_predict

    return fit_and_predict(train, test, np.log(measured(train, metric)))


def graph_corrected(train: Sequence[Row], test: Sequence[Row], metric: str) -> Floats:
    """Return estimates that the graph network corrects."""
    from flows.bench.surrogates.graph import fit_and_predict

    ratio = np.log(measured(train, metric) / estimated(train, metric))
    return estimated(test, metric) * fit_and_predict(train, test, ratio)


MODELS = {
    "analytical": analytical,
    "median ratio": shifted,
    "boosting alone": boosting,
    "boosting, correction": corrected,
    "graph network alone": graph_network,
    "graph network, correction": graph_corrected,
}
"""Models by name, each a function of training rows, test rows and a metric."""


# -- how good they are ---------------------------------------------------------------------------


def r2(truth: Floats, guess: Floats) -> float:
    """Return R² of logarithms."""
    truth, guess = np.log(truth), np.log(guess)
    total = ((truth - truth.mean()) ** 2).sum()
    return float(1 - ((truth - guess) ** 2).sum() / total) if total else float("nan")


def smape(truth: Floats, guess: Floats) -> float:
    """Return the mean of absolute errors over the mean of both values."""
    return float(np.mean(2 * np.abs(truth - guess) / (truth + guess)))


# -- splits --------------------------------------------------------------------------------------


Split = tuple[str, list[Row], list[Row]]
"""Name, rows to learn from, rows to be tested on."""


def splits(rows: Sequence[Row]) -> list[Split]:
    """Return the splits of rows that all have a metric.

    Rows of one design, in several technologies, are on the same side but where a technology is
    held out.
    """
    generator = np.random.default_rng(SEED)
    designs = sorted({row["configuration"] for row in rows})
    chosen = set(generator.permutation(len(designs))[: len(designs) // 5].tolist())
    held = {design for number, design in enumerate(designs) if number in chosen}
    result = [_split("random", rows, lambda row: row["configuration"] in held)]
    for family in sorted({row["family"] for row in rows}):
        if sum(row["family"] == family for row in rows) >= 10:
            result.append(
                _split(f"family {family} held out", rows, lambda r, f=family: r["family"] == f)
            )
    sizes = np.array([_size(row) for row in rows])
    bound = float(np.quantile(sizes, 0.7))
    result.append(_split("small to large", rows, lambda row: _size(row) > bound))
    for technology in sorted({row["technology"] for row in rows}):
        own = [row for row in rows if row["technology"] == technology]
        others = [row for row in rows if row["technology"] != technology]
        if len(own) < 20 or not others:
            continue
        order = generator.permutation(len(own))
        samples = [own[number] for number in order[:10]]
        rest = [own[number] for number in order[10:]]
        result.append((f"{technology} held out, 10 samples", [*others, *samples], rest))
    return result


def _size(row: Row) -> float:
    return float(sum(json.loads(row["components"]).values()))


def _split(name: str, rows: Sequence[Row], tested: Any) -> Split:
    return name, [r for r in rows if not tested(r)], [r for r in rows if tested(r)]
