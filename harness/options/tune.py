"""The options of `tune`, the command and the function of Python."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from harness.core.errors import UsageError
from harness.core.files import check_output, nearest_file
from harness.core.options import BACKENDS, PATH, SEED, TEXT, Kind, Options, argument, flag, option
from harness.core.text import command_line
from harness.options.shared import (
    PAGE,
    SECONDS,
    SPACE,
    WHERE,
    device_option,
    json_flag,
    wait_option,
)

if TYPE_CHECKING:  # it takes a while to load
    from harness.space_file import Spec

DATABASE = "database"
"""What `warm_start` has in place of a recording: the results of other devices in the database."""

COVER = 0.95
"""The share of a workload's calls whose inputs are tuned, by default."""

DEFAULT_TARGET = 0.15
"""The median relative error at which a validation ends."""


def _configuration(value: Any) -> Any:
    if not isinstance(value, Mapping | Path):
        raise ValueError
    return value


def _url(value: Any) -> str:
    text: str = TEXT.accept(str(value) if isinstance(value, Path) else value)
    return text


_LONGEST_LABEL = 128
"""Characters of the column `name` of `tuning_run`."""


@dataclass(frozen=True, kw_only=True)
class CampaignOptions(Options):
    """What `tune` and `replay` share. Both name a space; `recording` is that of `replay`."""

    groups: ClassVar = {
        "technique": "search",
        "database": "results",
        "cross": "stages after the search",
    }
    allow_abbrev: ClassVar = False  # the command to continue leaves out --fresh by its full name

    space: Path | Spec | None = None
    recording: Path | None = None
    inputs: str | None = option(TEXT, "EXPR")
    """tune only inputs that satisfy EXPR, such as 'n <= 4096 and m > 10' (default: all)"""
    inputs_from: Path | None = option(PATH, "FILE")
    """tune the inputs of a workload that matter (docs/howto/tune_the_inputs_you_meet.md), in
    place of the space's, and measure the candidates on those that the database holds"""
    cover: float | None = option(
        Kind.number("a share of the calls above 0, up to 1", lambda share: 0 < share <= 1),
        "SHARE",
        "of a workload, tune the most frequent inputs that make up this share of the calls "
        f"(default {COVER:g})",
    )
    most_inputs: int | None = option(Kind.whole(1), "N")
    """of these, tune at most the N most frequent"""
    mapping: Path | None = option(PATH, "FILE")
    """YAML file that describes the columns of a CSV recording (default: NAME.mapping.yaml
    beside it)"""
    json: bool = json_flag()
    technique: Sequence[str] = option(
        Kind("the name of a technique", TEXT.accept),
        "NAME",
        names=("--technique", "-t"),
        several=True,
    )
    """search technique; repeat it to alternate several (default: the space's, else auto)"""
    test_limit: int | None = option(Kind.whole(1), "N")
    """at most N tests per input (default: the space's)"""
    max_time_s: float | None = option(SECONDS, "SECONDS", names=("--stop-after", "--max-time"))
    """end the search after SECONDS (or such as 5m, 2h) for all inputs together; the final
    measurements follow (default: no limit)"""
    seed_configurations: Sequence[Path | Mapping[str, Any]] = option(
        Kind("a mapping of parameters to values", _configuration, Path),
        "FILE",
        names=("--seed-configuration",),
        several=True,
    )
    """JSON object with a configuration to start from; may be repeated"""
    warm_start: Sequence[Path] = option(PATH, "FILE", several=True)
    """learn from a recording of the same kernel on another device, in a format that `harness
    replay` reads without a space; may be repeated. The word database: learn from the results of
    other devices in the database"""
    validate: float | None = option(
        Kind.number("a share between 0 and 1", lambda share: 0 < share < 1),
        "TARGET",
        "instead of a search, sample uniformly until a tree predicts held-out times with a "
        f"median relative error below this (default TARGET: {DEFAULT_TARGET:g})",
        nargs="?",
        const=DEFAULT_TARGET,
    )
    parallelism: int | None = option(Kind.whole(1), "N")
    """propose and build N configurations at once (default 4; 1 for a recording)"""
    seed: int = option(SEED, default=0)
    """random seed (default 0)"""
    database: str | None = option(Kind("a path or a URL of printable characters", _url), "DATABASE")
    """SQLite file or postgresql:// URL (default results/NAME.db, of a replay
    results/NAME.replay.db)"""
    label: str = option(TEXT, default="unnamed")
    """name of the tuning run (default unnamed)"""
    fresh: bool = flag()
    """ignore all earlier measurements"""
    wait: float = wait_option("measures on the device, or writes the same kernel's results")
    report: Path | None = option(PAGE, "FILE", in_python=False)
    """write an HTML report as well"""
    progress: bool = flag(names=("--quiet", "--no-progress"), default=True)
    """print no progress"""
    cross: bool = flag(default=True)
    """do not measure the best configurations on all inputs (a good choice by input needs
    this)"""
    finalists: int | None = option(Kind.whole(1), "N")
    """measure the N fastest configurations again with the default (default 2, or 3 if the third
    is within noise of the first)"""
    typed: Sequence[str] = ()
    """The words of the command as they were typed; none in Python."""

    def check(self) -> None:
        """Raise HarnessError for options that exclude each other, and for wrong files."""
        if len(self.label) > _LONGEST_LABEL:
            raise UsageError(
                f"--label has {len(self.label)} characters, and OpenTuner stores {_LONGEST_LABEL}; "
                "choose a shorter one"
            )
        if self.mapping is not None and not self.recordings:
            raise UsageError("--mapping needs --warm-start FILE, or a replay without --spec")
        others = set(self.technique) - {"UniformRandom"}
        if self.validate is not None and others:
            raise UsageError(
                "--validate samples with --technique UniformRandom alone, got "
                f"{', '.join(sorted(others))}; leave --technique out"
            )
        if self.cover is not None and self.inputs_from is None:
            raise UsageError("--cover needs --inputs-from FILE, whose calls it counts")
        if self.most_inputs is not None and self.inputs_from is None:
            raise UsageError("--most-inputs needs --inputs-from FILE, whose inputs it counts")
        # A missing --mapping is reported later, with a suggestion made from its recording.
        files: list[tuple[str, object]] = [
            ("", self.space),
            ("--inputs-from", self.inputs_from),
            ("", self.recording),
        ]
        files += [("--warm-start", path) for path in self.warm_recordings]
        files += [("--seed-configuration", seed) for seed in self.seed_configurations]
        for words, path in files:
            if isinstance(path, Path):
                _check_file(words, path)
        if isinstance(self.space, Path):
            _check_space(self.space)
        if self.report is not None:
            check_output(self.report)

    def read(self: Campaigning) -> Campaigning:
        """Read the space, whose faults are reported before OpenTuner and others are loaded."""
        if not isinstance(self.space, Path):
            return self
        if self.progress and self.typed:
            out = sys.stderr if self.json else sys.stdout
            print(f"{self.space}: reading the space", file=out, flush=True)
        from harness.space_file import load_spec  # here: it takes half a second to load

        return dataclasses.replace(self, space=load_spec(self.space))

    @property
    def interrupted(self) -> str:  # type: ignore[override]
        """What an interruption leaves, and how to continue."""
        without = " without --fresh" if self.fresh else ""
        return f": all measurements are kept; run the same command again{without} to continue"

    @property
    def command(self) -> Sequence[str]:
        """The words of the command, without the passwords of databases."""
        from harness.results.url import without_password  # here: it loads SQLAlchemy

        return [without_password(word) if ":/" in word else word for word in self.typed]

    @property
    def warm_recordings(self) -> Sequence[Path]:
        """The recordings that the search learns from."""
        return [path for path in self.warm_start if str(path) != DATABASE]

    @property
    def recordings(self) -> Sequence[Path]:
        """The recordings: first that which stands in for both space and device, if there is one."""
        alone = [self.recording] if self.recording is not None and self.space is None else []
        return [*alone, *self.warm_recordings]


