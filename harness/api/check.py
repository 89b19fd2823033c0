"""Check a space from Python, as `harness check` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.api.documents import SpaceDocument
from harness.checking.space_check import check_spaces
from harness.core.errors import UsageError
from harness.options.check import CheckOptions
from harness.space_file import Spec, load_specs


def check(space: str | Path | Spec, **arguments: Any) -> SpaceDocument:
    """Check a space as the command does, and return what `check --json` prints of it.

    docs/reference/commands.md describes the arguments. Raises SpecError for the faults of a space.
    """
    if "spaces" in arguments:
        raise TypeError("check() takes one space, as its first argument")
    arguments["spaces"] = space
    with CheckOptions.called("check", arguments, spaces="space") as options:
        specs = [space] if isinstance(space, Spec) else load_specs(options.spaces)
        if len(specs) != 1:
            raise UsageError(f"check() takes one space, got {len(specs)}; call it for each")
        (checked,) = check_spaces(specs, options)
        return SpaceDocument.model_validate(checked)


check.__signature__ = CheckOptions.signature(spaces="space")  # type: ignore[attr-defined]
