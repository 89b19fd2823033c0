"""From options to a request: the space, its inputs, recordings and seeds, read and checked.

Cheap checks come before a recording is read, which may take a minute.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.api.tune_options import COVER, TuneOptions
from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError, UsageError
from harness.core.records import Config, Input
from harness.core.text import counted
from harness.recordings.files import recording_name
from harness.recordings.recording import Recording
from harness.recordings.replay import read_recordings, recording_spec
from harness.results import campaigns, check_database, reading, sqlite_path
from harness.results.campaigns import read_runs
from harness.search import resolve_techniques
from harness.search.techniques import DEFAULT_TECHNIQUE, sole_technique
from harness.space_file import Spec
from harness.space_file.workload import Workload, read_workload

if TYPE_CHECKING:
    from harness.stencil.predicted import StencilPredictor


PREDICTED = ("Predicted", "PredictedKNN")
"""The techniques that test a stencil's configurations in a predicted order, then use `auto`."""

_PARALLEL_BUILDS = 4


@dataclass(frozen=True)
class TuneRequest:
    """What the options name, read and checked. What follows from the device is in the plan
    (harness.api.running).

    `space` has the options of measurement, and the inputs of a workload in place of its own;
    `inputs` are those that are tuned. With a `recording`, its configurations are searched.
    `warm_start` are recordings to learn from. `seeds` are the user's own configurations, perhaps
    incomplete. `database` is a path or a URL. `notices` say which inputs of a workload are tuned.
    """

    options: TuneOptions
    space: Spec
    inputs: tuple[Input, ...]
    techniques: tuple[str, ...]
    seeds: tuple[Mapping[str, Any], ...]
    database: str
    recording: Recording | None
    warm_start: tuple[Recording, ...]
    predictor: StencilPredictor | None
    notices: tuple[str, ...]

    @property
    def test_limit(self) -> int:
        """The tests of an input at most."""
        return self.options.test_limit or self.space.search.test_limit

    @property
    def parallelism(self) -> int:
        """The proposals at once: builds run in parallel; where nothing is built, each proposal can
        follow from all results."""
        default = 1 if self.options.replay else _PARALLEL_BUILDS
        return self.options.parallelism or default


def read_request(options: TuneOptions) -> TuneRequest:
    """Read what the options name, after `TuneOptions.read`. Raises UsageError, RecordingError and
    ResultsError."""
    space = options.space
    assert not isinstance(space, Path), "TuneOptions.read reads the space"
    seeds = tuple(map(_read_seed, options.seed_configurations))
    try:
        Expression(options.inputs or "True")
    except ExpressionError as error:
        raise UsageError(f"--inputs: {error}") from None
    techniques = _techniques(options, space)
    if seeds and sole_technique(techniques) is not None:
        raise UsageError(
            f"--seed-configuration does not go with {techniques[0]} alone, which tests only its "
            "own proposals; add another --technique"
        )
    if options.warm_start and DEFAULT_TECHNIQUE not in techniques:
        raise UsageError(
            f"--warm-start needs --technique {DEFAULT_TECHNIQUE}, which learns from it; the "
            f"technique is {', '.join(techniques)}; add --technique {DEFAULT_TECHNIQUE}"
        )
    database = options.database or _default_database(options, space)
    _check_database(options, database)
    predictor = _predictor(options, database)
    recording = None
    recordings = read_recordings(options.recordings, options.mapping)
    if space is None:
        recording, *recordings = recordings
        space = recording_spec(recording)
    space = space.with_measure(options.measure)
    notices: list[str] = []
    if options.inputs_from is not None:
        space, notices = _with_inputs_of(options.inputs_from, space, options, database)
    tuned = space if options.inputs is None else space.with_inputs_where(options.inputs)
    return TuneRequest(
        options=options,
        space=space,
        inputs=tuned.inputs,
        techniques=techniques,
        seeds=seeds,
        database=database,
        recording=recording,
        warm_start=tuple(recordings),
        predictor=predictor,
        notices=tuple(notices),
    )


def _read_seed(seed: Path | Mapping[str, Any]) -> Mapping[str, Any]:
    """Read a configuration, perhaps of some parameters only, from a JSON file."""
    try:
        read = json.loads(seed.read_text(encoding="utf-8")) if isinstance(seed, Path) else seed
        values = dict(read)
        Config(values)
    except OSError as error:
        raise UsageError(f"--seed-configuration {seed}: {error.strerror}") from None
    except (ValueError, TypeError) as error:
        raise UsageError(
            f"--seed-configuration {seed}: needs a JSON object of parameters and values: {error}"
        ) from None
    return values


def _techniques(options: TuneOptions, space: Spec | None) -> tuple[str, ...]:
    """Resolve the techniques: a validation samples uniformly, `auto` follows PREDICTED."""
    if options.validate is not None:
        return ("UniformRandom",)
    named = options.technique
    if not named:
        named = ["auto" if space is None else space.search.technique]
    names = ["auto" if name in PREDICTED else name for name in named]
    return resolve_techniques(list(dict.fromkeys(names)))


