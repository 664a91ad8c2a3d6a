# SPDX-License-Identifier: Apache-2.0
"""Energies of components for a switching activity.

``assumed``, which every technology has, is a method and not a measurement: clock pins in every
cycle, other inputs with `cost_model.configurations.metrics.ACTIVITY` rises, no energy inside cells.
The others rest on simulations of mapped netlists with operands (`flows.calibration.energies`): a
cycle takes what it takes with only the clock moving, and what operands add to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from cost_model.configurations.metrics import ACTIVITY
from cost_model.estimate.technology import (
    Technology,
    calibrated,
    is_calibrated,
    table_of,
    technology,
)
from hwgen.errors import InputError
from hwgen.technologies import technologies


@dataclass(frozen=True)
class Activity:
    """Switching activity of a design.

    Parameters
    ----------
    name : str
        ``assumed``, ``typical``, ``worst``, or where operands are from.
    changes : float
        Of the operands, typical ones of ``worst``: changes of a data bit of the input ports in a
        cycle, on average.
    """

    name: str
    changes: float

    def document(self, technology_name: str) -> dict[str, Any]:
        """Return the activity as JSON values.

        With ``about``, what power in a technology holds for, in words, and ``simulated``, whether
        energies by simulated netlists are known of it.
        """
        known = is_calibrated(technology_name) and bool(technology(technology_name).energies)
        return {**asdict(self), "about": about(self.name, technology_name), "simulated": known}


ASSUMED = Activity("assumed", 0.0)
WORST = "worst"


def about(name: str, technology_name: str) -> str:
    """Return the activity that power holds for, in words, by `Activity.name`.

    That of a user's table of costs is not known here.
    """
    if name != ASSUMED.name:
        return f"activity of {name} operands"
    if technology_name in technologies() and table_of(technology_name) is not None:
        return f"activity of the table of costs {technology_name}"
    return f"assumed activity of {ACTIVITY:g} rises a cycle"


def simulated_energies() -> list[str]:
    """Return the technologies whose energies were fitted to simulations."""
    return [name for name in calibrated() if technology(name).energies]


def toggle_scale(energies: Mapping[str, Any], activity: Activity) -> float:
    """Return the factor of the toggle energy at the activity ``reference`` of the ports."""
    constant = float(energies["constant"])
    scale = constant + (1 - constant) * activity.changes / float(energies["reference"])
    return scale * (float(energies["worst"]) if activity.name == WORST else 1.0)


def with_activity(tech: Technology, activity: Activity) -> Technology:
    """Return a technology whose energies are those of an activity.

    Raises
    ------
    InputError
        If no energies of the technology were fitted to simulations.
    """
    if activity == ASSUMED:
        return tech
    if not tech.energies:
        raise InputError(
            f"--activity {activity.name}: energies of {tech.name} were not fitted to simulations,"
            f" those of {', '.join(simulated_energies())} were; leave the option out for the"
            " activity that is assumed"
        )
    idle, toggle = tech.energies["idle_fj"], tech.energies["toggle_fj"]
    scale = toggle_scale(tech.energies, activity)
    prices = {
        name: idle.get(name, 0.0) + scale * toggle.get(name, 0.0) for name in {**idle, **toggle}
    }
    structure = {
        **tech.structure,
        "costs": {**tech.structure["costs"], "energy_fj": prices},
        "uncertainty_of_power": tech.energies["uncertainty"],
    }
    return replace(tech, structure=structure)


def described(tech: Technology, activity: Activity) -> str:
    """Return a note on power with an activity, empty of the one that is assumed."""
    if activity == ASSUMED:
        return ""
    glitches = tech.energies["glitches"]
    return (
        f"power is that of {activity.name} operands by simulated netlists, without wires, clock"
        f" tree and glitches, which multiply what operands add by {glitches['median']:.2f}"
        f" ({glitches['low']:.2f} to {glitches['high']:.2f} of nine of ten designs)"
    )
