"""Make the golden outputs: what users see, as text files in `tests/golden/outputs`.

    python -m tests.golden.make

runs every command on the small files of `tests/golden/inputs` and writes what it printed and wrote:
tables, JSON, the report's text, dispatchers, exports, and the help of all commands. Nothing is
launched. Times come from recordings and from a formula with seeded noise, so a change of these
files is a change of what harness says. `test_golden.py` compares them.

A commit whose message begins with `same:` changes none of these files. Where a change is intended,
make them again, read the difference, and commit both together.

`inputs/convolution.json` is an excerpt of the convolution on an RTX 3090 in benchmark_hub, a
collection of Kernel Tuner's caches (MIT licence), with four samples of each configuration.
`inputs/times.csv` and the GPU of `formula.py` are made up.

What differs between machines, days and versions is masked: paths, dates, versions, digests.
Numbers are rounded to six digits, since processors add in different orders.
"""

import argparse
import contextlib
import io
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from unittest import mock

from harness.__main__ import COMMANDS, main, usage
from harness.report.findings import Findings
from tests.golden.formula import FormulaGpu
from tests.golden.texts import ROOT, help_of, masked, text_of_page

HERE = Path(__file__).parent
INPUTS, OUTPUTS = HERE / "inputs", HERE / "outputs"
DATA = HERE.parent / "data"
OTHER_GPUS = {"tune_changed": FormulaGpu("one", slower=1.2), "tune_elsewhere": FormulaGpu("two")}
OPENED = "harness.api.running.open_measurers"
AGAIN = "python -m tests.golden.make"

CASES = {
    "tune": [
        "tune rows.yaml --database rows.db --quiet --report tuned.html",
        "tune --list-techniques",
    ],
    "tune_json": ["tune rows.yaml --database rows.db --json --quiet"],
    "tune_changed": ["tune changed/rows.yaml --database changed.db --quiet --inputs m==1024"],
    "tune_elsewhere": [
        "tune rows.yaml --database elsewhere.db --test-limit 8 --quiet --inputs m==64"
    ],
    "replay": [
        "replay convolution.json --quiet --test-limit 30 -t UniformRandom",
        "replay convolution.json --quiet --test-limit 30 -t AUCBanditMetaTechniqueA --fresh",
        "replay times.csv --database times.db --quiet -t UniformRandom",
        "replay rows.db --spec rows.yaml --database again.db --quiet --test-limit 8 --inputs n<=64",
        "replay convolution.json --quiet --database v.db --validate 0.3",
    ],
    "replay_json": ["replay times.csv --database times.db --json --quiet -t UniformRandom"],
    "merge": ["merge all.db rows.db elsewhere.db", "merge all.db rows.db"],
    "analyse": [
        "analyse rows.db",
        "analyse results/convolution.replay.db",
        "analyse times.db",
        "merge imported.db stock_opentuner.db",
        "analyse imported.db --summary",
    ],
    "analyse_tree": [
        "analyse rows.db --tree 3 --inside n<=64 --below slowdown=1.2 --below power_w=130",
        "analyse rows.db --target time_s --per m --per n",
    ],
    "analyse_by_input": ["analyse again.db --by-input"],
    "analyse_devices": ["analyse all.db --summary", "analyse all.db --platforms"],
    "analyse_json": ["analyse times.db --json"],
    "compare": [
        "compare rows.db changed.db --junit junit.xml",
        "compare rows.db rows.db --of best",
        "compare rows.db elsewhere.db",
        "compare rows.db elsewhere.db --across-environments --threshold 5%",
    ],
    "compare_json": ["compare rows.db changed.db --json"],
    "check": [
        "check rows.yaml --no-compile",
        "check SPACES/blur_gcc.yaml --no-compile",
        "check SPACES/matmul_1_nvcc.yaml --no-compile",
        "check BAD/several_faults.yaml BAD/constraint_unknown_name.yaml",
        "check missing.yaml",
    ],
    "check_json": ["check rows.yaml SPACES/blur_gcc.yaml --no-compile --json"],
    "export": ["export times.db --format csv --output t.csv", "export times.db --output t4.json"],
    "report": ["report rows.db -o page.html"],
    "dispatch": [
        "dispatch rows.db -o out --spec rows.yaml",
        "dispatch rows.db -o ensemble --spec rows.yaml --choice ensemble",
    ],
    "discover": ["discover smooth.cl", "discover scale.cu --output scale.yaml --host scale.py"],
    "stencil": ["stencil explore jacobi2d_5pt.py --size 64 --count 3 -o stencil"],
}
WRITTEN = {
    "report_page": "page.html",
    "compare_junit": "junit.xml",
    "export_csv": "t.csv",
    "export_mapping": "t.mapping.yaml",
    "export_t4": "t4.json",
    "dispatch_c": "out/rows.h",
    "dispatch_json": "out/rows/rows.json",
    "dispatch_ensemble_c": "ensemble/rows.h",
    "discover_space": "scale.yaml",
    "discover_host": "scale.py",
    "stencil_space": "stencil/jacobi2d_5pt.yaml",
    "stencil_kernel": "stencil/variants/jacobi2d_5pt_0.cl",
}
"""Files that the commands write."""


