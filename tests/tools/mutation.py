"""Measure how many small faults the tests notice: mutation testing (DeMillo et al., 1978).

A mutant is a copy of the project in which one comparison, operator, constant or condition of a room
is changed. The tests of the README's command run on it, those of the room first; it is noticed if
one of them fails. The places that change are drawn at random from a group of rooms, each with the
same probability. Run it where harness is installed:

    python -m tests.tools.mutation --out FILE [--group NAME] [--count 60] [--seed 0] [--jobs 1]

It tests the commit that is checked out, without later changes, and without the tests that need
PostgreSQL, PyCUDA or PyTorch. Where a test fails, this test runs on the unchanged project next: it
may fail because the machine is busy. Then the mutant is tried once more. So `nice -n 19` does no
harm. First of all, the unchanged tests must pass.

A mutant takes from seconds to half an hour, so 60 of each group take hours. FILE gets a line of
JSON for each mutant, and the same command goes on where it was stopped. At the end come a table,
the mutants that no test noticed, as diffs, and one JSON line: for each of those, either a test is
missing, or the mutant does the same as the original.
"""

from __future__ import annotations

import argparse
import compileall
import ctypes
import difflib
import json
import multiprocessing
import os
import py_compile
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from tests.tools.mutants import GROUPS, Mutant, drawn

ROOT = Path(__file__).resolve().parents[2]
ORIGINAL = "project"  # the unchanged copy; the others lie beside it
_MARKERS = ("-m", "not slow and not postgres and not pycuda and not torch")
"""Those of README's command."""

_ALL_LEFT_OUT = 5  # pytest's exit code
_PR_SET_PDEATHSIG = 1
Line = dict[str, Any]
"""A line of the file: what the file is of, a room whose unchanged tests pass, or a mutant."""

_FORKS = multiprocessing.get_context("forkserver")
"""Each mutant's tests run in a fork of a process that has loaded what takes longest."""
_FORKS.set_forkserver_preload(
    ["hypothesis", "numpy", "pandas", "pytest", "scipy.stats", "sklearn.tree", "sqlalchemy"]
)


