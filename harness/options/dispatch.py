"""The options of dispatch and recheck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from harness.core.files import check_output
from harness.core.options import PATH, SEED, TEXT, Kind, Options, argument, flag, option
from harness.options.shared import SECONDS, SPACE, json_flag

if TYPE_CHECKING:  # it takes a while to load
    from harness.space_file import Spec


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
    """write the inputs whose choice fell, for `harness tune --inputs-from`"""
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