def make(outputs):
    """Run all commands in a temporary folder, and write the outputs to another."""
    with tempfile.TemporaryDirectory() as name, _in_folder(Path(name).resolve()) as folder:
        texts = {
            name: "\n".join(_run(line, name) for line in lines) for name, lines in CASES.items()
        }
        for name, path in WRITTEN.items():
            text = (folder / path).read_text(encoding="utf-8")
            texts[name] = text_of_page(text) if path.endswith(".html") else text
        texts["files"] = "\n".join(sorted(_names(folder)))
        texts["help"] = "\n".join([usage(), *map(help_of, COMMANDS)])
        texts = {name: masked(text, folder) for name, text in texts.items()}
    outputs.mkdir(exist_ok=True)
    for old in outputs.glob("*.txt"):
        old.unlink()
    for name, text in texts.items():
        (outputs / f"{name}.txt").write_text(text.rstrip() + "\n", encoding="utf-8")


@contextlib.contextmanager
def _in_folder(folder):
    """Work in a copy of the inputs, with the settings of a machine where nothing is set."""
    stencil = ROOT / "kernels" / "stencils" / "jacobi2d_5pt.py"
    others = (DATA / "stock_opentuner.db", stencil)
    for file in (*INPUTS.iterdir(), *(DATA / "discover").iterdir(), *others):
        shutil.copy(file, folder)
    (folder / "changed").mkdir()
    for file in INPUTS.glob("rows.*"):
        text = file.read_text(encoding="utf-8")
        (folder / "changed" / file.name).write_text(text.replace("sum +=", "sum = sum +"))
    (folder / "SPACES").symlink_to(ROOT / "spaces")
    (folder / "BAD").symlink_to(DATA / "bad_specs")
    ours = ("HARNESS_", "FORCE_", "TTY_")
    given = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    given |= {"COLUMNS": "150", "HARNESS_CACHE_DIR": str(folder / "cache")}
    before = Path.cwd()
    with mock.patch.dict(os.environ, given, clear=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)


def _run(line, name):
    """What a command prints, and how it ends."""
    gpu = OTHER_GPUS.get(name, FormulaGpu("one"))
    opened = mock.patch(OPENED, return_value=({"": gpu}, "by formula"))
    undrawn = mock.patch.object(Findings, "picture", return_value="<svg></svg>")  # none is compared
    out, err = io.StringIO(), io.StringIO()
    with opened, undrawn, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(line.split())
    text = f"$ harness {line}\n{out.getvalue().rstrip()}\n"
    if errors := err.getvalue().strip():
        text += f"--- standard error\n{errors}\n"
    return f"{text}--- exit code {code}\n"


def _names(folder):
    """The files that commands wrote into folders."""
    for part in ("out", "ensemble", "stencil", "results"):
        yield from (str(p.relative_to(folder)) for p in (folder / part).rglob("*") if p.is_file())


if __name__ == "__main__":
    parser = argparse.ArgumentParser("python -m tests.golden.make", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=OUTPUTS)
    make(parser.parse_args().folder)
