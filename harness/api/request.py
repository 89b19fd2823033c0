"""From options to a request: the space, its inputs, recordings and seeds, read and checked.

Cheap checks come before a recording is read, which may take a minute.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError, UsageError
from harness.core.records import Config, Input
from harness.core.text import counted
from harness.options.tune import COVER, CampaignOptions, TuneOptions
from harness.recordings.files import recording_name
from harness.recordings.recording import Recording
from harness.recordings.replay import (
    ReplayMeasurer,
    open_replay,
    read_recordings,
    recording_spec,
)
from harness.results import campaigns, check_database, reading, sqlite_path
from harness.results.campaigns import read_runs
from harness.search import resolve_techniques
from harness.search.techniques import DEFAULT_TECHNIQUE, sole_technique
from harness.space_file import Spec
from harness.space_file.workload import read_workload

if TYPE_CHECKING:
    from harness.stencil.predicted import StencilPredictor


PREDICTED = ("Predicted", "PredictedKNN")
"""The techniques that test a stencil's configurations in a predicted order, then use `auto`."""


@dataclass(frozen=True)
class TuneRequest:
    """What the options name, read and checked. What follows from the device is in the plan
    (harness.api.running).

    `space` has the options of measurement, and the inputs of a workload in place of its own;
    `inputs` are those that are tuned. `replay` answers in place of a device; with a `recording`,
    the configurations are those that it has. `warm_start` are recordings to learn from. `seeds` are
    the user's own configurations, perhaps incomplete. `database` is a path or a URL. `notices` say
    what is replayed, and which inputs of a workload are tuned.
    """

    options: CampaignOptions
    space: Spec
    inputs: tuple[Input, ...]
    techniques: tuple[str, ...]
    seeds: Sequence[Mapping[str, Any]]
    database: str
    replay: ReplayMeasurer | None
    recording: Recording | None
    warm_start: Sequence[Recording]
    predictor: StencilPredictor | None
    notices: Sequence[str]

    @property
    def test_limit(self) -> int:
        """The tests of an input at most."""
        return self.options.test_limit or self.space.search.test_limit


def read_request(options: CampaignOptions) -> TuneRequest:
    """Read what the options name, after `CampaignOptions.read`. Raises UsageError, RecordingError
    and ResultsError."""
    space = options.space
    assert not isinstance(space, Path), "CampaignOptions.read reads the space"
    seeds = [_read_seed(seed) for seed in options.seed_configurations]
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
    database = _database(options, space)
    predictor = _predictor(options, database, space)
    recording, replay = None, None
    recordings: Sequence[Recording] = []
    if options.recordings:
        recordings = read_recordings(options.recordings, options.mapping)
    if space is None:
        recording, *recordings = recordings
        space = recording_spec(recording)
    if isinstance(options, TuneOptions) and options.measure:
        space = space.with_measure(options.measure)
    notices: list[str] = []
    if options.inputs_from is not None:
        space, notices = _with_inputs_of(options.inputs_from, space, options, database)
    if recording is not None:
        replay = ReplayMeasurer.of(recording)
        notices = [_summary(recording), *notices, *(f"note: {note}" for note in recording.notes)]
    elif options.recording is not None:
        replay = open_replay(options.recording, space)
        count, device = len(replay.measurements), replay.environment.device
        line = f"replaying {options.recording}: {count:,} measurements from {device}; none is new"
        notices.insert(0, line)
    tuned = space if options.inputs is None else space.with_inputs_where(options.inputs)
    return TuneRequest(
        options=options,
        space=space,
        inputs=tuned.inputs,
        techniques=techniques,
        seeds=seeds,
        database=database,
        replay=replay,
        recording=recording,
        warm_start=recordings,
        predictor=predictor,
        notices=notices,
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


def _techniques(options: CampaignOptions, space: Spec | None) -> tuple[str, ...]:
    """Resolve the techniques: a validation samples uniformly, `auto` follows PREDICTED."""
    if options.validate is not None:
        return ("UniformRandom",)
    named = options.technique
    if not named:
        named = ["auto" if space is None else space.search.technique]
    names = ["auto" if name in PREDICTED else name for name in named]
    return resolve_techniques(list(dict.fromkeys(names)))


def _predictor(
    options: CampaignOptions, database: str, space: Spec | None
) -> StencilPredictor | None:
    """Return the predictor of a stencil's configurations, if the technique needs one."""
    named = [name for name in options.technique if name in PREDICTED]
    if not named:
        return None
    if space is None or options.validate is not None:
        raise UsageError(f"--technique {named[0]} needs the space of a stencil, and no --validate")
    from harness.stencil.predicted import StencilPredictor  # here: it loads pandas

    return StencilPredictor(database, space.path, named[0])


def _summary(recording: Recording) -> str:
    """Describe a recording in a line."""
    tables = recording.tables.values()
    outcomes = Counter(outcome for table in tables for outcome in table.outcomes)
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items())
    searched = sum(len(p.values) > 1 for p in recording.parameters)
    return (
        f"{recording.path}: {recording.kind} of {recording.title} on {recording.device}; "
        f"{counts}; {searched} parameters to search"
    )


