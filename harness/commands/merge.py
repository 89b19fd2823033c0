"""harness merge OUT IN [IN ...]: merge results databases into one."""

from __future__ import annotations

from harness.core.errors import HarnessError, UsageError
from harness.core.text import counted
from harness.options.others import MergeOptions
from harness.results.database import check_database, reading, writing
from harness.results.merge import merge_database
from harness.results.url import sqlite_path, without_password


def run(options: MergeOptions) -> int:
    """Merge; return the exit code."""
    out, inputs = options.out, options.inputs
    check_database(out)
    for database in inputs:
        if _is_same(out, database):
            raise UsageError(f"{without_password(database)} is both OUT and an IN; name it once")
        with reading(database, stock=True):
            pass  # an unreadable input is an error before OUT is created or changed
    path = sqlite_path(out)
    is_new = path is not None and not path.exists()
    with writing(out) as engine:
        for database in inputs:
            try:
                added = merge_database(engine, database)
            except HarnessError:
                if is_new and path is not None:  # nothing was added to it
                    engine.dispose()
                    path.unlink()
                raise
            is_new = False
            runs, samples = counted(added.runs, "run"), counted(added.samples, "sample")
            measurements = counted(added.measurements, "measurement")
            name = without_password(added.database)
            print(f"{name}: added {runs}, {measurements}, {samples}", flush=True)
    print(f"{without_password(out)}: the merged database")
    return 0


def _is_same(one: str, other: str) -> bool:
    first, second = sqlite_path(one), sqlite_path(other)
    if first is None or second is None:
        return first is second and one == other
    return first.resolve() == second.resolve()
