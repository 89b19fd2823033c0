"""Run a command: `harness tune SPACE` is `python -m harness.tune SPACE`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from harness import __version__
from harness.core.text import command_line, suggestion

COMMANDS = {
    "example": "write an example to tune",
    "discover": "write a space from the source of a kernel",
    "check": "validate spaces, count their configurations, compile their defaults",
    "tune": "tune a kernel or a program over its inputs",
    "replay": "search recorded measurements in place of a device",
    "analyse": "print the best configurations of a database, and what times depend on",
    "report": "write the results of databases as an HTML page",
    "dispatch": "write code that chooses a configuration by input",
    "recheck": "measure a dispatcher again, and say which choices still hold",
    "compare": "say what became slower or faster between two runs",
    "export": "write measurements as CSV or T4 results",
    "merge": "merge the results databases of several machines",
    "worker": "build and measure on this machine for a run elsewhere",
    "stencil": "explore the variants of a stencil",
    "devices": "list this machine's devices",
    "schema": "print the JSON Schema of spaces, or of a command's --json",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the first argument names, and return its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(usage())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"harness {__version__}")
        return 0
    name, *rest = words
    if name not in COMMANDS:
        hint = suggestion(name, COMMANDS, f"`{command_line('--help')}` lists the commands")
        print(f"error: unknown command `{name}`; {hint}", file=sys.stderr)
        return 2
    from harness.commands.run import run  # here: the list of commands needs none of it

    return run(name, rest)


def usage() -> str:
    """List the commands, each with what it does."""
    width = max(map(len, COMMANDS))
    lines = [f"    {name:<{width}}   {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        (
            f"usage: {command_line('COMMAND')} ...",
            "",
            *lines,
            "",
            f"{command_line('COMMAND', '--help')} lists the options of a command.",
            f"{command_line('--version')} prints the version.",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
