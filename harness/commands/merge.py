"""python -m harness.merge OUT IN [IN ...]: one results database out of several machines'."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.results import Added, merge_database, reading, shown_place, sqlite_path, writing


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    return run_command(_parser(), arguments, _merge)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.merge",
        description="Merge the results databases of several machines into one. What is there "
        "already is not added again, so the same databases can be merged whenever they have "
        "grown. The inputs are only read. OpenTuner's own tables stay behind: they hold pickles, "
        "which can run code; a merged run is analysed like any other, but it is continued only "
        "in the database that it comes from.",
    )
    where = "SQLite file or SQLAlchemy URL"
    parser.add_argument("out", metavar="OUT", help=f"the database to add to, made if new ({where})")
    parser.add_argument("inputs", metavar="IN", nargs="+", help=f"a database to add ({where})")
    return parser


def _merge(args: argparse.Namespace) -> int:
    for place in args.inputs:
        if _is_same(args.out, place):
            raise UsageError(f"{shown_place(place)} is OUT and an IN at once; name it once")
        with reading(place):
            pass  # what cannot be read is told before OUT is made or touched
    with writing(args.out) as engine:
        for place in args.inputs:
            print(_told(merge_database(engine, place)), flush=True)
    return 0


def _is_same(one: str, other: str) -> bool:
    first, second = sqlite_path(one), sqlite_path(other)
    if first is None or second is None:
        return first is second and one == other
    return first.resolve() == second.resolve()


def _told(added: Added) -> str:
    parts = [
        f"{count:,} {noun if count == 1 else noun + 's'}"
        for count, noun in (
            (added.runs, "run"),
            (added.measurements, "measurement"),
            (added.samples, "sample"),
        )
    ]
    return f"{shown_place(added.place)}: added {', '.join(parts)}"
