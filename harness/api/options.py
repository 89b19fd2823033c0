"""The options of analyse, check, dispatch and recheck."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.analysis import SLOWDOWN
from harness.core.errors import UsageError
from harness.core.files import check_output
from harness.core.options import BACKENDS, PATH, SEED, TEXT, Kind, Options, argument, flag, option
from harness.core.text import command_line

if TYPE_CHECKING:  # it takes a while to load
    from harness.space_file import Spec


def _space(value: Any) -> Any:
    if isinstance(value, str | Path):
        return Path(value)
    from harness.space_file import Spec  # here: it takes half a second to load

    if not isinstance(value, Spec):
        raise ValueError
    return value


def _device(value: Any) -> str:
    is_index = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0
    if not is_index and not isinstance(value, str):
        raise ValueError
    return str(value)


def _seconds(word: str) -> float:
    unit_s = {"s": 1, "m": 60, "h": 3600}.get(word[-1:])
    return float(word[:-1]) * unit_s if unit_s else float(word)


PAGE = Kind.path(".html", ".htm")
SPACE = Kind("the path of a space, or a Spec", _space)
SECONDS = Kind.number("seconds above 0, up to 10^9", lambda value: 0 < value <= 10**9, _seconds)
DEVICE = Kind("the name or the index of a device", _device)

WHERE = (
    "where kernels run (default auto: CUDA with a GPU, else an OpenCL GPU, else PoCL on the CPU)"
)


def device_option(more: str = "") -> Any:
    """Make the option that names a device, or several (harness.measure.devices)."""
    return option(
        DEVICE,
        "NAME",
        lambda: (
            "which GPU or CPU runs kernels: index, UUID or part of its name; "
            f"`{command_line('devices')}` lists them (default: the first){more}"
        ),
        several=True,
    )


def json_flag() -> Any:
    """Make the option that prints a document for scripts (harness.api.documents)."""
    return flag(
        "print one JSON document (docs/reference/json.md); all else goes to standard error",
        in_python=False,
    )


def version_option(default: str = "newest") -> Any:
    """Make the option that chooses a version of an edited kernel (harness.results.provenance)."""
    return option(
        TEXT,
        "VERSION",
        "version of an edited kernel: newest (tuned last), all, or one that analyse lists "
        f"(default {default})",
        default=default,
    )


@dataclass(frozen=True)
class DispatchOptions(Options):
    """Learn which configuration suits which input, judge the choice on held-out inputs, and write
    it as C, C++ and Python code with its kernels. Of a space that tunes a program, write the
    programs and a launcher, which reads the features of an input from its arguments and runs the
    right one."""

    groups: ClassVar = {"choice": "learning and judging"}
    moved: ClassVar = {"recheck": "`harness recheck FOLDER`"}

    database: Sequence[str] = argument(TEXT, "DATABASE", nargs="+")
    """results database"""
    output: Path = option(PATH, "FOLDER", names=("-o", "--output"), required=True)
    """folder to write"""
    space: str | None = option(TEXT, "NAME")
    """only the space of this name"""
    device: str | None = option(TEXT, "NAME")
    """take the results of the device whose name contains this"""
    spec: Path | Spec | None = option(SPACE, "FILE")
    """the space's YAML file (default: the file that was tuned, else spaces/NAME.yaml)"""
    arch: str | None = option(TEXT, "SM")
    """architecture of CUDA's cubins (default: the tuned one)"""
    json: bool = json_flag()
    choice: str = option(TEXT, default="auto", choices=("auto", "tree", "ensemble", "gadapt"))
    """one tree, an ensemble of trees, or G-ADAPT's model (a tree for each parameter, with
    least-squares leaves), written even if it is no faster than one configuration. auto writes
    that configuration if no choice is significantly faster, and the ensemble only if it is
    significantly faster than the tree, by 1 % or more (default auto)"""
    most: int | None = option(Kind.whole(1, 200, "200"), "K")
    """choose among at most K configurations: those whose best is the fastest in the mean of all
    inputs (default: as many as gain; `analyse` says what each more gains)"""
    require_choice: bool = flag()
    """end with 1, and write nothing, where no choice by input is significantly faster than one
    configuration"""
    weights: Path | None = option(PATH, "FILE")
    """a workload: learn and judge by how often its inputs come, and say how many calls the
    tuned range covers (docs/explanation/dispatch.md)"""
    format: str | None = option(TEXT, choices=("vllm",))
    """also write the choice as tables by M, which vLLM and Hugging Face's kernels read
    (docs/howto/tables_for_vllm.md)"""
    seed: int = option(Kind.whole(0, 2**32 - 1, "2^32 - 1"), default=0)
    """seed of the folds and trees (default 0)"""


