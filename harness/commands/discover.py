"""harness discover SOURCE: write a space file from a kernel's source."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.core.files import write_file
from harness.discover.autotune import triton_texts
from harness.discover.facts import discover
from harness.discover.space_file import host_text, space_text, to_do
from harness.options.others import DiscoverOptions


def run(options: DiscoverOptions) -> int:
    """Write the space; return the exit code."""
    source, host = options.source, options.host
    folder = options.output.parent if options.output else Path()
    if options.triton:
        text, module = triton_texts(source, options.function, folder, host)
    else:
        facts = discover(source, options.function)
        text = space_text(facts, folder, host or source.with_suffix(".py"), host is not None)
        module = host_text(facts)
    items = _write(host, module) if host else []
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