Campaigning = TypeVar("Campaigning", bound=CampaignOptions)


@dataclass(frozen=True, kw_only=True)
class TuneOptions(CampaignOptions):
    """Find the fastest configuration of a kernel for each input. Every result is verified, and
    every sample is stored. Run the same command again to continue."""

    groups: ClassVar = {
        **CampaignOptions.groups,
        "repeats": "measurement (default: the space's measure section)",
        "backend": "device",
        "list_techniques": "information",
    }
    moved: ClassVar = {"replay": "`harness replay RECORDING`, in Python harness.replay(recording)"}

    space: Path | Spec | None = argument(SPACE, nargs="?")
    """space file (YAML)"""
    reduce: bool = flag(default=True)
    """do not measure which flags a winner needs"""
    repeats: int | None = option(Kind.whole(1), "N")
    """at most N timed launches"""
    precision: float | None = option(
        Kind.number("a share from 0 to below 1, such as 0.005", lambda share: 0 <= share < 1), "P"
    )
    """stop when the mean's confidence interval is within +- P, such as 0.005"""
    give_up_at: float | None = option(
        Kind.number("a number from 1", lambda times: 1 <= times <= 10**9), "F"
    )
    """stop when a configuration is significantly F times slower than the best so far"""
    backend: str = option(TEXT, None, WHERE, default="auto", choices=BACKENDS)
    device: Sequence[str] = device_option(
        "; repeat it, or name `all`, to share the inputs out over equal devices"
    )
    cluster: str | None = option(TEXT, "ADDRESS")
    """measure on the workers of a Dask cluster: the scheduler's address such as
    tls://HOST:8786; --device then names a model"""
    insecure: bool = flag()
    """allow a scheduler without encryption on a network that you trust"""
    list_techniques: bool = flag(names=("--list-techniques", "-lt"), in_python=False)
    """list the techniques and exit"""

    def check(self) -> None:
        """Raise HarnessError for options that exclude each other, and for wrong files."""
        if self.list_techniques:
            return
        if self.space is None:
            raise UsageError("name a space, for example spaces/mvmul.yaml")
        if self.insecure and self.cluster is None:
            raise UsageError("--insecure needs --cluster ADDRESS, whose encryption it concerns")
        super().check()

    @property
    def measure(self) -> Mapping[str, float]:
        """The options that override the space's measure section."""
        given = {
            "repeats": self.repeats,
            "precision": self.precision,
            "give_up_at": self.give_up_at,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(CampaignOptions):
    """Search recorded measurements in place of a device: nothing is built or measured. The
    configurations are the recorded ones, or with --spec those of a space. Run the same command
    again to continue."""

    space: Path | Spec | None = option(SPACE, "SPACE", names=("--spec",))
    """space file (YAML) whose inputs and constraints count; RECORDING is then a results database
    of its sources, or CSV with its columns"""
    recording: Path = argument(PATH, "RECORDING")
    """Kernel Tuner cache, T4 results, or CSV with a mapping"""


def _check_file(words: str, path: Path) -> None:
    named = f"{words} {path}".lstrip()
    try:
        if path.is_file():
            return
        if path.exists():
            raise UsageError(f"{named} is not a file; name a file")
        near = nearest_file(path)
    except OSError as error:
        raise UsageError(f"{named} cannot be read: {error.strerror}") from None
    hint = f"; did you mean `{near}`?" if near else ""
    if words == "--seed-configuration" and "=" in path.name:
        hint = '; name a file of JSON, such as {"BLOCK": 128}'
    raise UsageError(f"{named} does not exist{hint}")


def _check_space(path: Path) -> None:
    """Refuse another known file in place of a space, often a recording."""
    if path.suffix in (".yaml", ".yml"):
        return
    from harness.recordings.files import FileKind, file_kind  # here: --help needs it not

    kind = file_kind(path)
    if kind is FileKind.YAML:
        return
    advice = f"to search recorded measurements, run: {command_line('replay', str(path))}"
    if kind is FileKind.DATABASE:
        advice = f"to see its results, run: {command_line('analyse', str(path))}"
    raise UsageError(f"{path} is {kind.value}, not a space; {advice}")
