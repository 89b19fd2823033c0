"""When what is reported was measured, and the commands that measure and look at it again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.core.records import Input
from harness.results import Run, shown_place
from harness.results.view import Results
from harness.tuning.validation import Part

_LONGEST_CONDITION = 200  # characters of --inputs that a person still reads


@dataclass(frozen=True)
class Origin:
    """Where results came from: the space's file, the condition on its inputs that was given, None
    for all of them, and the inputs that it selects."""

    space: str
    condition: str | None
    inputs: frozenset[Input]


def when(runs: Sequence[Run]) -> str:
    """From the first run's begin to the last one's end, to the minute, UTC."""
    if not runs:
        return "not known"
    ends = (min(run.started_at for run in runs), max(run.last_at for run in runs))
    first, last = (moment[:16].replace("T", " ") for moment in ends)
    return f"{first} UTC" if first == last else f"{first} to {last} UTC"


def commands(results: Results, origin: Origin | None = None) -> Iterator[str]:
    """The searches in their order, and what tells of them. Of recordings none: the same file
    gives the same again. A database does not tell where a space's file is; the `origin` does."""
    name, places = results.campaign.space_name, list(map(shown_place, results.places))
    if results.campaign.environment.backend != "replay":
        yield from _searches(results, places[0], origin)
    of_space = [*places, "--space", name]
    yield _command("analyse", *of_space)
    yield _command("dispatch", *of_space, "-o", "out/")
    yield _command("report", *of_space, "-o", f"{name}.html")


def _searches(results: Results, place: str, origin: Origin | None) -> Iterator[str]:
    """A command for all runs of equal technique, seed and limit; the first begins anew."""
    groups: dict[tuple[str, ...], list[Input]] = {}
    for run in results.runs:
        groups.setdefault(tuple(_asked(run)), []).append(run.given)
    space = origin.space if origin else "SPACE.yaml"
    start = [space, "--backend", results.campaign.environment.backend]
    for number, (words, asked_of) in enumerate(groups.items()):
        inputs = list(dict.fromkeys(asked_of))
        fresh = ["--fresh"] if number == 0 else []
        if origin is not None and origin.inputs == set(inputs):
            condition = origin.condition
        else:
            condition = _condition(inputs)
            if len(condition) > _LONGEST_CONDITION:
                yield f"# on the {len(inputs)} inputs of the first table:"
                condition = None
        where = [] if condition is None else ["--inputs", condition]
        yield _command("tune", *start, *fresh, *words, *where, "--database", place)


def _asked(run: Run) -> Iterator[str]:
    """The options that a run was asked for with."""
    names, _, told = run.technique.partition(" (")
    part = told.removesuffix(")")
    yield from ("--seed", str(run.seed))
    if part in {one.value for one in Part}:
        yield "--validate"  # its limits are its own
        return
    yield from ("--test-limit", str(run.test_limit))
    for name in names.split(","):
        yield from ("--technique", name)
    if part:  # the recordings' digests
        yield from ("--warm-start", part.removeprefix("taught by "))


def _condition(inputs: Iterable[Input]) -> str:
    """What holds for these inputs alone, as --inputs takes it."""
    return " or ".join(
        " and ".join(f"{name} == {json.dumps(value)}" for name, value in given.items())
        for given in inputs
    )


def _command(word: str, *rest: str) -> str:
    return shlex.join(["python", "-m", f"harness.{word}", *rest])
