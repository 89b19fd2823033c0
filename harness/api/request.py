"""From options to a request: a spec, recordings and the options of a search.

Cheap checks come before a recording is read, which may take a minute.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.api.tune_options import COVER, DATABASE, TuneOptions
from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError, UsageError
from harness.core.records import Config, Input
from harness.core.text import counted
from harness.recordings.files import recording_name
from harness.recordings.replay import read_recordings, recording_spec
from harness.results import campaigns, check_database, reading, sqlite_path
from harness.results.campaigns import read_runs
from harness.search import SearchOptions, resolve_techniques
from harness.search.techniques import DEFAULT_TECHNIQUE, sole_technique
from harness.space_file import Spec, load_spec
from harness.space_file.model import Search
from harness.space_file.workload import Workload, read_workload
from harness.tuning import CampaignPlan

if TYPE_CHECKING:
    from harness.stencil.predicted import StencilPredictor


PREDICTED = "Predicted"
"""The technique that tests a stencil's configurations in a predicted order, then uses `auto`."""

_PARALLEL_BUILDS = 4


@dataclass(frozen=True)
class TuneRequest:
    """Everything that the options name, read and checked.

    `whole` has all inputs of the space, and the `plan` of the campaign only those that are tuned;
    it lacks what follows from the device. `seeds` are the user's own configurations, perhaps
    incomplete. `database` is a path or a URL. `notices` say which inputs of a workload are tuned.
    """

    options: TuneOptions
    whole: Spec
    plan: CampaignPlan
    seeds: tuple[Mapping[str, Any], ...]
    database: str
    predictor: StencilPredictor | None = None
    notices: tuple[str, ...] = ()


def read_request(options: TuneOptions) -> TuneRequest:
    """Read what the options name. Raises UsageError, and errors of reading a space or recording."""
    seeds = tuple(map(_read_seed, options.seed_configurations))
    try:
        Expression(options.inputs or "True")
    except ExpressionError as error:
        raise UsageError(f"--inputs: {error}") from None
    resolve_techniques([name for name in options.technique if name != PREDICTED])
    alone = options.replays_alone
    loaded = load_spec(options.space) if isinstance(options.space, Path) else options.space
    techniques = _techniques(options, loaded.search if loaded else Search())
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
    database = options.database or _default_database(options, loaded)
    _check_database(options, database)
    predictor = _predictor(options, database)
    recordings = read_recordings([*alone, *options.warm_recordings], options.mapping)
    recording = recordings[0] if alone else None
    whole = recording_spec(recording) if recording else loaded
    assert whole is not None  # TuneOptions.check refuses a command line without both
    whole, notices = whole.with_measure(options.measure), list[str]()
    if options.inputs_from is not None:
        whole, notices = _with_inputs_of(options.inputs_from, whole, options, database)
    spec = whole if options.inputs is None else whole.with_inputs_where(options.inputs)
    search = _search_options(spec, options, techniques)
    plan = CampaignPlan(
        spec,
        search,
        cross=options.cross,
        ablate=options.reduce,
        finalists=options.finalists,
        target=options.validate,
        warm_start=tuple(recordings[len(alone) :]),
        other_devices=Path(DATABASE) in options.warm_start,
        fresh=options.fresh,
        arguments=options.command,
        recording=recording,
    )
    return TuneRequest(options, whole, plan, seeds, database, predictor, tuple(notices))


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


def _techniques(options: TuneOptions, search: Search) -> tuple[str, ...]:
    """Resolve the techniques: a validation samples uniformly, and `auto` follows PREDICTED."""
    if options.validate is not None:
        return resolve_techniques(["UniformRandom"])
    named = options.technique or [search.technique]
    return resolve_techniques(list(dict.fromkeys("auto" if n == PREDICTED else n for n in named)))


def _predictor(options: TuneOptions, database: str) -> StencilPredictor | None:
    """Return the predictor of a stencil's configurations, if the technique needs one."""
    if PREDICTED not in options.technique:
        return None
    if options.space_path is None or options.validate is not None:
        raise UsageError(
            f"--technique {PREDICTED} needs the space of a stencil, and no --replay or --validate"
        )
    from harness.stencil.predicted import StencilPredictor  # here: it loads pandas

    return StencilPredictor(database, options.space_path)


