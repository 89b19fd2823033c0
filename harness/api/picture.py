"""A picture that a notebook shows, and that can be saved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.core.files import WRITTEN_BY, write_output


@dataclass(frozen=True)
class Picture:
    """A picture as SVG."""

    svg: str

    def __post_init__(self) -> None:
        # The report's pictures take the colours of its page.
        plain = self.svg.replace("var(--paper)", "white").replace("currentColor", "#444")
        object.__setattr__(self, "svg", plain)

    def save(self, path: str | Path) -> Path:
        """Write the SVG file, in place of an earlier picture of harness; return its path.

        Raises UsageError where another file is there.
        """
        write_output(Path(path), f"<!-- {WRITTEN_BY} -->{self.svg}")
        return Path(path)

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Picture({len(self.svg):,} characters of SVG; .save(path) writes it)"
