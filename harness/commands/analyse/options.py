"""The options of harness.analyse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from harness.analysis import SLOWDOWN


@dataclass(frozen=True)
class TreeOptions:
    """What to print about the tree of a target; see `--help`."""

    target: str = SLOWDOWN
    per: tuple[str, ...] = ()
    depth: int | None = None
    picture: Path | None = None
    inside: str | None = None
    limits: tuple[tuple[str, float], ...] = ()
    threshold: float | None = None

    @property
    def is_default(self) -> bool:
        """Whether nothing was asked for that is not always printed."""
        return self == TreeOptions()

    def with_picture_of(self, name: str) -> TreeOptions:
        """Put a name into that of the picture, so that several trees have a file each."""
        if self.picture is None:
            return self
        return replace(self, picture=self.picture.with_stem(f"{self.picture.stem}-{name}"))


@dataclass(frozen=True)
class AnalyseOptions:
    """The databases to read, and which of their campaigns."""

    database: tuple[str, ...]
    space: str | None
    all_campaigns: bool
    kernel_version: str
    platforms: bool
    summary: bool = False
    by_input: str | None = None
    json: bool = False
