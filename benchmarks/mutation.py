"""Measure how many small faults the tests notice: mutation testing (DeMillo et al., 1978).

A mutant is a copy of harness in which one comparison, operator, constant or condition is changed.
The tests that import the mutated module run on it; the mutant is killed if one of them fails.
Mutants are drawn at random, the same number from each module. Run it where harness is installed:

    python -m benchmarks.mutation [--each 12] [--seed 0] [--jobs 2] [--tests TEST ...] [MODULE ...]

MODULE is a file or a folder, `harness/stats` for instance; without one, the modules behind every
claim of harness are taken. Where tests are named after the module, as test_judge.py after
space/judge.py, these alone run: they are quick. `--tests` names others. A survivor is printed as a
diff: either a test is missing, or the mutant does the same as the original. A mutant takes as long
as its tests, from seconds to a minute, so a run over all modules takes hours. The last line is one
JSON object.
"""

from __future__ import annotations

import ast
import compileall
import difflib
import json
import multiprocessing
import os
import py_compile
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from benchmarks.arguments import make_parser

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 600.0
CORE = (
    "harness/stats",
    "harness/measure/trial.py",
    "harness/measure/verify.py",
    "harness/measure/plausibility.py",
    "harness/measure/kernel_runner.py",
    "harness/measure/kernel_data.py",
    "harness/measure/programs/proof.py",
    "harness/tuning/finals.py",
    "harness/tuning/crossing.py",
    "harness/tuning/interleaved.py",
    "harness/dispatch/candidates.py",
    "harness/dispatch/portfolio.py",
    "harness/dispatch/matrix.py",
    "harness/dispatch/searched_times.py",
    "harness/dispatch/verdict.py",
    "harness/dispatch/tree.py",
    "harness/dispatch/growing.py",
    "harness/compare",
    "harness/space/judge.py",
    "harness/search/interface.py",
    "harness/search/techniques/gaussian_process.py",
    "harness/search/transfer",
    "harness/results/read.py",
    "harness/results/merge.py",
    "harness/results/validate.py",
    "harness/results/compatible.py",
    "harness/models/gaussian_process.py",
    "harness/models/starchart/growing.py",
    "harness/models/starchart/regression.py",
)

_TESTS = {
    "harness/compare/comparison.py": ("comparison", "compare"),
    "harness/compare/machine.py": ("compare_machine",),
    "harness/compare/matching.py": ("matching",),
    "harness/compare/reports.py": ("compare_table", "compare"),
    "harness/compare/rerun": ("rerun",),
    "harness/compare/statistics.py": ("comparison",),
    "harness/compare/table.py": ("compare_table", "compare"),
    "harness/compare/": ("compare",),
    "harness/measure/kernel_": ("trial", "launches", "plausibility"),
    "harness/measure/programs/proof.py": ("program_doubts", "program_proofs"),
    "harness/results/merge.py": ("merge", "versions"),
    "harness/results/read.py": ("results_read", "columns", "results"),
    "harness/tuning/crossing.py": ("candidates", "crossing", "shared_time"),
    "harness/tuning/interleaved.py": ("finals",),
}
"""The tests of modules that have none named after them, by the first start of their path."""

_FORKS = multiprocessing.get_context("forkserver")
"""Each mutant's tests run in a fork of a process that has loaded what takes longest."""
_FORKS.set_forkserver_preload(
    ["hypothesis", "numpy", "pandas", "pytest", "scipy.stats", "sklearn.tree", "sqlalchemy"]
)

_COMPARISONS = {
    ast.Lt: ("<=", ">"),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<"),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_OPERATORS = {
    ast.Add: ("-",),
    ast.Sub: ("+",),
    ast.Mult: ("/", "+"),
    ast.Div: ("*",),
    ast.FloorDiv: ("*",),
    ast.Mod: ("*",),
    ast.Pow: ("*",),
}


@dataclass(frozen=True)
class Mutant:
    """A file in which the text between two offsets, in bytes, is replaced."""

    path: str
    start: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        """Return the source with the replacement."""
        return source[: self.start] + self.text.encode() + source[self.end :]


