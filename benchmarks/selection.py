"""How long does a choice take? A tree and an ensemble, in C and in Python.

Both are learnt from the first data set of a recording, as `benchmarks/dispatch.py` reads it, and
choose for inputs of it: 10,000 in C, far more than a branch predictor remembers, and 200 in Python.

    python -m benchmarks.selection miopen_gfx900_56.csv.gz

This takes some minutes, most of them to learn. A time is the CPU time of a choice, the least of 15
repeats over all inputs. It needs `cc`. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from benchmarks.dispatch_data import read_data_sets
from benchmarks.dispatch_runs import MOST_LEAVES
from benchmarks.frame import SEED, Figures, benchmark, option, show
from harness.core.records import Environment, Value
from harness.dispatch.dispatcher import Dispatcher, Provenance
from harness.dispatch.ensemble import EnsembleLearner
from harness.dispatch.features import Type, features_of
from harness.dispatch.package import files_of
from harness.dispatch.tree import TreeLearner

REPEATS = 15
Inputs = Sequence[Mapping[str, Value]]
NOWHERE = Provenance(Environment("", "", "", "", ""), "", (), 0, "", "", ("a benchmark",))
MAIN = """\
#include <stdio.h>
#include <time.h>
#include "timed.h"
static const struct {{ {members} }} inputs[] = {{ {inputs} }};
static double now_s(void) {{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}}
int main(void) {{
    volatile int sum = 0;
    const int count = sizeof inputs / sizeof inputs[0];
    for (int repeat = 0; repeat < {repeats}; repeat++) {{
        const double begin_s = now_s();
        for (int i = 0; i < count; i++) sum = sum + timed_select({arguments});
        printf("%.17g\\n", (now_s() - begin_s) / count);
    }}
}}
"""


def c_program(dispatcher: Dispatcher, inputs: Inputs) -> str:
    """Write a program that prints the seconds of a choice, for each repeat over all inputs."""
    members = ""
    columns = []
    for feature in dispatcher.features:
        values = [row[feature.name] for row in inputs]
        kind = feature.type.value
        cells = list(map(repr, values))
        if feature.type is Type.WORD:
            kind = f"enum timed_{feature.name}"
            cells = [feature.c_word("timed", str(value)) for value in values]
        members += f"{kind} {feature.variable}; "
        columns.append(cells)
    rows = [f"{{{', '.join(cells)}}}" for cells in zip(*columns, strict=True)]
    arguments = ", ".join(f"inputs[i].{feature.variable}" for feature in dispatcher.features)
    table = ",\n".join(rows)
    return MAIN.format(members=members, inputs=table, repeats=REPEATS, arguments=arguments)


def time_choices(dispatcher: Dispatcher, inputs: Inputs, folder: Path) -> dict[str, float]:
    """Return the seconds of a choice in C and in Python, and the size of the header."""
    for path, content in files_of(dispatcher).items():
        (folder / path).parent.mkdir(exist_ok=True, parents=True)
        (folder / path).write_bytes(content)
    (folder / "main.c").write_text(c_program(dispatcher, inputs[:10_000]))
    subprocess.run(["cc", "-O2", "main.c", "-o", "main"], cwd=folder, check=True)
    printed = subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout
    sys.path.insert(0, str(folder))
    sys.modules.pop("timed", None)
    module = importlib.import_module("timed")
    sys.path.remove(str(folder))
    python_s = []
    for _ in range(REPEATS):
        module._least.cache_clear()
        begin_s = time.process_time()
        for row in inputs[:200]:
            module.select_index(*row.values())
        python_s.append((time.process_time() - begin_s) / len(inputs[:200]))
    c_s = min(map(float, printed.split()))
    return {
        "c_s": c_s,
        "python_s": min(python_s),
        "header_bytes": (folder / "timed.h").stat().st_size,
    }


@benchmark(option("file", what="a recording of many inputs", type=Path, metavar="FILE"), SEED)
def main(args: argparse.Namespace) -> Figures:
    """Learn both, and time them."""
    matrix = read_data_sets(args.file)[0].matrix
    shuffled = matrix.features.sample(frac=1, random_state=args.seed)
    inputs = cast(Inputs, shuffled.to_dict("records"))
    names = tuple(map(str, shuffled.columns))
    figures = {}
    for learner in (TreeLearner(MOST_LEAVES), EnsembleLearner()):
        program = learner.fit(matrix, args.seed).program(matrix.candidates)
        features = features_of(program, names, inputs)
        dispatcher = Dispatcher("timed", "", ("timed",), features, program, NOWHERE)
        with tempfile.TemporaryDirectory() as folder:
            figures[learner.name] = time_choices(dispatcher, inputs, Path(folder))
    rows = [(name, *times.values()) for name, times in figures.items()]
    show(("choice", "C, s", "Python, s", "header, bytes"), rows)
    return figures


if __name__ == "__main__":
    sys.exit(main())
