"""What is asked for: a command line -> a spec, recordings and the options of a search.

What is cheap to check is checked before a recording is read, which may take a minute.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError, UsageError
from harness.core.records import Config
from harness.recordings.files import recording_name
from harness.recordings.read import recording_files
from harness.recordings.recording import Recording
from harness.recordings.space import recording_spec
from harness.results import sqlite_path
from harness.search import SearchOptions, resolve_techniques, transfer_techniques
from harness.space_file import Spec, load_spec
from harness.space_file.inputs import select_inputs
from harness.space_file.model import Search
from harness.tuning.searching import check_seeds_used

if TYPE_CHECKING:
    from harness.stencil.predicted import Predictor

PREDICTED = "Predicted"
"""A stencil's space in the order of a predictor that other stencils taught, then `auto`."""

_PARALLEL_BUILDS = 4


@dataclass(frozen=True)
class Asked:
    """`whole` has all inputs of the space, `spec` those that are tuned; `recording` stands in
    for a space and a device; `seeds` are a person's own configurations, perhaps not whole; `place`
    is that of the database."""

    whole: Spec
    spec: Spec
    recording: Recording | None
    warm_start: tuple[Recording, ...]
    seeds: tuple[Mapping[str, Any], ...]
    options: SearchOptions
    place: str
    predictor: Predictor | None = None

    def seeds_for(self, compiler: str | None) -> tuple[Config, ...]:
        """The seeds; parameters that they leave out keep their defaults."""
        defaults = {p.name: p.default for p in self.spec.tuned_for(compiler)}
        return tuple(Config({**defaults, **seed}) for seed in self.seeds)


def read_asked(args: argparse.Namespace) -> Asked:
    """Raises UsageError, and what reading a space or a recording raises."""
    seeds = tuple(map(_read_seed, args.seed_configuration))
    _check_condition(args.inputs)
    resolve_techniques([name for name in args.technique or () if name != PREDICTED])
    replayed = [args.replay] if args.replay and not args.space else []
    files = recording_files([*replayed, *args.warm_start], args.mapping)
    loaded = None if args.space is None else load_spec(args.space)
    techniques = _techniques(args, loaded.search if loaded else Search())
    check_seeds_used(techniques, seeds)
    _check_warm_start(args, techniques)
    place = args.database or _default_place(args, loaded)
    _check_place(args, place)
    predictor = _teacher(args, place)
    recording = files[0].read() if replayed else None
    whole = recording_spec(recording) if recording else loaded
    assert whole is not None  # one of them is given
    whole = _with_measure_options(whole, args)
    spec = whole if args.inputs is None else select_inputs(whole, args.inputs)
    warm_start = tuple(source.read() for source in files[len(replayed) :])
    options = search_options(spec, args, techniques)
    return Asked(whole, spec, recording, warm_start, seeds, options, place, predictor)


def _read_seed(path: Path) -> Mapping[str, Any]:
    """A configuration from a JSON file, perhaps of some parameters only."""
    try:
        values = dict(json.loads(path.read_text(encoding="utf-8")))
        Config(values)
    except OSError as error:
        raise UsageError(f"--seed-configuration {path}: {error.strerror}") from None
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"--seed-configuration {path}: needs a JSON object of parameters and values: {error}"
        ) from None
    return values


def _check_condition(condition: str | None) -> None:
    try:
        if condition is not None:
            Expression(condition)
    except ExpressionError as error:
        raise UsageError(f"--inputs: {error}") from None


def _techniques(args: argparse.Namespace, search: Search) -> tuple[str, ...]:
    """The techniques that were asked for; a validation samples uniformly. What PREDICTED starts,
    the default one goes on with."""
    if args.validate is not None:
        return resolve_techniques(["UniformRandom"])
    named = args.technique or [search.technique]
    return resolve_techniques(list(dict.fromkeys("auto" if n == PREDICTED else n for n in named)))


def _teacher(args: argparse.Namespace, place: str) -> Predictor | None:
    """What orders a stencil's space, where that is asked for."""
    if PREDICTED not in (args.technique or []):
        return None
    if args.space is None or args.validate is not None:
        raise UsageError(f"--technique {PREDICTED} orders the space of a stencil, to search it")
    from harness.stencil.predicted import read_predictor  # here: it loads pandas

    return read_predictor(place, args.space)


def _check_warm_start(args: argparse.Namespace, techniques: Sequence[str]) -> None:
    learners = transfer_techniques()
    if args.warm_start and not set(learners) & set(techniques):
        raise UsageError(
            f"--warm-start needs --technique {' or '.join(learners)}, which learns from it; "
            f"the technique is {', '.join(techniques)}; add --technique {learners[0]}"
        )


def _default_place(args: argparse.Namespace, loaded: Spec | None) -> str:
    """Replayed results are kept apart from measured ones."""
    name = loaded.name if loaded else recording_name(args.replay)
    return str(Path("results") / (f"{name}.replay.db" if args.replay else f"{name}.db"))


def _check_place(args: argparse.Namespace, place: str) -> None:
    """What is read must not be written to."""
    path = sqlite_path(place)
    for option, other in (
        ("--replay", args.replay),
        *(("--warm-start", other) for other in args.warm_start),
    ):
        if path is not None and other is not None and path.resolve() == other.resolve():
            raise UsageError(f"{option} and --database are both {place}; write to another file")


def _with_measure_options(spec: Spec, args: argparse.Namespace) -> Spec:
    given = {name: getattr(args, name) for name in ("repeats", "precision", "give_up_at")}
    return spec.with_measure({name: value for name, value in given.items() if value is not None})


def search_options(
    spec: Spec, args: argparse.Namespace, techniques: tuple[str, ...]
) -> SearchOptions:
    """How each input is searched, but for the seeds."""
    stop_at = None if args.stop_after is None else time.monotonic() + args.stop_after
    return SearchOptions(
        techniques=techniques,
        test_limit=args.test_limit or spec.search.test_limit,
        seed=args.seed,
        label=args.label,
        parallelism=args.parallelism or _parallelism(args),
        stop_at=stop_at,
        results_log=args.results_log,
    )


def _parallelism(args: argparse.Namespace) -> int:
    """Builds run side by side; where nothing is built, each proposal can know all results."""
    return 1 if args.replay else _PARALLEL_BUILDS
