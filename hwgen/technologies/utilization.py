# SPDX-License-Identifier: Apache-2.0
"""Share of a device that a design uses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hwgen.technologies import devices, fpga_family, technology_of
from hwgen.technologies.fpga_model import Device, Fpga

RESOURCES = ("luts", "flip_flops", "dsps", "brams", "urams")
"""What a device has."""

NAMES: Mapping[str, str] = {
    "luts": "LUTs",
    "flip_flops": "flip-flops",
    "dsps": "DSP blocks",
    "brams": "block memories",
    "urams": "large memories",
}
"""What they are called."""

SHARES = tuple(f"{resource}_share" for resource in RESOURCES)
"""Metrics that say what share of each is used."""

CROWDED = 0.8
"""Share of a resource above which place and route is less certain than the estimate states."""

FITS = "fits"
"""Metric that says whether no share is more than one."""


def of(name: str) -> tuple[Fpga, Device]:
    """Return the family and the data of a device that `target.device` names.

    Raises
    ------
    KeyError
        If no installed technology has it.
    """
    own = technology_of(name)
    if own is None:
        raise KeyError(name)
    family = fpga_family(own)
    return family, family.devices[name]


def used_resources(family: Fpga, used: Mapping[str, Any]) -> dict[str, Any]:
    """Return the number of each of `RESOURCES` of a device that a mapped design uses.

    Carry cells and small memories lie in look-up tables, see ``luts_in`` of the family.

    Parameters
    ----------
    family : Fpga
    used : mapping
        Cells by resource, numbers or arrays; what is not there is not used, NaN is not known.
    """
    result = {resource: used.get(resource, 0) for resource in RESOURCES}
    for resource, luts in family.luts_in.items():
        result["luts"] = result["luts"] + luts * used.get(resource, 0)
    return result


def all_fit(shares: Iterable[ArrayLike]) -> NDArray[np.float64]:
    """Return whether designs fit a device: 1, 0, or NaN where that is not known.

    What is too much of one resource stays so, whatever is not known of the others.

    Parameters
    ----------
    shares : iterable of array_like
        Of each resource the share used, NaN where unknown; they broadcast to one shape.
    """
    every = np.stack(np.broadcast_arrays(*[np.asarray(share, np.float64) for share in shares]))
    present = np.where(np.isnan(every).any(axis=0), np.nan, 1.0)
    return np.where((every > 1).any(axis=0), 0.0, present)


def utilization(name: str, used: Mapping[str, float | None]) -> dict[str, Any]:
    """Return the resources of a device that a design uses, as plain JSON values.

    Parameters
    ----------
    name : str
        A device.
    used : mapping
        Cells by resource, None if that is not known.

    Returns
    -------
    dict
        ``name``; ``verdict``, whether it fits in words, with what there is too little of;
        ``resources``, of each that the device has or the design takes how many are
        ``used`` and ``available`` and the ``share``; ``fits``; None is not known; ``warning``,
        what to know of a device that is too small, more than `CROWDED` full, or slower than the
        family's delays, else None.
    """
    family, device = of(name)
    present = {key: math.nan if value is None else value for key, value in used.items()}
    resources: dict[str, Any] = {}
    shares = [0.0]
    for resource, number in used_resources(family, present).items():
        there = getattr(device, resource)
        if math.isnan(number):
            shares.append(math.nan)
            resources[resource] = {"used": None, "available": there, "share": None}
        elif number or there:
            share = number / there if there else None
            shares.append(math.inf if share is None else share)
            resources[resource] = {"used": round(number), "available": there, "share": share}
    fits = all_fit(shares)
    lacking = [
        f"{row['used']:,} of {row['available']:,} {NAMES[resource]}"
        for resource, row in resources.items()
        if row["used"] is not None and row["used"] > row["available"]
    ]
    verdict = f"no ({', '.join(lacking)})" if lacking else "unknown" if np.isnan(fits) else "yes"
    return {
        "name": name,
        "resources": resources,
        FITS: None if np.isnan(fits) else bool(fits),
        "verdict": verdict,
        "warning": _warning(name, resources, lacking) or _slower(name, device),
    }


def _slower(name: str, device: Device) -> str | None:
    """Return the warning of a device whose fabric is slower than the estimate's."""
    if device.fmax_share is None:
        return None
    least, most = device.fmax_share
    return (
        f"Fmax is that of faster devices of the family: {name} reaches {least:g} to {most:g} of it"
    )


def _warning(name: str, resources: Mapping[str, Any], lacking: Sequence[str]) -> str | None:
    """Return the warning of a device that is too small or nearly full, None of others."""
    if lacking:
        return f"the core does not fit {name}: it needs {', '.join(lacking)}"
    full = [
        f"{100 * row['share']:.0f} % of its {NAMES[resource]}"
        for resource, row in resources.items()
        if row["share"] is not None and row["share"] > CROWDED
    ]
    if not full:
        return None
    return (
        f"the core needs {' and '.join(full)} on {name}; above {100 * CROWDED:.0f} % place and"
        " route can fail, or reach a lower Fmax than the estimate and its ± say"
    )


def smallest(technology: str, used: Mapping[str, float | None]) -> str | None:
    """Return the device of a technology with the fewest look-up tables that a design fits.

    Where it fits none, or that is not known, it is the largest; None of standard cells.
    """
    names = sorted(devices(technology), key=lambda name: of(name)[1].luts)
    fitting = (name for name in names if utilization(name, used)[FITS])
    return next(fitting, names[-1] if names else None)