class _Finder(ast.NodeVisitor):
    """Collect the mutants of one module; annotations and docstrings have none."""

    def __init__(self, path: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._path, self._source = path, source
        lines = source.splitlines(keepends=True)
        self._line_starts = [sum(map(len, lines[:row])) for row in range(len(lines) + 1)]

    def _start(self, node: ast.expr) -> int:
        return self._line_starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def _replace(self, start: int, end: int, text: str) -> None:
        self.found.append(Mutant(self._path, start, end, text))

    def _replace_between(self, left: ast.expr, right: ast.expr, texts: Sequence[str]) -> None:
        """Replace the operator between two operands, whose parentheses stay as they are."""
        start, end = self._end(left), self._start(right)
        between = self._source[start:end].decode()
        operator = re.search(r"[^\s()\\]+( (not|in))?", between)
        if operator is not None and "#" not in between:
            first, last = (len(between[:at].encode()) for at in operator.span())
            for text in texts:
                self._replace(start + first, start + last, text)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip(
            [node.left, *node.comparators], node.ops, node.comparators, strict=False
        ):
            self._replace_between(left, right, _COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = _OPERATORS.get(type(node.op), ())
        if not any(isinstance(each, ast.JoinedStr) for each in (node.left, node.right)):
            self._replace_between(node.left, node.right, texts)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        text = "or" if isinstance(node.op, ast.And) else "and"
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._replace_between(left, right, (text,))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.Not, ast.USub)):
            self._replace(self._start(node), self._start(node.operand), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._replace(self._start(node), self._end(node), str(not value))
        elif isinstance(value, int):
            self._replace(self._start(node), self._end(node), str(value + 1))
        elif isinstance(value, float):
            self._replace(self._start(node), self._end(node), repr(value * 1.5 or 1.0))

    def visit_If(self, node: ast.If | ast.IfExp | ast.While) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        start, end = self._start(node.test), self._end(node.test)
        self._replace(start, end, f"not ({self._source[start:end].decode()})")
        self.generic_visit(node)

    visit_IfExp = visit_If  # noqa: N815
    visit_While = visit_If  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in [*node.args.defaults, *(each for each in node.args.kw_defaults if each)]:
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave messages alone."""

    def visit_keyword(self, node: ast.keyword) -> None:
        """Leave frozen dataclasses alone: nothing that works would do something else."""
        if node.arg != "frozen":
            self.generic_visit(node)


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Return every mutant of a module that still compiles."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return [mutant for mutant in finder.found if _compiles(mutant.applied(source))]


def _compiles(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def tests_of(path: str) -> list[str]:
    """Return the tests that import a module, those named after it alone where there are such; where
    none imports it, the tests of its package. Some modules have a list of their own."""
    for start, names in _TESTS.items():
        if path.startswith(start):
            return [f"tests/test_{each}.py" for each in names]
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    last = name.rpartition(".")[2]
    while name != "harness":
        found = [each for each in _test_modules() if _names(each, name)]
        named = [each for each in found if each.stem.endswith(f"_{last}")]
        if found:
            return sorted(str(each.relative_to(ROOT)) for each in named or found)
        name = name.rpartition(".")[0]
    return []


def _test_modules() -> Iterator[Path]:
    return (ROOT / "tests").glob("test_*.py")


def _names(test: Path, name: str) -> bool:
    package, _, last = name.rpartition(".")
    text = test.read_text()
    direct = rf"(from|import) {re.escape(name)}(\.| |$)"
    through = rf"from {re.escape(package)} import [^\n]*\b{re.escape(last)}\b"
    return re.search(f"{direct}|{through}", text, re.MULTILINE) is not None


def drawn(paths: Sequence[str], each: int, seed: int) -> list[Mutant]:
    """Draw mutants of every module, at most `each` of one."""
    mutants: list[Mutant] = []
    for path in paths:
        found = mutants_of(path, (ROOT / path).read_bytes())
        random.Random(f"{seed}:{path}").shuffle(found)
        mutants += found[:each]
    return mutants


def survives(mutant: Mutant, tree: Path, tests: Sequence[str]) -> bool:
    """Run the tests on the mutant in a copy of the project; say whether all pass."""
    target = tree / mutant.path
    original = target.read_bytes()
    target.write_bytes(mutant.applied(original))
    process = _FORKS.Process(target=_run_tests, args=(tree, tests))
    try:
        process.start()
        process.join(TIMEOUT_S)
        if process.is_alive() and process.pid is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
    finally:
        target.write_bytes(original)
    return process.exitcode == 0


def _run_tests(tree: Path, tests: Sequence[str]) -> None:
    """Be a process that runs tests in a copy of the project."""
    os.setsid()
    os.chdir(tree)
    sys.path.insert(0, str(tree))
    os.environ["PYTHONPATH"] = str(tree)
    sink = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(sink, stream)
    import pytest

    sys.exit(pytest.main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", *tests]))


def _copy(tree: Path) -> Path:
    """Copy what git does not ignore to a folder, and compile it, so that each mutant need not."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    checked = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(tree / "harness", quiet=1, invalidation_mode=checked)
    return tree


def _describe(mutant: Mutant, source: bytes) -> str:
    before, after = source.decode(), mutant.applied(source).decode()
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=1, lineterm="")
    return "\n".join([f"survived in {mutant.path}", *list(lines)[2:]])


