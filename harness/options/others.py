"""The options of the other commands, and the list of all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness.analysis import SLOWDOWN
from harness.compare import FEWEST_OCCASIONS, LEVEL, MOST_OCCASIONS, OCCASIONS, RUN_NOISE, THRESHOLD
from harness.core.errors import UsageError
from harness.core.files import check_output, check_writable
from harness.core.options import BACKENDS, PATH, SEED, TEXT, Kind, Options, argument, flag, option
from harness.options.check import CheckOptions
from harness.options.dispatch import DispatchOptions, RecheckOptions
from harness.options.shared import PAGE, device_option, json_flag
from harness.options.tune import ReplayOptions, TuneOptions

ENDINGS = {"t4": ".t4.json", "csv": ".csv"}


# --------------------------------------------------------------------------------- discover


@dataclass(frozen=True)
class DiscoverOptions(Options):
    """Write a space from a kernel's pragmas, constants, loops and signature, or from the list of
    @triton.autotune. FILL IN and CONFIRM mark what you must add or check."""

    epilog: ClassVar = """\
A pragma declares a parameter, above a #define or above a loop:

  #pragma erange 64,512,2
  #define BLOCK 256

  #pragma unroll_range 1,8
  for (int k = 0; k < 16; k++) ...

docs/reference/pragmas.md explains all pragmas. Without them, harness suggests values of #defines.
With --triton, the values are those of the listed configurations; SOURCE is not run.
Exit code: 0 on success, 2 for an error in a pragma, in the list or in the command.
"""

    source: Path = argument(PATH, "SOURCE")
    """a CUDA or OpenCL file; with --triton, a Python file"""
    triton: bool = flag()
    """read the configurations of a kernel under @triton.autotune"""
    function: str | None = option(TEXT, "NAME")
    """the kernel, if the file has several"""
    output: Path | None = option(PATH, "FILE")
    """a new file for the space (default: standard output)"""
    host: Path | None = option(PATH, "FILE")
    """a new file for the skeleton of the host module"""

    def check(self) -> None:
        """Refuse to overwrite a file, and host modules that Python cannot import."""
        output, host = self.output, self.host
        if output and host and output.resolve() == host.resolve():
            raise UsageError(f"{output} cannot be both the space and the host module")
        for new in filter(None, (output, host)):
            if new.exists() or new.is_symlink():
                raise UsageError(f"{new} already exists; name a new file")
            check_writable(new, "name a file in another folder")
        if host and host.suffix != ".py":
            raise UsageError(f"{host} is not a Python file; its name must end in .py")


# ---------------------------------------------------------------------------------- example


EXAMPLES: Mapping[str, Sequence[str]] = {
    "mvmul": ("spaces/mvmul.yaml", "kernels/mvmul.cl", "kernels/mvmul.py", "kernels/portable.h"),
    "transpose": (
        "spaces/transpose.yaml",
        "kernels/transpose.cl",
        "kernels/transpose.py",
        "kernels/portable.h",
    ),
    "softmax": (
        "spaces/modern/softmax.yaml",
        "kernels/softmax.cu",
        "kernels/softmax.cl",
        "kernels/softmax.py",
    ),
    "blur": ("spaces/blur_gcc.yaml", "examples/blur.c"),
}
"""The files of each example, first the space."""


@dataclass(frozen=True)
class ExampleOptions(Options):
    """Write an example to tune: a space, and the kernel or program that it names."""

    name: str = argument(TEXT, choices=tuple(EXAMPLES))
    """mvmul: a matrix-vector product for OpenCL and CUDA, over matrices of many shapes; transpose:
    a matrix transpose with four configurations; softmax: a softmax in half precision, in C++ for
    CUDA and in C for OpenCL; blur: a C program and gcc's flags; needs no GPU"""
    output: Path = option(PATH, "FOLDER", names=("-o", "--output"), default=Path())
    """where to write it (default: here)"""

    def check(self) -> None:
        """Refuse to overwrite a file, before any is written."""
        check_writable(self.output, "name another folder with --output", parents=True)
        for file in EXAMPLES[self.name]:
            if (path := self.output / file).exists():
                raise UsageError(f"{path} already exists; name another folder with --output")


