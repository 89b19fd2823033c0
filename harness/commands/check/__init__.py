"""harness check SPACE...: validate spaces, count and compile their configurations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.api.options import CheckOptions
from harness.api.schemas import CheckDocument, SpaceDocument
from harness.commands.check.checking import SpaceCheck, check_spaces
from harness.commands.check.describe import print_check, print_reasons
from harness.commands.run import EXIT_ERROR, print_json
from harness.core.errors import SpecError, UsageError
from harness.core.text import counted
from harness.display.text import make_console, print_line
from harness.space_file import Spec, load_specs


def check(space: str | Path | Spec, **arguments: Any) -> SpaceDocument:
    """Check a space as the command does, and return what `check --json` prints of it.

    docs/reference/commands.md describes the arguments. Raises SpecError for the faults of a space.
    """
    if "spaces" in arguments:
        raise TypeError("check() takes one space, as its first argument")
    options = CheckOptions.from_arguments("check", {"spaces": space, **arguments})
    with CheckOptions.naming_arguments(spaces="space"):
        options.check()
        specs = [space] if isinstance(space, Spec) else load_specs(options.spaces)
        if len(specs) != 1:
            raise UsageError(f"check() takes one space, got {len(specs)}; call it for each")
        (checked,) = check_spaces(specs, options)
        return SpaceDocument.model_validate(checked)


check.__signature__ = CheckOptions.signature(spaces="space")  # type: ignore[attr-defined]


def run(options: CheckOptions) -> int:
    """Print each space and the results of compiling it; return the exit code."""
    try:
        specs = load_specs(options.spaces)
    except SpecError as error:
        if not options.json:
            raise
        print_json(CheckDocument.describe(is_ok=False, spaces=[], faults=error.faults))
        return EXIT_ERROR
    console, checked = make_console(), list[SpaceCheck]()
    for space in check_spaces(specs, options):
        checked.append(space)
        if not options.json:
            print_check(console, space, options)
    is_ok = all(space.passes(options.strict) for space in checked)
    if options.json:
        print_json(CheckDocument.describe(is_ok=is_ok, spaces=checked, faults=[]))
        return 0 if is_ok else 1
    print_line(console, _summary(checked, options.strict))
    for space in checked:
        for target in space.targets:
            name = f"{space.spec.name} for {target.name}, "
            print_reasons(console, target.results, name)
    for space in checked:
        if space.why_host_failed:
            name = space.spec.name
            print_line(console, f"  {name}, host module FAILED: {space.why_host_failed}")
    return 0 if is_ok else 1


def _summary(checked: Sequence[SpaceCheck], is_strict: bool) -> str:
    facts = [f"{counted(len(checked), 'space')} valid"]
    compiled = sum(bool(space.targets or space.why_unbuilt) for space in checked)
    failed = [space.spec.name for space in checked if not space.builds(is_strict)]
    runs = [space.run for space in checked if space.run is not None]
    if failed:
        subject = "a configuration" if is_strict else "the default"
        facts.append(f"{subject} failed in {len(failed)} of {compiled}: {', '.join(failed)}")
    elif compiled:
        facts.append(f"the default compiles in {compiled} of {len(checked)}")
    else:
        facts.append("nothing was compiled")
    for fact, specs in (
        ("the host module failed", [c.spec for c in checked if c.why_host_failed]),
        ("the default does not work", [r.spec for r in runs if r.failures or r.why_not_run]),
        ("an unseen input fails", [r.spec for r in runs if r.fails_unseen]),
    ):
        if specs:
            facts.append(f"{fact} in {len(specs)}: {', '.join(spec.name for spec in specs)}")
    return "; ".join(facts)
