"""Measure harness's own time per configuration, without builds and launches.

Recorded measurements take the place of builds and launches; the rest of a search is real: OpenTuner
proposes, the results database stores every sample, and each test is committed to disk before the
next one. The round trip to the device's process and the comparison with the reference are not
included. Run it where harness is installed:

    python -m benchmarks.overhead

It takes a minute. The last line is one JSON object, in milliseconds per test over 100, 300, 1,000
and 5,000 tests: all that passed (`overhead_ms_100`), and the CPU time of it (`cpu_ms_100`), which
other work on the machine changes less. A first search of 10 tests loads all modules before.
`--kernel-tuner` then measures Kernel Tuner's random sampling and Bayesian optimisation on the same
space and times (`kernel_tuner_bayes_opt_cpu_ms_100`), which store nothing; it takes a minute more.
Another Python may have kernel_tuner: `--kernel-tuner /tmp/other/bin/python`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.frame import Figures, benchmark, option, show
from harness.core.errors import UsageError
from harness.core.records import (
    Config,
    Environment,
    Input,
    Measurement,
    Outcome,
    StopReason,
    Timing,
)
from harness.display.progress import Display
from harness.recordings.replay import ReplayMeasurer
from harness.results import Store, writing
from harness.search import Progress, SearchOptions, resolve_techniques
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec
from harness.tuning import Campaign, CampaignPlan

TESTS = (100, 300, 1000, 5000)
PEER_TESTS = (100, 300)
_STEPS_OF_A_TEST = ("compile_time", "verification_time", "benchmark_time", "strategy_time")
SAMPLES = 20


class FormulaTimes(dict[tuple[Input, Config], Measurement]):
    """A recording of every configuration, with times from a formula and 5 % failures."""

    def get(self, key: tuple[Input, Config], default: object = None) -> Measurement:
        """Make the measurement of an input and a configuration."""
        problem, config = key
        draw = int(config.digest[:8], 16)
        if draw % 20 == 0:
            return Measurement(config, problem, Outcome.BUILD_FAILED, message="as recorded")
        time_s = 1e-3 * (1 + draw % 1000 / 250)
        samples = tuple(time_s * (1 + 1e-3 * number) for number in range(SAMPLES))
        return Measurement(config, problem, Outcome.OK, Timing(samples, StopReason.REPEATS))


class Device(ReplayMeasurer):
    """A replay that counts as a device, since replayed tests are committed in batches."""

    is_replay = False


class Clock(Display):
    """A display that shows nothing and notes the time of each test."""

    def __init__(self) -> None:
        self.tests_s: list[float] = []

    def test(self, progress: Progress) -> None:
        """Note the time."""
        self.tests_s.append(time.perf_counter())


def overhead_ms(spec: Spec, database: str, tests: int) -> tuple[float, float]:
    """Measure the milliseconds per test of one search, including its end: all, and of the CPU."""
    options = SearchOptions(resolve_techniques(["auto"]), tests, 0, "overhead", 4)
    environment = Environment("replay", "formula", "none", "none", "none")
    with writing(database) as engine, Store(engine) as store:
        clock = Clock()
        measurer = Device(FormulaTimes(), environment)
        number = store.choose_campaign(spec, environment, fresh=True)
        campaign = Campaign(CampaignPlan(spec, options, number), measurer, store, clock)
        started, started_cpu = time.perf_counter(), time.process_time()
        campaign.run()
        elapsed_s, cpu_s = time.perf_counter() - started, time.process_time() - started_cpu
    assert len(clock.tests_s) == tests, f"{len(clock.tests_s)} tests instead of {tests}"
    return 1e3 * elapsed_s / tests, 1e3 * cpu_s / tests


def write_space(folder: Path, inputs: int = 1, name: str = "overhead", source: str = "cl") -> Spec:
    """Write a space with its files, which nothing builds or runs, and load it."""
    (folder / f"kernel.{source}").write_text("kernel X Y TILE UNROLL LAYOUT CACHE")
    host = "def arguments(features, rng): ...\ndef reference(arguments): ...\n"
    (folder / "kernel.py").write_text(host)
    path = folder / f"{name}.yaml"
    values = ", ".join(f"{{n: {4096 + number}}}" for number in range(inputs))
    text = Path(__file__).with_name("overhead.yaml").read_text(encoding="utf-8")
    for word, part in {"NAME": name, "SOURCE": source, "VALUES": values}.items():
        text = text.replace(word, part)
    path.write_text(text)
    return load_spec(path)


def kernel_tuner_ms(spec: Spec, folder: Path, python: str) -> dict[str, float]:
    """Measure Kernel Tuner's CPU time per test on the same space and times, in a Python that has
    it."""
    (problem,) = spec.inputs
    times = FormulaTimes()
    tuned = {p.name: list(p.values) for p in spec.parameters}
    cache = {}
    for config in ConstrainedSpace.of(spec, problem, None, "opencl"):
        timing = times.get((problem, config)).timing
        entry = {name: config[name] for name in tuned}
        entry |= dict.fromkeys(_STEPS_OF_A_TEST, 0)
        entry["time"] = 1e3 * timing.time_s if timing else "CompilationFailedConfig"
        cache[",".join(str(config[name]) for name in tuned)] = entry
    recorded = {
        "device_name": "recorded",
        "kernel_name": "recorded",
        "problem_size": [1],
        "tune_params_keys": list(tuned),
        "tune_params": tuned,
        "objective": "time",
        "restrictions": [constraint.expression.text for constraint in spec.constraints],
        "cache": cache,
    }
    path = folder / "cache.json"
    path.write_text(json.dumps(recorded))
    script = Path(__file__).parent / "peers" / "kernel_tuner_cost.py"
    # Isolated: the folder of the script has a kernel_tuner.py of its own.
    command = [python, "-I", str(script), str(path), *map(str, PEER_TESTS)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise UsageError(f"--kernel-tuner: {python} failed: {ran.stderr.strip()[-500:]}")
    figures: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return figures


@benchmark(
    option(
        "--kernel-tuner",
        what="measure Kernel Tuner too, in this Python",
        metavar="PYTHON",
        nargs="?",
        const=sys.executable,
    ),
)
def main(args: argparse.Namespace) -> Figures:
    """Measure searches of each length."""
    figures: dict[str, float] = {}
    rows = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        spec = write_space(Path(folder))
        overhead_ms(spec, str(Path(folder) / "first.db"), 10)
        for tests in TESTS:
            found, cpu = overhead_ms(spec, str(Path(folder) / f"{tests}.db"), tests)
            figures |= {f"overhead_ms_{tests}": found, f"cpu_ms_{tests}": cpu}
            rows.append((tests, found, cpu))
        peer: dict[str, float] = {}
        if args.kernel_tuner is not None:
            peer = kernel_tuner_ms(spec, Path(folder), args.kernel_tuner)
    show(("tests", "ms each", "ms of the CPU"), rows)
    if peer:
        show(("Kernel Tuner", "ms of the CPU"), peer.items())
    return figures | peer


if __name__ == "__main__":
    sys.exit(main())