# ----------------------------------------------------------------------------------- export


_VERSIONS = {"kernel-version": "`harness analyse DATABASE --all-campaigns`, which shows them all"}


@dataclass(frozen=True)
class ExportOptions(Options):
    """Write every sample and failure of a database's last campaign, as T4 results or as CSV with
    its mapping."""

    moved: ClassVar = _VERSIONS

    database: str = argument(TEXT, "DATABASE")
    """SQLite file or postgresql:// URL"""
    format: str = option(TEXT, default="t4", choices=tuple(ENDINGS))
    """format (default t4)"""
    space: str | None = option(TEXT, "NAME")
    """only the space of this name"""
    output: Path | None = option(PATH, "FILE")
    """file to write (default: the space's name, next to the database)"""

    def check(self) -> None:
        """Refuse an output that cannot be written."""
        if self.output is not None:
            check_output(self.output)


# ------------------------------------------------------------------------------------ merge


@dataclass(frozen=True)
class MergeOptions(Options):
    """Add the measurements of results databases to OUT; those that OUT has already are not added
    again. The inputs do not change; OpenTuner may have made them without harness. A merged search
    can be continued in OUT."""

    moved: ClassVar = _VERSIONS

    out: str = argument(TEXT, "OUT")
    """database to add to (SQLite file or postgresql:// URL); may be new"""
    inputs: Sequence[str] = argument(TEXT, "IN", nargs="+")
    """database to add (SQLite file or postgresql:// URL)"""


# ------------------------------------------------------------------------ devices and schema

WITH_JSON = ("analyse", "check", "compare", "dispatch", "replay", "report", "tune")
"""The commands that take --json."""


@dataclass(frozen=True)
class DevicesOptions(Options):
    """List this machine's devices, as --device names them."""


@dataclass(frozen=True)
class SchemaOptions(Options):
    """Print the JSON Schema of spaces, or of what a command prints with --json."""

    command: str | None = argument(TEXT, nargs="?", choices=WITH_JSON)
    """a command; without one, spaces"""


# ----------------------------------------------------------------------------------- report


@dataclass(frozen=True)
class ReportOptions(Options):
    """Write the results of databases as one HTML page, which needs no network."""

    moved: ClassVar = _VERSIONS

    database: Sequence[str] = argument(TEXT, "DATABASE", nargs="+")
    """results database"""
    output: Path = option(PAGE, "FILE", names=("-o", "--output"), required=True)
    """the page (.html)"""
    space: str | None = option(TEXT, "NAME")
    """only the space of this name"""
    weights: Path | None = option(PATH, "FILE")
    """a workload: judge the choice by how often inputs come, and show how many calls the tuned
    range covers"""
    json: bool = json_flag()

    def check(self) -> None:
        """Refuse an output that cannot be written."""
        check_output(self.output)


# ---------------------------------------------------------------------------------- stencil


@dataclass(frozen=True)
class StencilOptions(Options):
    """Write the space of a stencil: variants of its kernel, each with several
    thread configurations."""

    epilog: ClassVar = """\
A stencil is a Python file that defines an expression and a reference
(kernels/stencils/README.md).
Exit code: 0 if the space is written, 2 for an error in the stencil or in the command.
"""

    command: str = argument(TEXT, choices=("explore",))
    stencil: Path = argument(PATH, "STENCIL.py")
    """a Python file; kernels/stencils has eight"""
    size: int = option(Kind.whole(1), "N", required=True)
    """length of a side, the argument of expression()"""
    count: int = option(Kind.whole(1), "K", default=1000)
    """points in the space (default 1000)"""
    threads: int = option(Kind.whole(1), "K", default=10)
    """most thread configurations of a variant (default 10)"""
    output: Path | None = option(PATH, "FOLDER", names=("-o", "--output"))
    """a new folder (default NAME_SIZE)"""
    seed: int = option(SEED, default=0)
    """seed of the random draws (default 0)"""
    designs: str = option(TEXT, default="own", choices=("own", "shared"))
    """draw other points than for other stencils (own, the default), or the same tiles, mappings
    and threads for all (shared)"""
    warp: int = option(Kind.whole(1), "K", default=32)
    """threads that the device runs in step, for the features: 64 on some of AMD's GPUs
    (default 32)"""