def run(mutants: Sequence[Mutant], jobs: int, tests: Sequence[str]) -> list[Mutant]:
    """Return the mutants that survive; each job has a copy of the project of its own."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            trees.put(_copy(Path(folder, str(number))))
        tests_for = {mutant.path: tests or tests_of(mutant.path) for mutant in mutants}
        path = mutants[0].path
        for chosen in dict.fromkeys(map(tuple, tests_for.values())):
            if not survives(Mutant(path, 0, 0, ""), Path(folder, "0"), chosen):
                sys.exit(f"{' '.join(chosen)} fail without a change; run them first")

        def tried(mutant: Mutant) -> Mutant | None:
            tree = trees.get()
            try:
                survived = survives(mutant, tree, tests_for[mutant.path])
                source = (tree / mutant.path).read_bytes()
            finally:
                trees.put(tree)
            found = _describe(mutant, source) if survived else f"killed in {mutant.path}"
            print(found, flush=True)
            return mutant if survived else None

        with ThreadPoolExecutor(jobs) as pool:
            return [mutant for mutant in pool.map(tried, mutants) if mutant is not None]


def _modules(names: Sequence[str]) -> list[str]:
    found = []
    for name in names:
        path = (ROOT / name).resolve()
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        found += [str(file.relative_to(ROOT)) for file in files if file.name != "__main__.py"]
    return [path for path in dict.fromkeys(found) if tests_of(path)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each mutant, a table by module and the JSON line."""
    parser = make_parser("mutation", __doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", default=list(CORE))
    parser.add_argument("--each", type=int, default=12, help="the most mutants of one module")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the draw")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at a time")
    parser.add_argument("--tests", nargs="+", default=[], metavar="TEST", help="run these alone")
    args = parser.parse_args(arguments)
    mutants = drawn(_modules(args.modules), args.each, args.seed)
    survivors = run(mutants, args.jobs, args.tests)
    print(f"\n{'killed':>8} {'of':>4}  module")
    for path in dict.fromkeys(mutant.path for mutant in mutants):
        count = sum(mutant.path == path for mutant in mutants)
        lost = sum(mutant.path == path for mutant in survivors)
        print(f"{count - lost:>8} {count:>4}  {path}")
    killed = len(mutants) - len(survivors)
    from harness.stats.proportions import clopper_pearson  # here: the tests import a copy's

    share = clopper_pearson(killed / len(mutants), len(mutants), alpha=0.05)
    figures = {
        "mutants": len(mutants),
        "killed": killed,
        "killed_share": round(share.value, 3),
        "killed_share_95": [round(share.low, 3), round(share.high, 3)],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
