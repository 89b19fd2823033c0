"""python -m harness.merge OUT IN [IN ...]: merge results databases into one."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from harness.commands.run import run_command
from harness.core.errors import UsageError
from harness.core.text import counted
from harness.results import Added, merge_database, reading, sqlite_path, without_password, writing


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    return run_command(_parser(), arguments, _command)


def _command(args: argparse.Namespace) -> int:
    return _merge(args.out, args.inputs)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m harness.merge",
        description="Merge the results databases of several machines into one. Measurements that "
        "OUT already has are not added again, so the same databases can be merged each time they "
        "have grown. The inputs are only read. OpenTuner's own tables stay behind: they hold "
        "pickles, which can run code. Merged runs can be analysed like any other. To continue a "
        "search, use the database that it comes from.",
    )
    where = "SQLite file or SQLAlchemy URL"
    parser.add_argument("out", metavar="OUT", help=f"the database to add to ({where}); may be new")
    parser.add_argument("inputs", metavar="IN", nargs="+", help=f"a database to add ({where})")
    return parser


def _merge(out: str, inputs: Sequence[str]) -> int:
    for database in inputs:
        if _is_same(out, database):
            raise UsageError(f"{without_password(database)} is both OUT and an IN; name it once")
        with reading(database):
            pass  # an unreadable input is an error before OUT is created or changed
    with writing(out) as engine:
        for database in inputs:
            print(_line(merge_database(engine, database)), flush=True)
    return 0


def _is_same(one: str, other: str) -> bool:
    first, second = sqlite_path(one), sqlite_path(other)
    if first is None or second is None:
        return first is second and one == other
    return first.resolve() == second.resolve()


def _line(added: Added) -> str:
    runs, measurements = counted(added.runs, "run"), counted(added.measurements, "measurement")
    samples = counted(added.samples, "sample")
    return f"{without_password(added.database)}: added {runs}, {measurements}, {samples}"