# ----------------------------------------------------------------------------------- worker


@dataclass(frozen=True)
class WorkerOptions(Options):
    """Build and measure on this machine for `harness tune --cluster ADDRESS`, until the scheduler
    ends. Whoever reaches the scheduler runs kernels here as you."""

    address: str = argument(TEXT, "ADDRESS")
    """the Dask scheduler's, tls://HOST:PORT"""
    device: Sequence[str] = option(TEXT, "NAME", several=True)
    """offer this device, as `harness tune --device` names it; may be repeated (default: all
    equal ones)"""
    insecure: bool = flag()
    """allow an address without encryption"""
    quiet: bool = flag()
    """print errors alone"""


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

    base: str = argument(TEXT, "BASE")
    """results database"""
    candidate: str = argument(TEXT, "CANDIDATE")
    """results database"""
    space: str | None = option(TEXT, "NAME")
    """only the kernel of this space"""
    spec: Sequence[Path] = option(PATH, "FILE", several=True)
    """space file: compare only CANDIDATE's results of its current sources; may be repeated"""
    of: str = option(TEXT, default="both", choices=("both", "best", "default"))
    """compare the best of each side, the default of each side, or both (default both)"""
    across_environments: bool = flag()
    """compare even if device, driver or compiler differ"""
    threshold: float = option(
        Kind.number("a ratio below 2 such as 1.02x, or 2% or 0.02", lambda x: 0 <= x < 1, _change),
        "X",
        "ignore smaller changes; a ratio or a fraction, such as 1.02x, 2% or 0.02 "
        f"(default {1 + THRESHOLD:.3f}x)",
        default=THRESHOLD,
    )
    level: float = option(
        Kind.number("above 0 and below 1, or a percentage", lambda p: 0 < p < 1, _fraction),
        "P",
        "probability of any false `slower` or `faster`, and of any missed slowdown above its "
        f"limit (default {LEVEL})",
        default=LEVEL,
    )
    run_noise: float = option(
        Kind.number("from 0 to below 1, or a percentage", lambda p: 0 <= p < 1, _fraction),
        "P",
        "noise between runs, as a fraction of the time, if nothing was measured twice "
        f"(default {RUN_NOISE})",
        default=RUN_NOISE,
    )
    rerun: Sequence[Path] | None = option(PATH, "SPACE", nargs="*")
    """measure the best and the default of both sides now, and compare only these measurements.
    SPACE: space files of CANDIDATE's sources (default: those of --spec, else spaces/NAME.yaml
    of each kernel)"""
    base_space: Sequence[Path] = option(PATH, "SPACE", several=True)
    """space file of BASE's sources, if they differ from CANDIDATE's; may be repeated"""
    rerun_database: str = option(TEXT, "DATABASE", default="results/rerun.db")
    """database for the new measurements (default results/rerun.db)"""
    occasions: int = option(
        Kind.whole(FEWEST_OCCASIONS, MOST_OCCASIONS, str(MOST_OCCASIONS)),
        "N",
        f"how often both sides are loaded and measured, in random order (default {OCCASIONS})",
        default=OCCASIONS,
    )
    backend: str = option(TEXT, default="auto", choices=BACKENDS)
    """where kernels run (default auto)"""
    device: Sequence[str] = device_option()
    json: bool = json_flag()
    junit: Path | None = option(PATH, "FILE")
    """write JUnit XML, for CI's pages"""

    def check(self) -> None:
        """Refuse options that need --rerun, and an output that cannot be written."""
        if self.rerun is None and self.base_space:
            raise UsageError("--base-space goes with --rerun, which builds the sources of BASE")
        if self.rerun is None and self.device:
            raise UsageError("--device goes with --rerun, which measures; leave it out")
        if self.junit is not None:
            check_output(self.junit)


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


