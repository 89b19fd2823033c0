"""The time span of the measurements, and the commands that reproduce the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.core.invocation import command_line
from harness.results import Run, without_password
from harness.results.view import Results


def when(runs: Sequence[Run]) -> str:
    """Format the time from the first run's start to the last one's end, to the minute, UTC."""
    if not runs:
        return "unknown"
    ends = (min(run.started_at for run in runs), max(run.last_at for run in runs))
    first, last = (moment[:16].replace("T", " ") for moment in ends)
    return f"{first} UTC" if first == last else f"{first} to {last} UTC"


def commands(results: Results) -> Iterator[str]:
    """List the tuning commands as they were typed, then those that analyse and report them."""
    tuned, of_space = results.tuned_space, [*map(without_password, results.databases)]
    of_space += ["--space", results.campaign.space_name]
    typed = dict.fromkeys(c.arguments for c in results.commands if c.arguments)
    if typed and tuned.place:
        yield f"# {tuned.place}:"
    yield from (command_line("tune", *arguments) for arguments in typed)
    yield command_line("analyse", *of_space)
    if tuned.is_in_python:
        yield 'harness.tune(space, ...).dispatcher("out")'
    else:
        yield command_line("dispatch", *of_space, "-o", "out/")
    yield command_line("report", *of_space, "-o", f"{results.campaign.space_name}.html")