def tests_for(path: str, root: Path) -> list[str]:
    """Return all tests: of the module's room those named after it, then those that import it, then
    the others; then those of what users see, and those of the other rooms."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def rank(test: Path) -> tuple[bool, bool, str]:
        imports = test.read_text(encoding="utf-8").replace(" import ", ".")
        is_named = test.stem.endswith(f"_{module.rpartition('.')[2]}")
        return not is_named, module not in imports, test.stem

    tests = root / "tests"
    own = sorted((tests / path.split("/")[1]).rglob("test_*.py"), key=rank)
    ranked = [*own, *(tests / "golden").glob("test_*.py"), *sorted(tests.rglob("test_*.py"))]
    return [test.relative_to(root).as_posix() for test in dict.fromkeys(ranked)]


@dataclass(frozen=True)
class Ended:
    """How tests ended; in `how`, for where no test failed and yet not all passed."""

    passed: bool
    failed: list[str]
    how: str
    late: bool = False


def run_tests(tree: Path, arguments: Sequence[str], timeout_s: float) -> Ended:
    """Run pytest in a copy of the project, with arguments such as names of tests."""
    failures = tree.with_suffix(".failed")
    failures.write_text("")
    process = _FORKS.Process(target=_be_pytest, args=(tree, failures, arguments))
    process.start()
    assert process.pid is not None
    try:
        process.join(timeout_s)
        code = process.exitcode
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it started ends as well
    process.join()
    if code is None:
        return Ended(False, [], f"no end within {timeout_s:.0f} s", late=True)
    failed = failures.read_text().splitlines()
    return Ended(code in (0, _ALL_LEFT_OUT), failed, f"pytest ends with {code}")


def _be_pytest(tree: Path, failures: Path, arguments: Sequence[str]) -> None:
    os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # its parent ends with this program
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    for name in list(sys.modules):
        if name.partition(".")[0] == "tests":  # this module's package: the copy has its own
            del sys.modules[name]
    os.environ["PYTHONPATH"] = str(tree)
    sink = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(sink, stream)
    import pytest

    class Failures:
        """Keeps the failed tests, and the files that cannot be imported."""

        def pytest_collectreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
            """Keep one."""
            if report.failed:
                with failures.open("a") as file:
                    file.write(f"{report.nodeid}\n")

        pytest_runtest_logreport = pytest_collectreport

    options = ["-q", "-n", "0", "-p", "no:cacheprovider"]
    options.append(f"--basetemp={tree.with_suffix('.temporary')}")
    sys.exit(pytest.main([*options, *_MARKERS, *arguments], plugins=[Failures()]))


def noticed_by(mutant: Mutant, tree: Path, timeout_s: float) -> str:
    """Return the test that notices a mutant, or what else it does to the tests; "" for nothing.

    A test notices it if it fails, and passes without the change.
    """
    target = tree / mutant.path
    source = target.read_bytes()
    tests = ["-x", *tests_for(mutant.path, tree)]
    for _ in range(2):
        target.write_bytes(mutant.applied(source))
        ended = run_tests(tree, tests, timeout_s)
        target.write_bytes(source)
        if ended.passed or ended.late:
            return ended.how if ended.late else ""
        if ended.failed and run_tests(tree, [ended.failed[0]], timeout_s).passed:
            return ended.failed[0]
        shutil.rmtree(tree)
        _copied(tree.with_name(ORIGINAL), tree)  # a mutant may have written there
    return "" if ended.failed else ended.how


def _copied(original: Path, tree: Path) -> Path:
    """Copy a tree; its links stay links, as a room's modules are searched for without following
    them."""
    return shutil.copytree(original, tree, symlinks=True)


class Journal:
    """The file: what was found out so far, to which lines are added."""

    def __init__(self, path: Path, commit: str, seed: int) -> None:
        self._path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # the last line may have been cut off
        self._lines: list[Line] = [json.loads(line) for line in whole.splitlines()]
        if whole != text:
            path.write_text(whole, encoding="utf-8")
        if not self._lines:
            self.add({"commit": commit, "seed": seed})
        of = self._lines[0]
        if (of.get("commit"), of.get("seed")) != (commit, seed):
            sys.exit(
                f"{path} is of commit {of.get('commit')} and seed {of.get('seed')}, not of commit "
                f"{commit} and seed {seed}: go on with its own, or name another file"
            )

    def add(self, line: Line) -> None:
        """Write a line now."""
        self._lines.append(line)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def find(self, part: Line) -> Line | None:
        """Return the line that has these fields, if there is one."""
        return next((line for line in self._lines if part.items() <= line.items()), None)


def _describe(group: str, mutant: Mutant, root: Path) -> Line:
    source = (root / mutant.path).read_bytes()
    before, after = source.decode(), mutant.applied(source).decode()
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
    line = source.count(b"\n", 0, mutant.start) + 1
    diff = "\n".join(list(lines)[2:])
    return {"group": group, "path": mutant.path, "line": line, "diff": diff}


def _copy(commit: str, tree: Path) -> Path:
    """Write the files of a commit to a folder, and compile it, so that each mutant need not."""
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True)
    tree.mkdir()
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    checked = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(tree / "harness", quiet=1, invalidation_mode=checked)
    return tree


def check(journal: Journal, tree: Path, timeout_s: float) -> float:
    """Return the seconds of the tests without a mutant; end the program if one fails twice."""
    checked = journal.find({"mutant": "none"})
    if checked is None:
        start = time.monotonic()
        first = run_tests(tree, ["tests"], timeout_s)
        again = first if first.passed else run_tests(tree, ["tests"], timeout_s)
        twice = [test for test in first.failed if test in again.failed]
        if twice or not (again.passed or again.failed):
            found = "\n".join(twice or [again.how])
            sys.exit(f"these fail without a mutant, so no mutant can be tried:\n{found}")
        checked = {"mutant": "none", "seconds": round(time.monotonic() - start, 1)}
        journal.add(checked)
        print(f"the tests pass without a mutant, in {checked['seconds']:.0f} s", flush=True)
    seconds: float = checked["seconds"]
    return seconds


def try_mutants(
    found: Iterable[tuple[Line, Mutant]], journal: Journal, trees: list[Path], timeout_s: float
) -> None:
    """Try mutants and add them to the journal, as many at a time as there are copies."""

    def tried(line: Line, mutant: Mutant) -> Line:
        tree = trees.pop()
        start = time.monotonic()
        try:
            by = noticed_by(mutant, tree, timeout_s)
        finally:
            trees.append(tree)
        return {**line, "by": by, "seconds": round(time.monotonic() - start, 1)}

    pool = ThreadPoolExecutor(len(trees))
    try:
        for done in as_completed([pool.submit(tried, *each) for each in found]):
            line = done.result()
            journal.add(line)
            print(f"{line['path']}:{line['line']} noticed by {line['by'] or 'nothing'}", flush=True)
    finally:
        pool.shutdown(cancel_futures=True)


def show(groups: Sequence[str], lines: Sequence[Line]) -> None:
    """Print the table, the diffs of what nothing noticed, and the JSON line."""
    figures: dict[str, Line] = {}
    print("\ngroup      mutants  noticed, 95 %")
    for group in groups:
        noticed = [bool(line["by"]) for line in lines if line["group"] == group]
        share = sum(noticed) / len(noticed)
        ends = binomtest(sum(noticed), len(noticed)).proportion_ci()
        figures[group] = {"mutants": len(noticed), "noticed": sum(noticed)}
        figures[group]["noticed_95"] = [round(ends.low, 3), round(ends.high, 3)]
        cell = f"{sum(noticed):>4}  {share:.0%} [{ends.low:.0%}, {ends.high:.0%}]"
        print(f"{group:<10} {len(noticed):>7}  {cell}")
    for line in lines:
        if not line["by"]:
            print(f"\nnot noticed: {line['path']}, line {line['line']}\n{line['diff']}")
    print(f"\n{json.dumps(figures)}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Try the mutants that the file lacks, and print what it holds then."""
    # Nothing here imports harness: the tests are to import that of a copy.
    parser = argparse.ArgumentParser(
        "python -m tests.tools.mutation",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--out", type=Path, required=True, metavar="FILE", help="where the mutants are kept")
    add("--group", action="append", choices=GROUPS, help="only this group; may be repeated")
    add("--count", type=int, default=60, help="mutants of a group (default 60)")
    add("--seed", type=int, default=0, help="the seed of the draw (default 0)")
    add("--jobs", type=int, default=1, help="how many run at a time (default 1)")
    limit = "a mutant is noticed after S, or thrice the time without it if more (default 600)"
    add("--timeout", type=float, default=600.0, metavar="S", help=limit)
    args = parser.parse_args(arguments)
    groups = list(dict.fromkeys(args.group or GROUPS))
    head = ["git", "rev-parse", "HEAD"]
    ran = subprocess.run(head, cwd=ROOT, capture_output=True, text=True, check=True)
    commit = ran.stdout.strip()
    journal = Journal(args.out, commit, args.seed)
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        original = _copy(commit, Path(folder, ORIGINAL))
        found = [
            (_describe(group, mutant, original), mutant)
            for group in groups
            for mutant in drawn(original, group, args.count, args.seed)
        ]
        left = [each for each in found if journal.find(each[0]) is None]
        trees = [_copied(original, Path(folder, str(job))) for job in range(args.jobs)]
        seconds = check(journal, trees[0], 6 * args.timeout)
        try_mutants(left, journal, trees, max(args.timeout, 3 * seconds))
    show(groups, [line for each, _ in found if (line := journal.find(each)) is not None])


if __name__ == "__main__":
    main()
