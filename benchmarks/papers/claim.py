"""A claim of a paper, and our figure for it."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.errors import RecordingError, UsageError

RESULTS = Path(__file__).resolve().parents[2] / "results"

NO_DEVICE = "any"
"""The device of a figure that depends on none, such as a count."""


@dataclass(frozen=True)
class Settings:
    """`data` is the folder of recordings of real GPUs, None without; `quick` asks for few draws."""

    data: Path | None = None
    quick: bool = False

    def recording(self, path: str) -> Path:
        """Return the path of a recording. Raises NoFigure without --data."""
        if self.data is None:
            raise NoFigure(f"it needs {path} in the folder that --data names")
        found = self.data / path
        if not found.is_file():
            raise RecordingError(f"{found} does not exist; --data names the folder of {path}")
        return found


class NoFigure(UsageError):
    """A figure needs a recording, and no --data was given, or its benchmark has not been run."""


@dataclass(frozen=True)
class Figure:
    """Our figure with its spread, the device that was measured, and the date."""

    ours: str
    device: str = NO_DEVICE
    date: str = field(default_factory=lambda: str(datetime.date.today()))


@dataclass(frozen=True)
class Claim:
    """`published` is the paper's figure, `command` measures ours, `measure` computes it, or
    reads it from the committed results of `command`; None where that takes a GPU."""

    name: str
    text: str
    published: str
    command: str
    measure: Callable[[Settings], Figure] | None


@dataclass(frozen=True)
class Paper:
    """A paper with its claims."""

    title: str
    claims: tuple[Claim, ...]


def short(device: str) -> str:
    """Shorten `pthread-AMD EPYC, 2 compute units (Portable Computing Language, ...)`, which is
    PoCL's name of a CPU, and other names alike."""
    name, _, rest = device.partition(", ")
    on_cpu = any(platform in rest for platform in ("Portable Computing Language", "PoCL"))
    return f"{name.removeprefix('pthread-')} (CPU), PoCL" if on_cpu else name


def runs(path: Path, of: str) -> Iterator[tuple[dict[str, Any], Figure]]:
    """Iterate over the rows of a benchmark's committed JSON lines, sorted by kernel, with the
    device and date of each in a figure that has no text yet. Of a kernel's rows the last counts.

    Raises UsageError for a file that is not of that form.
    """
    found: dict[str, tuple[dict[str, Any], Figure]] = {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            run = json.loads(line)
            figure = Figure("", short(run["device"]), run["date"])
            found |= {row["kernel"]: (row, figure) for row in run[of]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} does not hold the JSON lines of its benchmark: {error}") from None
    yield from (found[kernel] for kernel in sorted(found))


def joined(parts: Sequence[tuple[str, Figure]]) -> Figure:
    """Join figures of several kernels, with each device and date once.

    Raises NoFigure where there are none.
    """
    if not parts:
        raise NoFigure("its benchmark has no result yet; add its JSON line to results/")
    devices = ", ".join(dict.fromkeys(figure.device for _, figure in parts))
    dates = ", ".join(dict.fromkeys(figure.date for _, figure in parts))
    return Figure("; ".join(text for text, _ in parts), devices, dates)
