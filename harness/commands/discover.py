"""harness discover SOURCE: write a space file from a kernel's source."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.commands.options import DiscoverOptions
from harness.core.files import write_file
from harness.discover.facts import discover
from harness.discover.space_file import host_text, space_text, to_do


def run(options: DiscoverOptions) -> int:
    """Write the space; return the exit code."""
    facts = discover(options.source, options.function)
    folder = options.output.parent if options.output else Path()
    host = options.host or facts.path.with_suffix(".py")
    items = []
    if options.host:
        items += _write(options.host, host_text(facts))
    text = space_text(facts, folder, host)
    if options.output:
        items += _write(options.output, text)
    else:
        print(text, end="")
        items += [f"  {item}" for item in to_do(text)]
    if items:
        print("\n".join(["to do:", *items]), file=sys.stderr)
    return 0


def _write(path: Path, text: str) -> list[str]:
    """Write a new file; return a line for each thing that is left to do in it."""
    write_file(path, text, replace=False)
    print(f"wrote {path}", file=sys.stderr)
    return [f"  {path}, {item}" for item in to_do(text)]
