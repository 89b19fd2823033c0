"""Measure on a GPU what needs one, in five plans. A plan takes ten minutes at most.

    python -m benchmarks.gpu_hour --plan 1

    1    what harness takes for granted of a GPU: the device, the host's share of times, planted
         faults, a campaign of mvmul with its verdict, the GPU tests, events beside CUPTI's times,
         the clock, cold caches
    2    data larger than any cache; every kernel of the suite
    3    the programs of the paper on nvcc's flags
    4    stencils; mvmul once more: its default is no slower (after plan 1, in one folder)
    5    nvcc and NVRTC; the driver through PyCUDA and through cuda-bindings; kernels in C++

Each step (gpu_hour.yaml) is a process with a deadline. One that fails, or whose package is missing,
is reported with the reason, and the next one runs. The folder plan_N of --out gets the log, the
databases, the report, and figures.json, which is written after each step and has what the last line
has: one JSON object with the figures of each step.

    pip install -e '.[test]' cupti-python pycuda     what plans 1 and 5 can use

Look first at `host`: where `held` is over 1 us, or busy cores change it, harness's times have the
host's work. Then at `planted`, which must be ok; at `events`, where `events_us` less `cupti_us`
must be small and the same for all sizes; and at `choice` of `dispatch`.

`--rehearse` runs each step of plan 1 at its smallest over the tests' stand-in for NVIDIA's driver,
in a minute, without a GPU; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.frame import Figures, benchmark, option, rounded, show
from harness.core.errors import UsageError
from harness.measure.cuda.gpus import PACKAGE
from harness.measure.devices import choose_one

ROOT = Path(__file__).resolve().parents[1]
PLAN_S = 570.0
_TO_END_S = 5.0
"""How long a step that is late may take to end by itself."""

_TUNE = "--backend cuda --quiet --json --database {out}/{name}.db"
_STAND_IN_KERNEL_NS = "5000"


@dataclass(frozen=True)
class Step:
    """A step of a plan; benchmarks/gpu_hour.yaml says what the fields mean."""

    name: str
    most_s: float
    run: str
    small: str = ""
    needs: str = ""
    package: str = ""
    outcomes: Mapping[str, int] = field(default_factory=dict)

    def command(self, out: Path, rehearses: bool) -> list[str]:
        """Return the command's words."""
        words = f"{self.run} {self.small if rehearses else ''}".replace("{tune}", _TUNE).split()
        values = {"out": str(out), "name": self.name, "cores": str(os.cpu_count())}
        return [sys.executable, "-m", *(word.format(**values) for word in words)]


PLANS = {
    number: [Step(**step) for step in steps]
    for number, steps in yaml.safe_load(
        Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    ).items()
}


# ---------------------------------------------------------------------------------- figures


def figures_of(printed: str) -> dict[str, Any]:
    """Return the figures of what a step printed: a JSON object, alone or as its last line."""
    lines = printed.strip().splitlines()
    for text in (printed, *lines[-1:]):
        with contextlib.suppress(ValueError):
            if isinstance(found := json.loads(text), dict):
                return _campaign(found["results"]) if "results" in found else found
    return {"said": lines[-1:]}


