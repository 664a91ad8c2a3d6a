# SPDX-License-Identifier: Apache-2.0
"""The core of an engine: a configuration of another family inside a configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError

from hwgen.config.parameters import either
from hwgen.core.core import Core
from hwgen.core.params.base import FamilyConfig
from hwgen.core.params.target import Target
from hwgen.core.registry import families


@dataclass(frozen=True)
class InnerCore:
    """Cores that an engine accepts, and those of their fields that are the engine's.

    Parameters
    ----------
    fits : callable
        Says whether a core of a class can be inside the engine.
    outer : tuple of str
        Fields of a core that are those of the engine.
    where : str
        The engine in a message.
    """

    fits: Callable[[type[Core[Any]]], bool]
    outer: tuple[str, ...]
    where: str

    def family(self, name: object) -> type[FamilyConfig] | None:
        """Return the configuration of a family, None if it cannot work inside the engine."""
        registered = families()
        core = registered[name] if isinstance(name, str) and name in registered else None
        return core.params_class if core is not None and self.fits(core) else None

    def families(self) -> dict[str, type[FamilyConfig]]:
        """Return the configurations of the families that can work inside the engine, by name."""
        return {name: config for name in families() if (config := self.family(name))}

    def validate(self, value: Any, info: ValidationInfo) -> Any:
        """Return the configuration of the core; it has the target of the engine."""
        if isinstance(value, FamilyConfig):
            return value
        if not isinstance(value, dict):
            raise PydanticCustomError("compute", "must hold the parameters of a core")
        model = self.family(value.get("family"))
        if model is None:
            names = either(tuple(self.families()))
            raise PydanticCustomError(
                "core", "must have a family inside {where}: {known}",
                {"where": self.where, "known": names},
            )  # fmt: skip
        for key in self.outer:
            if key in value:
                raise PydanticCustomError(
                    "rules", "{key}: belongs to the engine; remove it here", {"key": key}
                )
        target = info.data.get("target", Target())
        return model.model_validate({**value, "name": "core", "target": target})

    def resolved(self, core: FamilyConfig) -> dict[str, Any]:
        """Return every parameter of a core but those of the engine, as plain JSON values."""
        return {key: value for key, value in core.resolved().items() if key not in self.outer}

    def explicit_values(self, core: FamilyConfig) -> dict[str, Any]:
        """Return the values of a core that a configuration file sets."""
        values = core.model_dump(mode="json", exclude_defaults=True, exclude=set(self.outer))
        return {"family": core.family, **values}
