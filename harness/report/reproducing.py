"""The time span of the measurements, and the commands that reproduce the report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.core.invocation import command_line
from harness.core.records import Input, SampleRole
from harness.results import DEFAULTS, WARM_START, Run, without_password
from harness.results.view import Results

_LONGEST_CONDITION = 200  # characters of an --inputs option that a person still reads


@dataclass(frozen=True)
class Origin:
    """The space's file, the value of --inputs (None for all inputs), the selected inputs, and the
    options that name the workload that they come from."""

    space: str
    condition: str | None
    inputs: frozenset[Input]
    workload: tuple[str, ...] = ()


def when(runs: Sequence[Run]) -> str:
    """Format the time from the first run's start to the last one's end, to the minute, UTC."""
    if not runs:
        return "unknown"
    ends = (min(run.started_at for run in runs), max(run.last_at for run in runs))
    first, last = (moment[:16].replace("T", " ") for moment in ends)
    return f"{first} UTC" if first == last else f"{first} to {last} UTC"


def commands(results: Results, origin: Origin | None = None) -> Iterator[str]:
    """List the commands that repeat the searches, then those that analyse and report them.

    A replayed recording needs no search. The space is the `origin`'s, or else the file that was
    tuned.
    """
    name, paths = results.campaign.space_name, list(map(without_password, results.databases))
    if results.campaign.environment.backend != "replay" and not results.is_recorded:
        yield from _searches(results, origin)
    of_space = [*paths, "--space", name]
    yield command_line("analyse", *of_space)
    yield _dispatch(results, of_space, origin)
    yield command_line("report", *of_space, "-o", f"{name}.html")


def _dispatch(results: Results, of_space: Sequence[str], origin: Origin | None) -> str:
    tuned = results.tuned_space
    if tuned.is_in_python:
        return 'harness.tune(space, ...).dispatcher("out")'
    path = origin.space if origin else str(tuned.path or tuned.file)
    return command_line("dispatch", *of_space, "--spec", path, "-o", "out/")


def _searches(results: Results, origin: Origin | None) -> Iterator[str]:
    """Make one command for all runs with the same options; the first has --fresh."""
    place = results.tuned_space.place
    if origin is None and place:
        yield f"# {place}:"
    groups: dict[tuple[str, ...], list[Input]] = {}
    for run in (run for run in results.runs if run.technique != DEFAULTS):
        groups.setdefault(tuple(_options(run)), []).append(run.problem)
    backend, database = results.campaign.environment.backend, results.databases[0]
    for number, (words, searched) in enumerate(groups.items()):
        inputs = list(dict.fromkeys(searched))
        fresh = ["--fresh"] if number == 0 else []
        if origin is not None and origin.inputs == set(inputs):
            condition, words = origin.condition, (*words, *origin.workload)
        else:
            condition = _condition(inputs)
            if len(condition) > _LONGEST_CONDITION:
                yield f"# on the {len(inputs)} inputs of the first table:"
                condition = None
        where = [] if condition is None else ["--inputs", condition]
        options = ["--backend", backend, *fresh, *words, *where]
        if origin is None:
            yield results.tuned_space.tune_again(*options, database=database)
        else:
            shown = without_password(database)
            yield command_line("tune", origin.space, *options, "--database", shown)


def _options(run: Run) -> Iterator[str]:
    """Return the options of the command that made a run, from its stored technique."""
    names, _, suffix = run.technique.partition(" (")
    part = suffix.removesuffix(")")
    yield from ("--seed", str(run.seed))
    if part in {one.value for one in SampleRole}:
        yield "--validate"  # it has no test limit
        return
    yield from ("--test-limit", str(run.test_limit))
    for name in names.split(","):
        yield from ("--technique", name)
    if WARM_START in run.notes:
        yield from ("--warm-start", "database")
    if part:  # digests of recordings
        yield from ("--warm-start", part.removeprefix("taught by "))


def _condition(inputs: Iterable[Input]) -> str:
    """Write the condition for --inputs that selects exactly these inputs."""
    return " or ".join(
        " and ".join(f"{name} == {json.dumps(value)}" for name, value in problem.items())
        for problem in inputs
    )