def _campaign(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return what matters of the results of `tune --json`."""
    speedups = [each["speedup"] for each in results["inputs"] if each["speedup"]]
    outcomes: Counter[str] = Counter()
    for each in results["inputs"]:
        outcomes.update(each["outcomes"])
    return {
        "inputs": len(results["inputs"]),
        "outcomes": outcomes,
        "faster": sum(each["is_faster"] for each in speedups),
        "speedup": statistics.geometric_mean([each["value"] for each in speedups] or [1.0]),
        "has_energy": any(each["energy_j"] is not None for each in results["inputs"]),
        "advice": results["advice"],
        "choice": results["choice"] or results["why_no_choice"],
        "warnings": results["warnings"],
    }


# ---------------------------------------------------------------------------------- running


def run_step(
    step: Step, out: Path, most_s: float, rehearses: bool, variables: Mapping[str, str]
) -> dict[str, Any]:
    """Run a step for so long at most; return how it ended, why, and its figures."""
    if step.needs and importlib.util.find_spec(step.needs) is None:
        return {"status": "left out", "reason": f"the module {step.needs} is not installed"}
    if most_s <= 0:
        return {"status": "left out", "reason": "no time was left"}
    command = step.command(out, rehearses)
    package = {PACKAGE: step.package} if step.package else {}
    began_s = time.monotonic()
    code, printed, errors = _run(command, {**os.environ, **variables, **package}, most_s)
    ended = {"status": "failed", "wall_s": time.monotonic() - began_s}
    with (out / "log.txt").open("a", encoding="utf-8") as log:
        print(f"=== {' '.join(command[1:])}", errors, printed, sep="\n", file=log)
    if code is None:
        return {**ended, "reason": f"it did not end within {most_s:.0f} s"}
    if code:
        *_, last = ("", *(line for line in (printed + errors).splitlines() if line.strip()))
        return {**ended, "reason": f"exit code {code}: {last}"}
    figures = figures_of(printed)
    if step.outcomes and step.outcomes != figures["outcomes"]:
        return {**ended, "reason": f"the outcomes are not {step.outcomes}", "figures": figures}
    return {**ended, "status": "ok", "figures": figures}


def _run(
    command: Sequence[str], environment: Mapping[str, str], most_s: float
) -> tuple[int | None, str, str]:
    """Return the exit code, None of a command that was late, and what it printed to each stream.

    All processes that it starts end with it.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        code = None
        try:
            code = process.wait(most_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_TO_END_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        errors.seek(0)
        return code, output.read(), errors.read()


def stand_in(folder: Path) -> dict[str, str]:
    """Compile the stand-in for NVIDIA's driver; return the variables by which it is found."""
    command = [sys.executable, "-m", "tests.helpers.stub_driver", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1]
        raise UsageError(f"--rehearse needs a stand-in for NVIDIA's driver: {reason}")
    return {
        "LD_LIBRARY_PATH": str(folder),
        "CUDA_STUB_KERNEL_NS": _STAND_IN_KERNEL_NS,
        "HARNESS_CACHE_DIR": str(folder / "cache"),
    }


@benchmark(
    option("--plan", 1, "which plan", choices=PLANS),
    option("--out", Path("results", "gpu"), "folder for all files"),
    option("--rehearse", False, "run plan 1 at its smallest, without a GPU"),
    kept="figures.json has the steps that ended",
)
def main(args: argparse.Namespace) -> Figures:
    """Run a plan."""
    if args.rehearse and args.plan != 1:
        raise UsageError(f"plan {args.plan} cannot be rehearsed: --rehearse is for plan 1")
    if not args.rehearse:
        choose_one("cuda")
    out = (args.out / f"plan_{args.plan}").resolve()
    if out.exists():
        raise UsageError(f"{out} is there already: move it away, or name another folder (--out)")
    out.mkdir(parents=True)
    began_s, steps = time.monotonic(), dict[str, dict[str, Any]]()
    figures = {"plan": args.plan, "rehearsed": args.rehearse, "failed": False, "steps": steps}
    with tempfile.TemporaryDirectory() as temporary:
        variables = stand_in(Path(temporary)) if args.rehearse else {}
        for step in PLANS[args.plan]:
            most_s = min(step.most_s, PLAN_S - (time.monotonic() - began_s))
            steps[step.name] = run_step(step, out, most_s, args.rehearse, variables)
            figures["failed"] = any(one["status"] == "failed" for one in steps.values())
            text = json.dumps(rounded(figures), indent=1)
            (out / "figures.json").write_text(f"{text}\n", encoding="utf-8")
    keys = ("status", "wall_s", "reason")
    rows = [(name, *(one.get(key, "") for key in keys)) for name, one in steps.items()]
    show(("step", *keys), rows, f"plan {args.plan}: {out}")
    return figures


if __name__ == "__main__":
    sys.exit(main())
