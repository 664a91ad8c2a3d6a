# SPDX-License-Identifier: Apache-2.0
"""Frequencies that the phase-locked loops of FPGAs make, and the settings for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from hwgen.errors import InputError

Primitive: TypeAlias = Literal["SB_PLL40_PAD", "EHXPLLL", "rPLL", "CC_PLL"]
"""Primitives of iCE40, ECP5, Gowin's LittleBee and GateMate."""

GRID_HZ = 62_500
"""Frequencies are multiples of this, so that serial rates need few bits of phase."""


@dataclass(frozen=True)
class Pll:
    """Settings of a phase-locked loop.

    Parameters
    ----------
    primitive : str
    hz : int
        Frequency at its output.
    parameters : tuple of (str, int or str)
        Of the primitive.
    phase_ns : float, optional
        Time by which its second output, of twice the frequency, is later; default there is none.
    """

    primitive: Primitive
    hz: int
    parameters: tuple[tuple[str, int | str], ...]
    phase_ns: float | None = None

    @property
    def phases_ns(self) -> list[float]:
        """The phases of a second output of twice the frequency; none if it cannot be made."""
        if self.primitive != "EHXPLLL":
            return []
        # The divider begins later by cycles of the oscillator, and by eighths of them.
        eighths = _EIGHTHS * self._even_divider
        return [1e9 / self.hz * step / eighths for step in range(eighths // 2)]

    def doubled(self, phase_ns: float) -> Pll:
        """Return the loop with a second output of twice the frequency.

        Parameters
        ----------
        phase_ns : float
            One of `phases_ns`.
        """
        divider = self._even_divider
        steps = self.phases_ns.index(phase_ns)
        changed = dict(self.parameters) | {
            "CLKOP_DIV": divider, "CLKOP_CPHASE": divider - 1,
            "CLKOS_ENABLE": "ENABLED", "CLKOS_DIV": divider // 2,
            "CLKOS_CPHASE": divider // 2 - 1 + steps // _EIGHTHS,
            "CLKOS_FPHASE": steps % _EIGHTHS, "OUTDIVIDER_MUXB": "DIVB",
        }  # fmt: skip
        return replace(self, parameters=tuple(changed.items()), phase_ns=phase_ns)

    @property
    def _even_divider(self) -> int:
        """The divider of the oscillator, or the next one that is even and in its range."""
        divider = int(dict(self.parameters)["CLKOP_DIV"])
        if divider % 2:
            divider += 1 if self.hz * (divider + 1) <= _ECP5_OSCILLATOR_HZ[1] else -1
        return divider


_EIGHTHS = 8
_ECP5_OSCILLATOR_HZ = 400e6, 800e6


def pll_below(primitive: Primitive, input_hz: int, limit_hz: float) -> Pll:
    """Return the settings for the highest frequency that is not above a limit.

    Raises
    ------
    InputError
        If there is none.
    """
    made = [pll for pll in plls(primitive, input_hz) if pll.hz <= limit_hz]
    if not made:
        lowest = min(pll.hz for pll in plls(primitive, input_hz))
        raise InputError(
            f"{primitive} makes no clock of {limit_hz / 1e6:g} MHz or less from"
            f" {input_hz / 1e6:g} MHz; the lowest is {lowest / 1e6:g} MHz"
        )
    return max(made, key=lambda pll: pll.hz)


def plls(primitive: Primitive, input_hz: int) -> Iterator[Pll]:
    """Yield the settings for frequencies on the grid, each once."""
    seen = set()
    for hz, parameters in _SETTINGS[primitive](input_hz):
        if hz % GRID_HZ == 0 and hz not in seen:
            seen.add(int(hz))
            yield Pll(primitive, int(hz), tuple(parameters.items()))


_Settings: TypeAlias = Iterator[tuple[float, dict[str, int | str]]]


def _ice40(input_hz: int) -> _Settings:
    """Yield settings of iCE40: comparison at 10 to 133 MHz, oscillator at 533 to 1066."""
    for divr in range(16):
        compare = input_hz / (divr + 1)
        if not 10e6 <= compare <= 133e6:
            continue
        bounds = (17e6, 26e6, 44e6, 66e6, 101e6)
        band = 1 + sum(compare >= bound for bound in bounds)
        for divf in range(128):
            if not 533e6 <= compare * (divf + 1) <= 1066e6:
                continue
            for divq in range(1, 7):
                hz = compare * (divf + 1) / (1 << divq)
                if 16e6 <= hz <= 275e6:
                    yield hz, {"FEEDBACK_PATH": "SIMPLE", "DIVR": divr, "DIVF": divf,
                               "DIVQ": divq, "FILTER_RANGE": band}  # fmt: skip


def _ecp5(input_hz: int) -> _Settings:
    """Yield settings of ECP5: comparison at 3.125 to 400 MHz, oscillator at 400 to 800."""
    for reference in range(1, 9):
        compare = input_hz / reference
        if compare < 3.125e6:
            continue
        for feedback in range(1, 81):
            hz = compare * feedback
            if not 3.125e6 <= hz <= 400e6:
                continue
            # In the middle of the oscillator's range.
            output = max(1, round(600e6 / hz))
            if output <= 128 and 400e6 <= hz * output <= 800e6:
                yield hz, {
                    "PLLRST_ENA": "DISABLED", "INTFB_WAKE": "DISABLED", "STDBY_ENABLE": "DISABLED",
                    "DPHASE_SOURCE": "DISABLED", "OUTDIVIDER_MUXA": "DIVA", "CLKI_DIV": reference,
                    "CLKOP_ENABLE": "ENABLED", "CLKOP_DIV": output, "CLKOP_CPHASE": output - 1,
                    "CLKOP_FPHASE": 0, "FEEDBK_PATH": "CLKOP", "CLKFB_DIV": feedback,
                }  # fmt: skip


def _gowin(input_hz: int) -> _Settings:
    """Yield settings of GW1N-9C: comparison at 3 to 400 MHz, oscillator at 400 to 1200."""
    for reference in range(64):
        compare = input_hz / (reference + 1)
        if compare < 3e6:
            break
        for feedback in range(64):
            hz = compare * (feedback + 1)
            if not 3.125e6 <= hz <= 400e6:
                continue
            for output in (2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128):
                if 400e6 <= hz * output <= 1200e6:
                    yield hz, {
                        "FCLKIN": f"{input_hz / 1e6:g}", "IDIV_SEL": reference,
                        "FBDIV_SEL": feedback, "ODIV_SEL": output, "DEVICE": "GW1NR-9C",
                        "DYN_IDIV_SEL": "false", "DYN_FBDIV_SEL": "false",
                        "DYN_ODIV_SEL": "false", "CLKFB_SEL": "internal", "PSDA_SEL": "0000",
                        "DUTYDA_SEL": "1000", "DYN_DA_EN": "false", "CLKOUT_BYPASS": "false",
                        "CLKOUTP_BYPASS": "false", "CLKOUTD_BYPASS": "false", "DYN_SDIV_SEL": 2,
                        "CLKOUTD_SRC": "CLKOUT", "CLKOUTD3_SRC": "CLKOUT",
                    }  # fmt: skip
                    break


def _gatemate(input_hz: int) -> _Settings:
    """Yield settings of GateMate, whose tools find the dividers: steps of 1 MHz."""
    for mhz in range(1, 251):
        yield mhz * 1e6, {
            "REF_CLK": f"{input_hz / 1e6:.1f}", "OUT_CLK": f"{mhz:.1f}", "PERF_MD": "SPEED",
            "LOW_JITTER": 1, "CI_FILTER_CONST": 2, "CP_FILTER_CONST": 4,
        }  # fmt: skip


_SETTINGS: dict[Primitive, Callable[[int], _Settings]] = {
    "SB_PLL40_PAD": _ice40,
    "EHXPLLL": _ecp5,
    "rPLL": _gowin,
    "CC_PLL": _gatemate,
}
