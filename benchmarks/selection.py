"""Cost of a selection in generated code: C and Python, tree and ensemble.

Draws a tree and an ensemble over three sizes and their products and ratios, or learns both from a
recording as `benchmarks/dispatch.py` reads it, writes them as a C header and a Python module, and
times selections for inputs that change from call to call, so that no branch predictor learns the
answer. Needs a C compiler:

    python -m benchmarks.selection
    python -m benchmarks.selection --candidates 20 --tree-leaves 256
    python -m benchmarks.selection --learn miopen_gfx900_56.csv.gz

Each figure is the least of several repeats of a loop over all inputs, in processor time, which
other programs disturb least; C is compiled with -O2. `a split` is the time of a selection in Python
over the splits that it passes: SPLIT_S of harness/dispatch/study.py is that of ensembles. It takes
a minute; learning from a recording takes some minutes more. The last line is one JSON object; times
are of one selection.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from benchmarks.arguments import count, make_parser
from benchmarks.selection_cases import Inputs, drawn_cases, learnt_cases
from harness.core.errors import HarnessError
from harness.core.records import Value
from harness.dispatch.c_code import c_header
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.ensemble import LEAVES
from harness.dispatch.features import Feature
from harness.dispatch.formulas import Type
from harness.dispatch.learnt import splits_passed
from harness.dispatch.python_code import python_module
from harness.models.encoding.columns import column_values

REPEATS = 15
PYTHON_INPUTS = 200

MAIN = """\
#include <stdio.h>
#include <time.h>
#include "timed.h"
static const struct { MEMBERS; } inputs[] = {INPUTS};
enum { COUNT = sizeof inputs / sizeof inputs[0], LOOPS = LOOP_COUNT };
static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
int main(void) {
    volatile int sum = 0;
    int top[3];
    (void)top;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        const double begin_s = now_s();
        for (int loop = 0; loop < LOOPS; loop++)
            for (int i = 0; i < COUNT; i++)
                sum = sum + CALL;
        printf("%.17g\\n", (now_s() - begin_s) / LOOPS / COUNT);
    }
    return 0;
}
"""


def c_program(
    dispatcher: Dispatcher, inputs: Inputs, loops: int, call: str = "timed_select("
) -> str:
    """Write a program that times calls of a function, by default selections, for all inputs."""
    features = dispatcher.features
    arguments = ", ".join(f"inputs[i].{f.variable}" for f in features)
    kinds = [f"enum timed_{f.name}" if f.type is Type.WORD else f.type.value for f in features]
    listed = ",\n".join(
        f"{{{', '.join(map(partial(_c_value, dispatcher), features, one))}}}" for one in inputs
    )
    texts = {
        "MEMBERS": "; ".join(map("{} {}".format, kinds, (f.variable for f in features))),
        "INPUTS": listed,
        "CALL": f"{call}{arguments})",
        "LOOP_COUNT": str(loops),
        "REPEATS": str(REPEATS),
    }
    made = MAIN
    for name, text in texts.items():
        made = made.replace(name, text, 1)
    return made


def _c_value(dispatcher: Dispatcher, feature: Feature, value: Value) -> str:
    if feature.type is Type.WORD:
        return feature.c_word(dispatcher.name, str(value))
    return repr(value)


def time_c(dispatcher: Dispatcher, inputs: Inputs, loops: int) -> dict[str, float]:
    """Return the seconds of a selection, of a shortlist if there is one, and of compiling the
    header."""
    header = c_header(dispatcher)
    select_s, compile_s = _run_c(header, c_program(dispatcher, inputs, loops))
    found = {"select_s": select_s, "compile_s": compile_s, "header_bytes": len(header)}
    if dispatcher.program.choice.predicts_times:
        program = c_program(dispatcher, inputs, loops, "timed_select_top(top, 3, ")
        found["list_s"], _ = _run_c(header, program)
    return found


def _run_c(header: str, program: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "timed.h").write_text(header)
        (folder / "main.c").write_text(program)
        begin_s = time.perf_counter()
        subprocess.run(["cc", "-O2", "main.c", "-o", "main"], cwd=folder, check=True)
        compile_s = time.perf_counter() - begin_s
        said = subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout
    return min(map(float, said.split())), compile_s


def time_python(dispatcher: Dispatcher, inputs: Inputs) -> dict[str, float]:
    """Return the seconds of a selection of a new input and, where choices are cached, of a known
    one."""
    text = python_module(dispatcher)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timed.py"
        path.write_text(text, encoding="utf-8")
        begin_s = time.perf_counter()
        module = _imported(path)
        import_s = time.perf_counter() - begin_s
    select = module.select_index
    new = getattr(select, "__wrapped__", select)
    inputs = inputs[:PYTHON_INPUTS]
    found = {"select_s": _least(new, inputs), "import_s": import_s, "module_bytes": len(text)}
    if new is not select:
        found["again_s"] = _least(select, inputs)
    return found


def splits_of(dispatcher: Dispatcher, inputs: Inputs) -> float:
    """Return the mean number of splits that a selection passes."""
    features = pd.DataFrame(inputs, columns=[feature.name for feature in dispatcher.features])
    program = dispatcher.program
    return splits_passed(program.choice, column_values(program.columns, features))


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _least(select: Callable[..., int], inputs: Inputs) -> float:
    times = []
    for _ in range(REPEATS):
        begin_s = time.process_time()
        for one in inputs:
            select(*one)
        times.append((time.process_time() - begin_s) / len(inputs))
    return min(times)


def main(arguments: Sequence[str] | None = None) -> int:
    """Time both, print a table and the JSON line."""
    parser = make_parser("selection", __doc__)
    parser.add_argument("--candidates", type=count, default=8)
    parser.add_argument(
        "--trees", type=count, help="of each candidate; by default as many as are learnt"
    )
    parser.add_argument("--leaves", type=count, default=LEAVES, help="of a tree of the ensemble")
    parser.add_argument("--tree-leaves", type=count, default=64, help="of the single tree")
    parser.add_argument("--learn", type=Path, metavar="FILE", help="a recording, instead of these")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    try:
        cases = learnt_cases(args.learn, args.seed) if args.learn else drawn_cases(args)
    except HarnessError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    figures: dict[str, Any] = {}
    head = f"{'':10} {'C':>12} {'C, top 3':>12} {'Python':>12} {'again':>12} {'splits':>8}"
    print(f"{head} {'a split':>10} {'header':>10} {'compiled in':>12}")
    for name, (dispatcher, inputs) in cases.items():
        loops = 5 if name == "tree" else 1
        c, python = time_c(dispatcher, inputs, loops), time_python(dispatcher, inputs)
        shortlist = f"{c['list_s'] * 1e9:.1f} ns" if "list_s" in c else "-"
        again = f"{python['again_s'] * 1e6:.3f} us" if "again_s" in python else "-"
        splits = splits_of(dispatcher, inputs)
        print(
            f"{name:10} {c['select_s'] * 1e9:>9.1f} ns {shortlist:>12} "
            f"{python['select_s'] * 1e6:>9.3f} us {again:>12} {splits:>8.1f} "
            f"{python['select_s'] / splits * 1e9:>7.0f} ns "
            f"{c['header_bytes'] / 1e3:>7.1f} kB {c['compile_s']:>10.2f} s"
        )
        figures[name] = {"c": c, "python": python, "splits": splits}
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