def _default_database(options: TuneOptions, loaded: Spec | None) -> str:
    """Return the default path, which keeps replayed results apart from measured ones."""
    if options.replay is None:
        assert loaded is not None
        return str(Path("results") / f"{loaded.name}.db")
    name = loaded.name if loaded else recording_name(options.replay)
    return str(Path("results") / f"{name}.replay.db")


def _check_database(options: TuneOptions, database: str) -> None:
    """Refuse to write to a file that is read, and where no file can be made."""
    path = sqlite_path(database)
    replay = [] if options.replay is None else [("--replay", options.replay)]
    for option, read in (*replay, *(("--warm-start", file) for file in options.warm_recordings)):
        if path is not None and path.resolve() == read.resolve():
            raise UsageError(f"{option} and --database are both {database}; write to another file")
    check_database(database)


def _search_options(spec: Spec, options: TuneOptions, techniques: tuple[str, ...]) -> SearchOptions:
    """Make the options of each input's search, without seeds and without the time when it ends."""
    # Builds run in parallel; where nothing is built, each proposal can know all results.
    parallelism = 1 if options.replay else _PARALLEL_BUILDS
    return SearchOptions(
        techniques=techniques,
        test_limit=options.test_limit or spec.search.test_limit,
        seed=options.seed,
        label=options.label,
        parallelism=options.parallelism or parallelism,
        peak_fraction=spec.search.stop_at,
    )


def _with_inputs_of(
    workload_path: Path, spec: Spec, options: TuneOptions, database: str
) -> tuple[Spec, list[str]]:
    """Replace the inputs of a space by the most frequent inputs of a workload, which cover a share
    of its calls, and those that a database already has. Also return what to say of them.

    A choice is learnt only from configurations that were measured on every input, so these are
    measured on the earlier inputs as well.
    """
    workload, refused = _usable(
        read_workload(workload_path, spec.name, spec.features, spec.inputs), spec
    )
    chosen = workload.most_frequent(options.cover or COVER)[: options.most_inputs]
    stored = [] if options.fresh else _stored_inputs(database, spec)
    taken = set(chosen)
    earlier = [problem for problem in stored if problem not in taken]
    notices = [*refused, *_describe(workload, chosen, earlier)]
    return dataclasses.replace(spec, inputs=(*chosen, *earlier)), notices


def _usable(workload: Workload, spec: Spec) -> tuple[Workload, list[str]]:
    """Leave out inputs on which the default cannot be launched: all others are compared with it.
    Also say so. Raises UsageError where no input is left."""
    reasons = ((problem, _why_not(spec, problem)) for problem in workload.calls)
    refused = {problem: why for problem, why in reasons if why}
    if not refused:
        return workload, []
    problem, why = next(iter(refused.items()))
    if len(refused) == len(workload.calls):
        path = workload.path
        raise UsageError(
            f"{path}: the default does not apply to any input, such as ({problem}): {why}"
        )
    calls = {problem: k for problem, k in workload.calls.items() if problem not in refused}
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
    try:
        for constraint in spec.constraints:
            expression = constraint.expression
            if expression.names <= values.keys() and (why := expression.why_false(values)):
                return why
        group, grid, *_ = spec.launch.sizes if spec.launch else ((), ())
        for size in (*group, *grid):
            if size.names <= values.keys() and size(values) < 1:
                return f"the launch has `{size.text}` = {size(values)}"
    except ExpressionError as error:
        return str(error)
    return ""


def _describe(workload: Workload, chosen: list[Input], earlier: list[Input]) -> Iterator[str]:
    yield from workload.notes
    share = sum(workload.weights(chosen))
    make_up = "makes" if len(chosen) == 1 else "make"
    yield (
        f"{workload.path}: {len(chosen)} of {counted(len(workload.calls), 'input')} {make_up} up "
        f"{share:.1%} of {counted(workload.total, 'call')}; these are tuned"
    )
    if earlier:
        takes = "takes" if len(earlier) == 1 else "take"
        yield f"{counted(len(earlier), 'earlier input')} of the database {takes} part in the choice"


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