def _predictor(options: TuneOptions, database: str) -> StencilPredictor | None:
    """Return the predictor of a stencil's configurations, if the technique needs one."""
    named = [name for name in options.technique if name in PREDICTED]
    if not named:
        return None
    if options.space_path is None or options.validate is not None:
        raise UsageError(
            f"--technique {named[0]} needs the space of a stencil, and no --replay or --validate"
        )
    from harness.stencil.predicted import StencilPredictor  # here: it loads pandas

    return StencilPredictor(database, options.space_path, named[0])


def _default_database(options: TuneOptions, space: Spec | None) -> str:
    """Return the default path, which keeps replayed results apart from measured ones."""
    name = recording_name(options.recordings[0]) if space is None else space.name
    ending = "db" if options.replay is None else "replay.db"
    return str(Path("results") / f"{name}.{ending}")


def _check_database(options: TuneOptions, database: str) -> None:
    """Refuse to write to a file that is read, and where no file can be made."""
    path = sqlite_path(database)
    files = [("--warm-start", file) for file in options.warm_recordings]
    if options.replay is not None:
        files.insert(0, ("--replay", options.replay))
    for option, file in files:
        if path is not None and path.resolve() == file.resolve():
            raise UsageError(f"{option} and --database are both {database}; write to another file")
    check_database(database)


def _with_inputs_of(
    workload_path: Path, spec: Spec, options: TuneOptions, database: str
) -> tuple[Spec, list[str]]:
    """Replace the inputs of a space by the most frequent inputs of a workload, which cover a share
    of its calls, and those that a database already has. Also return what to say of them.

    A choice is learnt only from configurations that were measured on every input, so these are
    measured on the earlier inputs as well.
    """
    workload = read_workload(workload_path, spec.name, spec.features, spec.inputs)
    workload, notices = _usable(workload, spec)
    chosen = workload.most_frequent(options.cover or COVER)[: options.most_inputs]
    stored = [] if options.fresh else _stored_inputs(database, spec)
    inputs = tuple(dict.fromkeys([*chosen, *stored]))
    notices += _describe(workload, chosen, len(inputs) - len(chosen))
    return dataclasses.replace(spec, inputs=inputs), notices


def _usable(workload: Workload, spec: Spec) -> tuple[Workload, list[str]]:
    """Leave out inputs on which the default cannot be launched: all others are compared with it.
    Also say so. Raises UsageError where no input is left."""
    calls: dict[Input, int] = {}
    refused: dict[Input, str] = {}
    for problem, count in workload.calls.items():
        why = _why_not(spec, problem)
        if why:
            refused[problem] = why
        else:
            calls[problem] = count
    if not refused:
        return workload, []
    problem, why = next(iter(refused.items()))
    if not calls:
        raise UsageError(
            f"{workload.path}: the default does not apply to any input, such as ({problem}): {why}"
        )
    left_out = sum(workload.calls.values()) - sum(calls.values())
    notice = (
        f"{counted(len(refused), 'input')} with {left_out / workload.total:.1%} of the calls left "
        f"out, to which the default does not apply, such as ({problem}): {why}"
    )
    # They still count among all calls, of which a share is covered.
    unnamed = workload.unnamed + left_out
    return dataclasses.replace(workload, calls=calls, unnamed=unnamed), [notice]


def _why_not(spec: Spec, problem: Input) -> str:
    """Say why the default cannot be launched on an input, as far as that does not depend on the
    device; empty if it can."""
    values = {**spec.default, **problem}
    sizes = [*spec.launch.group, *spec.launch.grid] if spec.launch else []
    try:
        for constraint in spec.constraints:
            if constraint.expression.names <= values.keys():
                why = constraint.expression.why_false(values)
                if why:
                    return why
        for size in sizes:
            if size.names <= values.keys() and size(values) < 1:
                return f"the launch has `{size.text}` = {size(values)}"
    except ExpressionError as error:
        return str(error)
    return ""


def _describe(workload: Workload, chosen: list[Input], earlier: int) -> Iterator[str]:
    yield from workload.notes
    share = sum(workload.weights(chosen))
    inputs, calls = counted(len(workload.calls), "input"), counted(workload.total, "call")
    yield f"{workload.path}: tuning {len(chosen)} of {inputs}, with {share:.1%} of {calls}"
    if earlier:
        yield f"the choice also uses {counted(earlier, 'earlier input')} of the database"


def _stored_inputs(database: str, spec: Spec) -> list[Input]:
    """Return the inputs of a space that a database holds, in the order of their searches; none
    where there is no database yet, and none of another version of the kernel."""
    path = sqlite_path(database)
    if path is not None and not path.exists():
        return []
    with reading(database) as engine, engine.connect() as connection:
        stored = [
            run.problem
            for campaign in campaigns(connection)
            if (campaign.space_name, campaign.key.program_sha256)
            == (spec.name, spec.program_sha256)
            for run in read_runs(connection, campaign)
        ]
    return [problem for problem in dict.fromkeys(stored) if set(problem) == set(spec.features)]
