"""How long does a choice take? A tree and an ensemble, in C and in Python.

Both are learnt from the first data set of a recording, as `benchmarks/dispatch.py` reads it, and
choose for its own inputs, 10,000 at most: far more than a branch predictor remembers. `c_again_s`
is the time where the same 32 of them come again and again.

    python -m benchmarks.selection miopen_gfx900_56.csv.gz

This takes some minutes, most of them to learn. A time is the CPU time of a call, the least of 15
repeats over all inputs. It needs `cc`.
The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import importlib
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.dispatch_data import read_data_sets
from benchmarks.dispatch_runs import MOST_LEAVES
from benchmarks.frame import SEED, Figures, benchmark, option, show
from harness.core.records import Environment, Value
from harness.dispatch.c_code import c_header
from harness.dispatch.choice import DispatchProgram
from harness.dispatch.dispatcher import Dispatcher, Provenance
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.features import Feature, Type, features_of
from harness.dispatch.package import files_of
from harness.dispatch.tree import TreeLearner

REPEATS = 15
MOST_INPUTS, PYTHON_INPUTS, AGAIN = 10_000, 200, 32

Inputs = Sequence[tuple[Value, ...]]

MAIN = """\
#include <stdio.h>
#include <time.h>
#include "timed.h"
static const struct { MEMBERS; } inputs[] = {INPUTS};
enum { COUNT = sizeof inputs / sizeof inputs[0], AGAIN = MANY };
static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
int main(void) {
    volatile int sum = 0;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        for (int distinct = COUNT; distinct > 0; distinct = distinct > AGAIN ? AGAIN : 0) {
            const double begin_s = now_s();
            for (int turn = 0, i = 0; turn < COUNT; turn++, i = i + 1 < distinct ? i + 1 : 0)
                sum = sum + timed_select(ARGUMENTS);
            printf("%.17g ", (now_s() - begin_s) / COUNT);
        }
    }
    return 0;
}
"""


def learnt(path: Path, seed: int) -> tuple[dict[str, Dispatcher], Inputs]:
    """Learn a tree and an ensemble; return them with the inputs to choose for."""
    data = read_data_sets(path)[0]
    names = tuple(map(str, data.matrix.features.columns))
    inputs = list(data.matrix.features.itertuples(index=False, name=None))
    by_name = [dict(zip(names, one, strict=True)) for one in inputs]
    dispatchers = {}
    for learner in (TreeLearner(MOST_LEAVES), EnsembleLearner()):
        program = learner.fit(data.matrix, seed).program(data.matrix.candidates)
        dispatchers[learner.name] = written(program, features_of(program, names, by_name))
    return dispatchers, random.Random(seed).sample(inputs, min(MOST_INPUTS, len(inputs)))


def written(program: DispatchProgram, features: tuple[Feature, ...]) -> Dispatcher:
    """Make a dispatcher of a program, with empty provenance."""
    environment = Environment("none", "none", "none", "none", "none")
    provenance = Provenance(environment, "none", (), 0, "none", "none", ("a benchmark",))
    return Dispatcher("timed", "", ("timed",), features, program, provenance)


def time_c(dispatcher: Dispatcher, inputs: Inputs) -> dict[str, float]:
    """Return the seconds of a choice and of compiling, and the size of the header."""
    header = c_header(dispatcher)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "timed.h").write_text(header)
        (folder / "main.c").write_text(c_program(dispatcher, inputs))
        begin_s = time.perf_counter()
        subprocess.run(["cc", "-O2", "main.c", "-o", "main"], cwd=folder, check=True)
        compile_s = time.perf_counter() - begin_s
        said = subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout
    times = list(map(float, said.split()))
    select_s, again_s = min(times[::2]), min(times[1::2])
    return {
        "c_select_s": select_s,
        "c_again_s": again_s,
        "compile_s": compile_s,
        "header_bytes": len(header),
    }


def c_program(dispatcher: Dispatcher, inputs: Inputs) -> str:
    """Write a program that times the choices for all inputs."""
    features = dispatcher.features
    kinds = [f"enum timed_{f.name}" if f.type is Type.WORD else f.type.value for f in features]
    texts = {
        "MEMBERS": "; ".join(f"{k} {f.variable}" for k, f in zip(kinds, features, strict=True)),
        "INPUTS": ",\n".join("{" + ", ".join(map(_c_value, features, one)) + "}" for one in inputs),
        "ARGUMENTS": ", ".join(f"inputs[i].{f.variable}" for f in features),
        "REPEATS": str(REPEATS),
        "MANY": str(AGAIN),
    }
    made = MAIN
    for name, text in texts.items():
        made = made.replace(name, text, 1)
    return made


def _c_value(feature: Feature, value: Value) -> str:
    return feature.c_word("timed", str(value)) if feature.type is Type.WORD else repr(value)


def time_python(dispatcher: Dispatcher, inputs: Inputs) -> dict[str, float]:
    """Return the seconds of a choice for an input that is not cached, and of importing."""
    with tempfile.TemporaryDirectory() as folder:
        for path, content in files_of(dispatcher).items():
            (Path(folder) / path).parent.mkdir(exist_ok=True)
            (Path(folder) / path).write_bytes(content)
        sys.path.insert(0, folder)
        sys.modules.pop("timed", None)
        begin_s = time.perf_counter()
        module = importlib.import_module("timed")
        import_s = time.perf_counter() - begin_s
        sys.path.remove(folder)
    times = []
    for _ in range(REPEATS):
        module._least.cache_clear()
        begin_s = time.process_time()
        for one in inputs[:PYTHON_INPUTS]:
            module.select_index(*one)
        times.append((time.process_time() - begin_s) / len(inputs[:PYTHON_INPUTS]))
    return {"python_select_s": min(times), "import_s": import_s}


@benchmark(option("file", what="a recording of many inputs", type=Path, metavar="FILE"), SEED)
def main(args: argparse.Namespace) -> Figures:
    """Time both."""
    dispatchers, inputs = learnt(args.file, args.seed)
    found: dict[str, Mapping[str, float]] = {
        name: {**time_c(dispatcher, inputs), **time_python(dispatcher, inputs)}
        for name, dispatcher in dispatchers.items()
    }
    head = ("choice", *next(iter(found.values())))
    show(head, [(name, *one.values()) for name, one in found.items()])
    return found


if __name__ == "__main__":
    sys.exit(main())
