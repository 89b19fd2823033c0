"""Which results a dispatcher is learnt from: those of the space as it is now, on one device."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from harness.core.errors import UsageError
from harness.core.text import command_line, counted, first_few
from harness.results.provenance import differing
from harness.results.url import shown_database
from harness.results.view import Results, the_one
from harness.space_file import Parameter, Spec, load_spec


def space_of(named: Path | Spec | None, campaigns: Sequence[Results]) -> Spec:
    """Load the space that is named, by default that of the results.

    Raises UsageError where its file is not here.
    """
    if isinstance(named, Spec):
        return named
    path = named
    if path is None:
        by_name: dict[str, Results] = {}
        for results in campaigns:  # of each space, the campaign that was worked on last
            by_name.setdefault(results.campaign.space_name, results)
        results = the_one(list(by_name.values()), "choose one with --space NAME")
        if results.is_recorded:
            return _recorded_spec(results)
        tuned = results.tuned_space
        if tuned.is_in_python:
            raise UsageError(
                f"the space {tuned.name} was built in Python and has no file: write its dispatcher "
                "there, with harness.tune(space, ...).dispatcher(FOLDER)"
            )
        if tuned.is_recording:
            raise UsageError(
                f"{tuned.file} is a recording, which has no kernel to dispatch: replay it with its "
                f"space, {command_line('replay', tuned.file, '--spec', 'SPACE')}, and dispatch that"
            )
        path = tuned.path
        if path is None:
            raise UsageError(
                f"{tuned.file}, which was tuned, is not here; go to the folder where you tuned, or "
                f"name the YAML file of {tuned.name} with --spec FILE"
            )
    if not path.is_file():
        raise UsageError(f"{path} not found; name the YAML file of the space with --spec FILE")
    return load_spec(path)


def results_of(campaigns: Sequence[Results], spec: Spec, device: str | None) -> Results:
    """Choose the results of the space as it is now, on one device; of several drivers, compilers or
    campaigns the last.

    Raises UsageError where the kernel has changed since, and for several devices.
    """
    same = [
        results
        for results in campaigns
        if results.is_recorded
        or (
            results.campaign.space_name == spec.name
            and results.campaign.key.program_sha256 == spec.program_sha256
        )
    ]
    if not same:
        raise UsageError(_changed(campaigns, spec))
    latest: dict[tuple[str, ...], Results] = {}
    known = dict.fromkeys(results.campaign.environment.name for results in same)
    meant = _named(device, known)
    for results in sorted(same, key=lambda results: results.last_at, reverse=True):
        environment = results.campaign.environment
        if environment.name in meant:
            key = (environment.backend, environment.name, environment.platform)
            latest.setdefault(key, results)
    if not latest:
        raise UsageError(
            f"nothing was measured on a device `{device}`; there are {'; '.join(known)}"
        )
    return the_one(list(latest.values()), f"choose one with --device NAME, of {'; '.join(known)}")


def _named(device: str | None, known: Iterable[str]) -> list[str]:
    """Return the names that a device may mean: the name itself, else all that have it in them."""
    word = (device or "").casefold()
    same = [name for name in known if name.casefold() == word]
    return same or [name for name in known if word in name.casefold()]


def _changed(campaigns: Sequence[Results], spec: Spec) -> str:
    known = list(dict.fromkeys(results.campaign.space_name for results in campaigns))
    if spec.name not in known:
        return (
            f"nothing was measured of {spec.path}, whose name is {spec.name}; there are results of "
            f"{', '.join(known)}: name the YAML file of one with --spec FILE"
        )
    last = next(r for r in campaigns if r.campaign.space_name == spec.name)
    changed = first_few(differing(last.campaign.program_parts, spec.program_parts), ", ")
    why = f"{spec.path} is not what was measured: {changed} changed since"
    if spec.is_in_python:
        return f"{why}; tune it again, or build it as it was"
    tune = command_line("tune", str(spec.path), "--database", shown_database(last.databases[0]))
    return (
        f"{why}. Tune it again: {tune}; or restore what was measured, and name its YAML file with "
        "--spec FILE"
    )


def describe(results: Results) -> str:
    key = results.campaign.key
    inputs = counted(len(results.measured), "input")
    return f"{results.title}, program {key.program_sha256[:8]}, campaign {key.campaign}, {inputs}"


def _recorded_spec(results: Results) -> Spec:
    """Make a space of the recorded parameters, values and inputs. It has no kernel, so that a
    dispatcher for it only chooses."""
    campaign, default = results.campaign, results.default
    inputs = tuple(results.measured)
    return Spec(
        path=Path(results.databases[0]),
        name=re.sub(r"\W", "_", campaign.space_name, flags=re.ASCII),
        title=campaign.title,
        functions=(campaign.space_name,),
        host=Path(results.databases[0]),
        parameters=tuple(
            Parameter(name, "enum", tuple(results.rows.values_of(name)), "source", value)
            for name, value in default.items()
        ),
        features=tuple(dict.fromkeys(name for problem in inputs for name in problem)),
        inputs=inputs,
    )
