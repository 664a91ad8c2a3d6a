# SPDX-License-Identifier: Apache-2.0
"""Files of post-processing settings, for ``hwgen run --post``: YAML or JSON, arrays beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from hwgen.config.validate import load_model, placed
from hwgen.core.files.arrays import read_npy
from hwgen.core.params.base import Model
from hwgen.core.post import (
    ACTIVATIONS,
    BIAS,
    INTEGERS,
    OUTPUTS,
    RAW,
    ROUNDINGS,
    SINGLE,
    Columns,
    PostFeatures,
    PostSettings,
)
from hwgen.errors import ConfigError, InputError
from hwgen.formats.scale import MAX_SHIFT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Reals = float | list[float] | str
Integers = int | list[int] | str
Numbers = int | float | list[int | float] | str

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
    """Contents of a file of post-processing settings."""

    output: Literal[OUTPUTS] = Field(description="Format of C.")  # type: ignore[valid-type]
    activation: Literal[ACTIVATIONS] = Field(  # type: ignore[valid-type]
        "none", description="Activation function."
    )
    rounding: Literal[ROUNDINGS] = Field(  # type: ignore[valid-type]
        "half_even", description="Rounding of integer outputs."
    )
    bias: Numbers = Field(0, description=f"Added to accumulators, in their unit. {_EACH}")
    scale: Reals = Field(1.0, description=f"What results are multiplied by. {_EACH}")
    slope: Reals = Field(0.0, description=f"And negative ones as well, with leaky. {_EACH}")
    multiplier: Integers = Field(1, description=f"With `shift`, instead of `scale`. {_EACH}")
    shift: Integers = Field(0, description=f"Shift to the right. {_EACH}")
    slope_multiplier: Integers = Field(1, description=f"`multiplier` of negative ones. {_EACH}")
    slope_shift: Integers = Field(0, description=f"`shift` of negative ones. {_EACH}")
    zero: int = Field(0, description="Zero point of integer outputs.")
    minimum: int | None = Field(None, description="Lower limit of integer outputs.")
    maximum: int | None = Field(None, description="Upper limit of integer outputs.")

    def settings(
        self,
        directory: Path,
        n: int,
        *,
        single: bool = False,
        second: NDArray[np.float64] | None = None,
    ) -> tuple[PostSettings, Columns | None]:
        """Return settings, and records of `n` columns if something differs between columns.

        Parameters
        ----------
        directory : Path
            Where the files of arrays are.
        n : int
            Columns of C.
        single : bool
            Whether accumulators are in single precision.
        second : ndarray of float64, shape () or (n,), optional
            Second scales, which accumulators are without: what is scaled is scaled by them as well,
            and a bias is divided by them.

        Raises
        ------
        InputError
            The message begins with the field.
        """
        self._check(single)
        each = {
            name: _array(name, getattr(self, name), directory, n)
            for name in ("bias", *_REAL, *_INTEGER)
        }
        if "bias" in self.model_fields_set:
            _check_bias(each["bias"], single)
        if second is not None and self.output != RAW:
            each["scale"] = each["scale"] * second
            each["bias"] = each["bias"] / second
        shared: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("activation", "rounding", "zero", "minimum", "maximum")
        }
        integers = self._explicit_fields(_INTEGER)
        if "bias" in self.model_fields_set or any(array.ndim for array in each.values()):
            settings = PostSettings(self.output, columns=True, single=single, **shared)
            return settings, self._columns(each, integers, n, single=single)
        plain = {name: array.item() for name, array in each.items()}
        if integers:
            values = {name: plain[name] for name in _INTEGER}
            return PostSettings(self.output, **values, **shared), None
        scaled = PostSettings.scaled(
            self.output,
            plain["scale"],
            slope=plain["slope"],
            single=single,
            **shared,
        )
        return scaled, None

    def _explicit_fields(self, names: tuple[str, ...]) -> list[str]:
        return [name for name in names if name in self.model_fields_set]

    def _check(self, single: bool) -> None:
        """Refuse what would have no effect."""
        reals, integers = self._explicit_fields(_REAL), self._explicit_fields(_INTEGER)
        if self.output == RAW and (reals or integers):
            raise InputError(f"{(reals + integers)[0]}: raw outputs are not scaled; leave it out")
        if integers and single:
            raise InputError(f"{integers[0]}: sums in {SINGLE} have none; give scale instead")
        if integers and self.output not in INTEGERS:
            raise InputError(f"{integers[0]}: {self.output} outputs have none; give scale instead")
        if reals and integers:
            raise InputError(f"{integers[0]}: {reals[0]} is given as well; leave one of them out")
        if self.activation != "leaky" and (slopes := self._explicit_fields(_SLOPES)):
            raise InputError(f"{slopes[0]}: only activation leaky has a slope; leave it out")

    def _columns(
        self, each: dict[str, NDArray[Any]], integers: list[str], n: int, *, single: bool
    ) -> Columns:
        import numpy as np

        full = {name: np.broadcast_to(array, n) for name, array in each.items()}
        if not integers:
            return Columns.scaled(
                self.output,
                full["scale"],
                bias=full["bias"],
                slopes=full["slope"],
                single=single,
            )
        dtypes = {name: "uint8" if "shift" in name else "int32" for name in ("bias", *_INTEGER)}
        return Columns(**{name: full[name].astype(dtype) for name, dtype in dtypes.items()})


def load_post(
    path: Path, features: PostFeatures, n: int, second: NDArray[np.float64] | None = None
) -> tuple[PostSettings, Columns | None]:
    """Read a file of settings for hardware and a product with `n` columns.

    Parameters
    ----------
    path : Path
    features : PostFeatures
    n : int
    second : ndarray of float64, shape () or (n,), optional
        Second scales; see `PostFile.settings`.

    Raises
    ------
    ConfigError
        Naming the place, if the file cannot be used or the hardware does not offer what it asks.
    """
    post_file, document = load_model(path, PostFile)
    try:
        settings, columns = post_file.settings(
            path.parent, n, single=features.single, second=second
        )
        settings.check(features)
    except InputError as error:
        text = re.sub("^(scale|slope)s:", r"\1:", str(error))
        raise ConfigError([placed(text, document, PostFile)]) from None
    return settings, columns


def _check_bias(bias: NDArray[Any], single: bool) -> None:
    """Check that a bias is of the accumulator's kind."""
    if single:
        if bias.dtype.kind != "f":
            raise InputError(
                f"bias: must be floating-point numbers, such as 1.0, in the unit of sums in"
                f" {SINGLE}, not {bias.dtype}"
            )
        return
    if bias.dtype.kind not in "iu":
        raise InputError(
            f"bias: must be integers, not {bias.dtype}; divide it by the scale and round it"
        )
    _check_range("bias", bias)


def _check_range(name: str, array: NDArray[Any]) -> None:
    low, high = _RANGES[name]
    if int(array.min()) < low or int(array.max()) > high:
        raise InputError(
            f"{name}: must be {low}..{high}, not {int(array.min())}..{int(array.max())}"
        )


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
    if name in _INTEGER:
        if array.dtype.kind not in "iu":
            raise InputError(f"{name}: must be integers, not {array.dtype}")
        _check_range(name, array)
    elif array.dtype.kind not in "iuf":
        raise InputError(f"{name}: must be numbers, not {array.dtype}")
    return array
