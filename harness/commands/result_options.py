"""The options of the commands that judge results: analyse and compare."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from harness.analysis import SLOWDOWN
from harness.api.options import (
    databases_argument,
    device_option,
    json_flag,
    space_option,
    version_option,
)
from harness.compare import FEWEST_OCCASIONS, LEVEL, MOST_OCCASIONS, OCCASIONS, RUN_NOISE, THRESHOLD
from harness.core.errors import UsageError
from harness.core.files import check_output, check_writable
from harness.core.options import (
    BACKENDS,
    PATH,
    TEXT,
    Kind,
    Options,
    argument,
    flag,
    number,
    option,
    path,
    whole,
)

# ---------------------------------------------------------------------------------- analyse

_AUTO = "auto"
_CHOICES = (_AUTO, "tree", "ensemble", "gadapt")  # as harness.dispatch.study, which loads slowly


def _choice(value: Any) -> str:
    if value not in _CHOICES:
        raise ValueError
    return str(value)


def _limit(word: str) -> tuple[str, float]:
    name, _, limit = word.partition("=")
    if not math.isfinite(float(limit)):
        raise ValueError
    return name.strip(), float(limit)


_OF_TREES = ("target", "per", "depth", "threshold", "picture", "inside", "limits")


@dataclass(frozen=True)
class AnalyseOptions(Options):
    """Print what a database holds: the best configuration of every input, the parameters that
    times depend on, and which configuration to use for which input. It measures nothing."""

    groups: ClassVar = {"target": "importance and trees (docs/howto/find_what_matters.md)"}

    database: Sequence[str] = databases_argument()
    space: str | None = space_option()
    all_campaigns: bool = flag("include campaigns that a later --fresh replaced")
    summary: bool = flag(
        "only print programs by devices: failures, and speed-ups over each baseline"
    )
    by_input: str | None = option(
        Kind(f"{', '.join(_CHOICES)} (databases stand before it)", _choice),
        "CHOICE",
        "print the worst, default and predicted time of each input; predicted by tree, ensemble "
        "or gadapt (G-ADAPT's model), without this input (default: the one that "
        "harness.dispatch writes)",
        nargs="?",
        const=_AUTO,
    )
    kernel_version: str = version_option()
    json: bool = json_flag()
    target: str = option(
        TEXT,
        "NAME",
        "predict slowdown (default), time_s, or an observed quantity",
        default=SLOWDOWN,
    )
    per: Sequence[str] = option(
        TEXT, "FEATURE", "divide the target by this feature; may be repeated", several=True
    )
    depth: int | None = option(
        whole(1, 50, "50"),
        "DEPTH",
        "print the tree down to this depth (default 4)",
        "--tree",
        nargs="?",
        const=4,
    )
    threshold: float | None = option(
        number("a number from 0 to below 1", lambda share: 0 <= share < 1),
        "SHARE",
        "grow trees by the published rule, until no split removes this share of the squared "
        "error, such as 0 or 1e-6 (default: prune them by cross-validation)",
    )
    picture: Path | None = option(
        path(".png", ".svg", ".pdf"),
        "FILE",
        "draw the tree as PNG, SVG or PDF; several trees get a number in the file name",
    )
    inside: str | None = option(
        TEXT, "CONDITION", "print the importance in a part of the space, such as 'BLOCK >= 256'"
    )
    limits: Sequence[tuple[str, float]] = option(
        Kind("TARGET=LIMIT, such as time_s=0.01", tuple, _limit),
        "TARGET=LIMIT",
        "list settings with the target below a limit, such as time_s=0.01; may be repeated",
        "--below",
        several=True,
    )
    platforms: bool = flag("grow one tree for all devices, with the platform as a parameter")

    def check(self) -> None:
        """Refuse a picture that cannot be written."""
        if self.picture is not None:
            check_writable(self.picture, "name another file with --picture")

    @property
    def asks_of_trees(self) -> bool:
        """Whether anything was asked of trees that is not always printed."""
        defaults = AnalyseOptions(())
        return any(getattr(self, name) != getattr(defaults, name) for name in _OF_TREES)

    def with_picture_of(self, name: str) -> AnalyseOptions:
        """Put a name into that of the picture, so that several trees have a file each."""
        if self.picture is None:
            return self
        return replace(self, picture=self.picture.with_stem(f"{self.picture.stem}-{name}"))


# ---------------------------------------------------------------------------------- compare


def _fraction(word: str) -> float:
    return float(word.removesuffix("%")) / (100 if word.endswith("%") else 1)


def _change(word: str) -> float:
    """Read a change as a fraction: 0.02 for 1.02x, 2% and 0.02."""
    return float(word[:-1]) - 1 if word.endswith("x") else _fraction(word)


@dataclass(frozen=True)
class CompareOptions(Options):
    """Say whether CANDIDATE is slower or faster than BASE, or within noise, for each kernel and
    input. Exit code: 0 if nothing became slower; 1 if something did, or works no more; 2 if no
    comparison is possible."""

    groups: ClassVar = {
        "threshold": "test",
        "rerun": "rerun: measure both sides again, interleaved",
        "json": "output, besides the text",
    }

    base: str = argument(TEXT, "BASE", "results database")
    candidate: str = argument(TEXT, "CANDIDATE", "results database")
    space: str | None = space_option("only the kernel of this space")
    spec: Sequence[Path] = option(
        PATH,
        "FILE",
        "space file: compare only CANDIDATE's results of its current sources; may be repeated",
        several=True,
    )
    of: str = option(
        TEXT,
        None,
        "compare the best of each side, the default of each side, or both (default both)",
        default="both",
        choices=("both", "best", "default"),
    )
    across_environments: bool = flag("compare even if device, driver or compiler differ")
    threshold: float = option(
        number("a ratio below 2 such as 1.02x, or 2% or 0.02", lambda x: 0 <= x < 1, _change),
        "X",
        "ignore smaller changes; a ratio or a fraction, such as 1.02x, 2% or 0.02 "
        f"(default {1 + THRESHOLD:.3f}x)",
        default=THRESHOLD,
    )
    level: float = option(
        number("above 0 and below 1, or a percentage", lambda p: 0 < p < 1, _fraction),
        "P",
        "probability of any false `slower` or `faster`, and of any missed slowdown above its "
        f"limit (default {LEVEL})",
        default=LEVEL,
    )
    run_noise: float = option(
        number("from 0 to below 1, or a percentage", lambda p: 0 <= p < 1, _fraction),
        "P",
        "noise between runs, as a fraction of the time, if nothing was measured twice "
        f"(default {RUN_NOISE})",
        default=RUN_NOISE,
    )
    rerun: Sequence[Path] | None = option(
        PATH,
        "SPACE",
        "measure the best and the default of both sides now, and compare only these "
        "measurements. SPACE: space files of CANDIDATE's sources (default: those of --spec, else "
        "spaces/NAME.yaml of each kernel)",
        nargs="*",
    )
    base_space: Sequence[Path] = option(
        PATH,
        "SPACE",
        "space file of BASE's sources, if they differ from CANDIDATE's; may be repeated",
        several=True,
    )
    rerun_database: str = option(
        TEXT,
        "DATABASE",
        "database for the new measurements (default results/rerun.db)",
        default="results/rerun.db",
    )
    occasions: int = option(
        whole(FEWEST_OCCASIONS, MOST_OCCASIONS, str(MOST_OCCASIONS)),
        "N",
        f"how often both sides are loaded and measured, in random order (default {OCCASIONS})",
        default=OCCASIONS,
    )
    backend: str = option(
        TEXT, None, "where kernels run (default auto)", default="auto", choices=BACKENDS
    )
    device: Sequence[str] = device_option()
    json: bool = json_flag()
    junit: Path | None = option(PATH, "FILE", "write JUnit XML, for CI's pages")

    def check(self) -> None:
        """Refuse options that need --rerun, and an output that cannot be written."""
        if self.rerun is None and self.base_space:
            raise UsageError("--base-space goes with --rerun, which builds the sources of BASE")
        if self.rerun is None and self.device:
            raise UsageError("--device goes with --rerun, which measures; leave it out")
        if self.junit is not None:
            check_output(self.junit)