_OF_TREES = ("target", "per", "depth", "threshold", "inside", "limits")


@dataclass(frozen=True)
class AnalyseOptions(Options):
    """Print what a database holds: the best configuration of every input, the parameters that
    times depend on, and which configuration to use for which input. It measures nothing."""

    moved: ClassVar = _VERSIONS
    groups: ClassVar = {"target": "importance and trees (docs/howto/find_what_matters.md)"}

    database: Sequence[str] = argument(TEXT, "DATABASE", nargs="+")
    """results database"""
    space: str | None = option(TEXT, "NAME")
    """only the space of this name"""
    all_campaigns: bool = flag()
    """include campaigns that a later --fresh replaced, and those of earlier versions of an edited
    kernel"""
    summary: bool = flag()
    """only print programs by devices: failures, and speed-ups over each baseline"""
    by_input: str | None = option(
        Kind(", ".join(_CHOICES), _choice), "CHOICE", nargs="?", const=_AUTO
    )
    """print the worst, default and predicted time of each input; predicted by tree, ensemble or
    gadapt (G-ADAPT's model), without this input (default: the one that harness dispatch
    writes)"""
    json: bool = json_flag()
    target: str = option(TEXT, "NAME", default=SLOWDOWN)
    """predict slowdown (default), time_s, or an observed quantity"""
    per: Sequence[str] = option(TEXT, "FEATURE", several=True)
    """divide the target by this feature; may be repeated"""
    depth: int | None = option(
        Kind.whole(1, 50, "50"), "DEPTH", names=("--tree",), nargs="?", const=4
    )
    """print the tree down to this depth (default 4)"""
    threshold: float | None = option(
        Kind.number("a number from 0 to below 1", lambda share: 0 <= share < 1), "SHARE"
    )
    """grow trees by the published rule, until no split removes this share of the squared error,
    such as 0 or 1e-6 (default: prune them by cross-validation)"""
    inside: str | None = option(TEXT, "CONDITION")
    """print the importance in a part of the space, such as 'BLOCK >= 256'"""
    limits: Sequence[tuple[str, float]] = option(
        Kind("TARGET=LIMIT, such as time_s=0.01", tuple, _limit),
        "TARGET=LIMIT",
        names=("--below",),
        several=True,
    )
    """list settings with the target below a limit, such as time_s=0.01; may be repeated"""
    platforms: bool = flag()
    """grow one tree for all devices, with the platform as a parameter"""

    def check(self) -> None:
        """Refuse options that exclude each other."""
        has_more = self.platforms or self.by_input or self.asks_of_trees
        if self.json and (self.summary or has_more):
            raise UsageError(
                "--json has the same content always; leave out --summary, --by-input and the "
                "options of trees"
            )
        if self.summary and has_more:
            raise UsageError(
                "--summary prints nothing else; leave out --by-input and the options of trees"
            )

    @property
    def asks_of_trees(self) -> bool:
        """Whether anything was asked of trees that is not always printed."""
        defaults = AnalyseOptions(())
        return any(getattr(self, name) != getattr(defaults, name) for name in _OF_TREES)


MODELS: Mapping[str, type[Options]] = {
    "analyse": AnalyseOptions,
    "check": CheckOptions,
    "compare": CompareOptions,
    "devices": DevicesOptions,
    "discover": DiscoverOptions,
    "dispatch": DispatchOptions,
    "example": ExampleOptions,
    "export": ExportOptions,
    "merge": MergeOptions,
    "recheck": RecheckOptions,
    "replay": ReplayOptions,
    "report": ReportOptions,
    "schema": SchemaOptions,
    "stencil": StencilOptions,
    "tune": TuneOptions,
    "worker": WorkerOptions,
}
"""The options of each command; `run` of harness/commands/NAME.py takes them."""
