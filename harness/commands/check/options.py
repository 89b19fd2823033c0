"""The options of harness.check."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DEFAULT_SAMPLE = 8
SPACE_SCHEMA = "space"
"""The word for the JSON Schema of spaces."""


@dataclass(frozen=True)
class CheckOptions:
    """The options of the command, as its parser describes them."""

    spaces: tuple[Path, ...]
    backend: str | None
    device: tuple[str, ...]
    archs: tuple[str, ...]
    sample: int | None
    compile: int | None
    strict: bool
    seed: int
    no_compile: bool
    run: bool = False
    json: bool = False

    @property
    def names_target(self) -> bool:
        """Whether a backend, a device or an architecture was named."""
        return bool(self.backend or self.device or self.archs)

    @property
    def others(self) -> int:
        """The number of configurations that are compiled besides the default."""
        drawn = self.sample if self.compile is None else self.compile
        default = DEFAULT_SAMPLE if self.names_target else 0
        return default if drawn is None else drawn
