# SPDX-License-Identifier: Apache-2.0
"""Files of post-processing settings, for ``hwgen run --post``: YAML or JSON, arrays beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from hwgen.arrays import read_npy
from hwgen.config.load import load_model, placed
from hwgen.config.model import Model
from hwgen.errors import ConfigError, InputError
from hwgen.numerics.post import (
    ACTIVATIONS,
    BIAS,
    INTEGERS,
    OUTPUTS,
    RAW,
    ROUNDINGS,
    Columns,
    PostFeatures,
    PostSettings,
)
from hwgen.numerics.scale import MAX_SHIFT

if TYPE_CHECKING:
    from numpy.typing import NDArray

Reals = float | list[float] | str
Integers = int | list[int] | str

_REAL = ("scale", "slope")
_INTEGER = ("multiplier", "shift", "slope_multiplier", "slope_shift")
_SLOPES = ("slope", "slope_multiplier", "slope_shift")
_RANGES = {
    "bias": (BIAS.min, BIAS.max),
    "multiplier": (BIAS.min, BIAS.max),
    "shift": (0, MAX_SHIFT),
    "slope_multiplier": (BIAS.min, BIAS.max),
    "slope_shift": (0, MAX_SHIFT),
}
_EACH = "A number, a list with one for each column of C, or the name of a .npy file with them."


class PostFile(Model):
    """What a file of post-processing settings holds."""

    output: Literal[OUTPUTS] = Field(description="Format of C.")  # type: ignore[valid-type]
    activation: Literal[ACTIVATIONS] = Field(  # type: ignore[valid-type]
        "none", description="Activation function."
    )
    rounding: Literal[ROUNDINGS] = Field(  # type: ignore[valid-type]
        "half_even", description="Rounding of integer outputs."
    )
    bias: Integers = Field(0, description=f"Added to accumulators, in their unit. {_EACH}")
    scale: Reals = Field(1.0, description=f"What results are multiplied by. {_EACH}")
    slope: Reals = Field(0.0, description=f"And negative ones as well, with leaky. {_EACH}")
    multiplier: Integers = Field(1, description=f"With `shift`, instead of `scale`. {_EACH}")
    shift: Integers = Field(0, description=f"Shift to the right. {_EACH}")
    slope_multiplier: Integers = Field(1, description=f"`multiplier` of negative ones. {_EACH}")
    slope_shift: Integers = Field(0, description=f"`shift` of negative ones. {_EACH}")
    zero: int = Field(0, description="Zero point of integer outputs.")
    minimum: int | None = Field(None, description="Lower limit of integer outputs.")
    maximum: int | None = Field(None, description="Upper limit of integer outputs.")

    def settings(self, directory: Path, n: int) -> tuple[PostSettings, Columns | None]:
        """Return settings, and records of `n` columns if something differs between columns.

        Parameters
        ----------
        directory : Path
            Where the files of arrays are.
        n : int
            Columns of C.

        Raises
        ------
        InputError
            The message begins with the field.
        """
        self._check()
        each = {
            name: _array(name, getattr(self, name), directory, n)
            for name in ("bias", *_REAL, *_INTEGER)
        }
        shared: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("activation", "rounding", "zero", "minimum", "maximum")
        }
        integers = self._given(_INTEGER)
        if "bias" in self.model_fields_set or any(array.ndim for array in each.values()):
            settings = PostSettings(self.output, columns=True, **shared)
            return settings, self._columns(each, integers, n)
        plain = {name: array.item() for name, array in each.items()}
        if integers:
            values = {name: plain[name] for name in _INTEGER}
            return PostSettings(self.output, **values, **shared), None
        scaled = PostSettings.scaled(
            self.output,
            plain["scale"],
            slope=plain["slope"],
            **shared,
        )
        return scaled, None

    def _given(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if name in self.model_fields_set]

    def _check(self) -> None:
        """Refuse what would have no effect."""
        reals, integers = self._given(_REAL), self._given(_INTEGER)
        if self.output == RAW and (reals or integers):
            raise InputError(f"{(reals + integers)[0]}: raw outputs are not scaled; leave it out")
        if integers and self.output not in INTEGERS:
            raise InputError(f"{integers[0]}: {self.output} outputs have none; give scale instead")
        if reals and integers:
            raise InputError(f"{integers[0]}: {reals[0]} is given as well; leave one of them out")
        if self.activation != "leaky" and (slopes := self._given(_SLOPES)):
            raise InputError(f"{slopes[0]}: only activation leaky has a slope; leave it out")

    def _columns(self, each: dict[str, NDArray[Any]], integers: list[str], n: int) -> Columns:
        import numpy as np

        full = {name: np.broadcast_to(array, n) for name, array in each.items()}
        if not integers:
            return Columns.scaled(
                self.output, full["scale"], bias=full["bias"], slopes=full["slope"]
            )
        dtypes = {name: "uint8" if "shift" in name else "int32" for name in ("bias", *_INTEGER)}
        return Columns(**{name: full[name].astype(dtype) for name, dtype in dtypes.items()})


def load_post(path: Path, features: PostFeatures, n: int) -> tuple[PostSettings, Columns | None]:
    """Read a file of settings for hardware and a product with `n` columns.

    Raises
    ------
    ConfigError
        Naming the place, if the file cannot be used or the hardware does not offer what it asks.
    """
    post_file, document = load_model(path, PostFile)
    try:
        settings, columns = post_file.settings(path.parent, n)
        settings.check(features)
    except InputError as error:
        text = re.sub("^(scale|slope)s:", r"\1:", str(error))
        raise ConfigError([placed(text, document, PostFile)]) from None
    return settings, columns


def _array(name: str, value: Any, directory: Path, n: int) -> NDArray[Any]:
    """Return a number, or one for each of `n` columns."""
    import numpy as np

    if isinstance(value, str):
        try:
            array = read_npy(directory / value)
        except (InputError, OSError) as error:
            raise InputError(f"{name}: {error}") from None
    else:
        array = np.asarray(value)
    if array.shape not in ((), (n,)):
        raise InputError(
            f"{name}: must be a number or {n}, one for each column of W, not of shape {array.shape}"
        )
    if name in _RANGES:
        low, high = _RANGES[name]
        if array.dtype.kind not in "iu":
            raise InputError(f"{name}: must be integers, not {array.dtype}")
        if int(array.min()) < low or int(array.max()) > high:
            raise InputError(
                f"{name}: must be {low}..{high}, not {int(array.min())}..{int(array.max())}"
            )
    elif array.dtype.kind not in "iuf":
        raise InputError(f"{name}: must be numbers, not {array.dtype}")
    return array
