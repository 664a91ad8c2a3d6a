# SPDX-License-Identifier: Apache-2.0
"""Switching activity that ``--activity`` names, for estimates of power."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cost_model.estimate.activity import ASSUMED, WORST, Activity, with_activity
from cost_model.estimate.technology import technology
from hwgen.core.core import Core
from hwgen.errors import InputError, did_you_mean

TYPICAL = "typical"


def activity_of(core: Core[Any], technology_name: str, text: str) -> Activity:
    """Return the activity of a core that ``--activity`` names.

    Parameters
    ----------
    core : Core
    technology_name : str
        By whose energies power is.
    text : str
        ``assumed``, ``typical``, ``worst``, ``random``, ``random:M,K,N``, or an ``.npz`` file.

    Raises
    ------
    InputError
        If no energies of the technology were fitted to simulations, or the operands of a file do
        not fit the core.
    """
    if text == ASSUMED.name:
        return ASSUMED
    from flows.power.netlist_power import port_changes  # start-up time

    tech = technology(technology_name)
    with_activity(tech, Activity(text, 0.0))  # refuses what is not known
    return Activity(text, port_changes(core, text, tech.energies["reference"]))


def check_activity(text: str, technologies: Iterable[str]) -> None:
    """Refuse an activity that no design can have, before any is looked at.

    Raises
    ------
    InputError
        If it is neither a name nor a file, or the energies of a technology were not fitted to
        simulations.
    """
    names = (ASSUMED.name, TYPICAL, WORST)
    drawn = text == "random" or text.startswith("random:")
    if text not in names and not drawn and not Path(text).is_file():
        raise InputError(
            f"--activity: must be {', '.join(names)}, random, random:M,K,N, or an .npz file with"
            f" activations (M, K) and weights (K, N), not {text!r}{did_you_mean(text, names)}"
        )
    if text != ASSUMED.name:
        for name in technologies:
            with_activity(technology(name), Activity(text, 0.0))
