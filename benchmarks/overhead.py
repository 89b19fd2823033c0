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
space and times (`kernel_tuner_bayes_opt_cpu_ms_100`), which store nothing; it takes a minute more,
and the extra `bench`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.frame import Figures, benchmark, option, show
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
from harness.search import SearchOptions, resolve_techniques
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec
from harness.tuning import Campaign, CampaignPlan
from harness.tuning.devices import DevicePool

TESTS = (100, 300, 1000, 5000)
PEER_TESTS = (100, 300)
_STEPS_OF_A_TEST = ("compile_time", "verification_time", "benchmark_time", "strategy_time")
SAMPLES = 20
ENVIRONMENT = Environment("replay", "formula", "none", "none", "none")
SEARCH_ALONE: dict[str, Any] = {"cross": False, "ablate": False, "finalists": 1}
"""The stages of a campaign that does little but search."""


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


def run_campaign(
    spec: Spec,
    database: str,
    measurer: Any,
    technique: str,
    tests: int,
    display: Display | None = None,
    **stages: Any,
) -> tuple[float, float]:
    """Run a campaign, or go on with it; return its seconds, and those of the CPU."""
    options = SearchOptions(resolve_techniques([technique]), tests, 0, "", 4)
    device = measurer.left[0] if isinstance(measurer, DevicePool) else measurer
    with writing(database) as engine, Store(engine) as store:
        number = store.choose_campaign(spec, device.environment, fresh=False)
        plan = CampaignPlan(spec, options, number, **stages)
        campaign = Campaign(plan, measurer, store, display or Display())
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        campaign.run()
        return time.perf_counter() - began_s, time.process_time() - began_cpu_s


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


def kernel_tuner_ms(spec: Spec, folder: Path) -> dict[str, float]:
    """Measure Kernel Tuner's CPU time per test on the same space and times, in its simulation
    mode."""
    import kernel_tuner  # here: it is an extra

    from benchmarks.peers.kernel_tuner import contents, quietly, seeded

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
    restrictions = [constraint.expression.text for constraint in spec.constraints]
    path = folder / "cache.json"
    path.write_text(json.dumps(contents(tuned, cache)))
    figures = {}
    for strategy in ("random_sample", "bayes_opt"):
        for tests in (10, *PEER_TESTS):  # the first one loads what it needs
            began_s = time.process_time()
            with quietly(), seeded(0):
                kernel_tuner.tune_kernel(
                    "recorded",
                    "__global__ void recorded() {}",
                    (1,),
                    [],
                    tuned,
                    restrictions=restrictions,
                    block_size_names=["X", "Y"],
                    strategy=strategy,
                    strategy_options={"max_fevals": tests},
                    simulation_mode=True,
                    cache=str(path),
                    quiet=True,
                )
            spent_ms = 1e3 * (time.process_time() - began_s)
            figures[f"kernel_tuner_{strategy}_cpu_ms_{tests}"] = spent_ms / tests
    return figures


@benchmark(option("--kernel-tuner", False, "measure Kernel Tuner too"))
def main(args: argparse.Namespace) -> Figures:
    """Measure searches of each length."""
    figures: dict[str, float] = {}
    rows = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        spec = write_space(Path(folder))
        for tests in (10, *TESTS):
            device = Device(FormulaTimes(), ENVIRONMENT)
            spent_s = run_campaign(spec, f"{folder}/{tests}.db", device, "auto", tests)
            found, cpu = (1e3 * seconds / tests for seconds in spent_s)
            if tests in TESTS:
                figures |= {f"overhead_ms_{tests}": found, f"cpu_ms_{tests}": cpu}
                rows.append((tests, found, cpu))
        peer = kernel_tuner_ms(spec, Path(folder)) if args.kernel_tuner else {}
    show(("tests", "ms each", "ms of the CPU"), rows)
    if peer:
        show(("Kernel Tuner", "ms of the CPU"), peer.items())
    return figures | peer


if __name__ == "__main__":
    sys.exit(main())