def _database(options: CampaignOptions, space: Spec | None) -> str:
    """Return the database, whose default path keeps replayed results apart from measured ones.

    Raises UsageError for a file that is read, and where no file can be made.
    """
    name = recording_name(options.recordings[0]) if space is None else space.name
    ending = "db" if options.recording is None else "replay.db"
    database = options.database or str(Path("results") / f"{name}.{ending}")
    path = sqlite_path(database)
    files = [("--warm-start", file) for file in options.warm_recordings]
    if options.recording is not None:
        files.insert(0, ("RECORDING", options.recording))
    for option, file in files:
        if path is not None and path.resolve() == file.resolve():
            raise UsageError(f"{option} and --database are both {database}; write to another file")
    check_database(database)
    return database


def _with_inputs_of(
    workload_path: Path, spec: Spec, options: CampaignOptions, database: str
) -> tuple[Spec, list[str]]:
    """Replace the inputs of a space by the most frequent inputs of a workload, which cover a share
    of its calls, and those that a database already has. Also return what to say of them.

    A choice is learnt only from configurations that were measured on every input, so these are
    measured on the earlier inputs as well. Inputs on which the default cannot be launched are left
    out: all others are compared with it. Raises UsageError where no input is left.
    """
    workload = read_workload(workload_path, spec.name, spec.features, spec.inputs)
    refused: dict[Input, str] = {}
    for problem in workload.calls:
        why = _why_not(spec, problem)
        if why:
            refused[problem] = why
    notices: list[str] = []
    if refused:
        calls = {problem: n for problem, n in workload.calls.items() if problem not in refused}
        problem, why = next(iter(refused.items()))
        reason = f"such as ({problem}): {why}"
        if not calls:
            raise UsageError(f"{workload.path}: the default does not apply to any input, {reason}")
        left_out = sum(workload.calls.values()) - sum(calls.values())
        notices.append(
            f"{counted(len(refused), 'input')} with {left_out / workload.total:.1%} of the calls "
            f"left out, to which the default does not apply, {reason}"
        )
        # They still count among all calls, of which a share is covered.
        unnamed = workload.unnamed + left_out
        workload = dataclasses.replace(workload, calls=calls, unnamed=unnamed)
    chosen = workload.most_frequent(options.cover or COVER)[: options.most_inputs]
    stored = [] if options.fresh else _stored_inputs(database, spec)
    inputs = tuple(dict.fromkeys([*chosen, *stored]))
    share = sum(workload.weights(chosen))
    of_inputs, of_calls = counted(len(workload.calls), "input"), counted(workload.total, "call")
    notices += workload.notes
    notices.append(
        f"{workload.path}: tuning {len(chosen)} of {of_inputs}, with {share:.1%} of {of_calls}"
    )
    earlier = len(inputs) - len(chosen)
    if earlier:
        text = f"the choice also uses {counted(earlier, 'earlier input')} of the database"
        notices.append(text)
    return dataclasses.replace(spec, inputs=inputs), notices


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