@dataclass(frozen=True)
class RecheckOptions(Options):
    """Measure the folder of a dispatcher here and now: its configurations, interleaved, on inputs
    of each leaf of its choice; print which still hold (docs/howto/recheck_a_dispatcher.md). Exit
    code: 0 if all do; 1 if one does not; 2 if nothing can be measured."""

    folder: Path = argument(PATH, "FOLDER")
    """what `dispatch -o` wrote"""
    output: Path | None = option(PATH, "FILE", names=("-o", "--output"))
    """write the inputs whose choice fell, for `harness.tune --inputs-from`"""
    max_time_s: float | None = option(SECONDS, "SECONDS", names=("--max-time",))
    """measure for SECONDS (or such as 5m) at most"""
    spec: Path | None = option(PATH, "FILE")
    """the space's YAML file (default: the file that was tuned, by the database)"""
    seed: int = option(SEED, default=0)
    """seed of the draw of inputs (default 0)"""

    def check(self) -> None:
        """Refuse an output that cannot be written."""
        if self.output is not None:
            check_output(self.output)


_DEFAULT_COMPILED = 8


@dataclass(frozen=True)
class CheckOptions(Options):
    """Validate spaces, count their configurations, and compile the default.
    The host module runs; the kernel runs only with --run. The default of a program is built
    and run; with --compile it is only built."""

    epilog: ClassVar = """\
For completion in an editor, write the schema to a file and name it in the first line of a
space:

  python -m harness schema > space.schema.json
  # yaml-language-server: $schema=../space.schema.json

Exit code: 0 on success; 1 if a default or a host module fails, or with --strict any
configuration; 2 for a fault in a space or in the command.
"""
    interrupted: ClassVar = (
        "; the build cache has what was compiled, and the same command continues from there"
    )

    spaces: Sequence[Path] = argument(SPACE, "SPACE", nargs="*")
    """space file (YAML)"""
    backend: str | None = option(TEXT, None, WHERE, choices=BACKENDS)
    device: Sequence[str] = device_option()
    archs: Sequence[str] = option(TEXT, "SM", names=("--arch",), several=True)
    """compile for this NVIDIA architecture, such as sm_90, or for several, such as sm_80,sm_90;
    needs no GPU"""
    compile: int | None = option(
        Kind.whole(0),
        "N",
        "also compile N other legal configurations, drawn uniformly, and print a summary: machine "
        f"codes, resources and failures (default {_DEFAULT_COMPILED} with --backend, --device or "
        "--arch; else 0)",
    )
    strict: bool = flag(in_python=False)
    """with --compile: exit with 1 if any configuration fails"""
    seed: int = option(SEED, default=0)
    """seed of the draw (default 0)"""
    no_compile: bool = flag()
    """only validate and describe"""
    run: bool = flag()
    """run the default on each input and verify it"""
    unseen: int | None = option(Kind.whole(1), "N")
    """with --run: also run the default and 3 drawn configurations on N inputs that the space does
    not list, from the ranges of its features, of odd and prime sizes"""
    json: bool = json_flag()

    def check(self) -> None:
        """Refuse options that exclude each other."""
        if not self.spaces:
            raise UsageError("name a space, for example spaces/mvmul.yaml")
        compiles = self.names_target or self.compile is not None
        if self.no_compile and (compiles or self.run):
            options = "--backend, --device, --arch, --compile or --run"
            raise UsageError(f"--no-compile does not go with {options}")
        if self.strict and self.compile is None:
            raise UsageError("--strict judges what --compile N compiles; add --compile N")
        if self.unseen and not self.run:
            raise UsageError("--unseen runs configurations on other inputs; add --run")
        if self.archs and self.run:
            raise UsageError(
                "--arch compiles for a GPU that need not be here; --run runs on this one"
            )
        if self.archs and self.device:
            raise UsageError("--arch compiles for a GPU that need not be here; leave --device out")
        if self.archs and self.backend == "opencl":
            raise UsageError("--arch names an NVIDIA architecture; --backend opencl has none")

    @property
    def names_target(self) -> bool:
        """Whether a backend, a device or an architecture was named."""
        return bool(self.backend or self.device or self.archs)

    @property
    def others(self) -> int:
        """The number of configurations that are compiled besides the default."""
        default = _DEFAULT_COMPILED if self.names_target else 0
        return default if self.compile is None else self.compile


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

    groups: ClassVar = {"target": "importance and trees (docs/howto/find_what_matters.md)"}

    database: Sequence[str] = argument(TEXT, "DATABASE", nargs="+")
    """results database"""
    space: str | None = option(TEXT, "NAME")
    """only the space of this name"""
    all_campaigns: bool = flag()
    """include campaigns that a later --fresh replaced"""
    summary: bool = flag()
    """only print programs by devices: failures, and speed-ups over each baseline"""
    by_input: str | None = option(
        Kind(", ".join(_CHOICES), _choice), "CHOICE", nargs="?", const=_AUTO
    )
    """print the worst, default and predicted time of each input; predicted by tree, ensemble or
    gadapt (G-ADAPT's model), without this input (default: the one that harness dispatch
    writes)"""
    kernel_version: str = version_option()
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
