"""Measure harness's own time per configuration, without builds and launches.

Recorded measurements take the place of builds and launches; the rest of a search is real: OpenTuner
proposes, the results database stores every sample, and each test is committed to disk before the
next one. The round trip to the device's process and the comparison with the reference are not
included. Run it where harness is installed:

    python -m benchmarks.overhead

It takes a minute. The last line is one JSON object, in milliseconds per test over 100, 300, 1,000
and 5,000 tests: all that passed (`overhead_ms_100`), and the CPU time of it (`cpu_ms_100`), which
other work on the machine changes less. A first search of 10 tests loads all modules before.
`--server postgresql://...` also writes to an empty database on a server, up to 1,000 tests
(`server_ms_100`): the difference is what the server costs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

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
from harness.search import Progress, SearchOptions, resolve_techniques
from harness.space_file import Spec, load_spec
from harness.tuning import Campaign, CampaignPlan

TESTS = (100, 300, 1000, 5000)
MOST_ON_SERVER = 1000
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


@benchmark(option("--server", what="the address of an empty database on a server", metavar="URL"))
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
            on_server: float | str = "-"
            if args.server is not None and tests <= MOST_ON_SERVER:
                on_server, _ = overhead_ms(spec, args.server, tests)
                figures[f"server_ms_{tests}"] = on_server
            rows.append((tests, found, cpu, on_server))
    show(("tests", "ms each", "ms of the CPU", "ms on the server"), rows)
    return figures


if __name__ == "__main__":
    sys.exit(main())
