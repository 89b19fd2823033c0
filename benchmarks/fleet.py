"""Measure how many tests a second one driver gets out of a fleet of simulated devices.

The driver is real: its search, its messages over Dask, and its database, into which each test is
committed. Devices and compilers sleep: a build takes 1 s, a measurement 0.2 s. So the figures show
what the driver costs, and with how many devices that is the limit. The ideal is the rate of one
device, times their number. Workers run in a second process, eight devices each, so two idle cores
are enough. Run it where harness is installed with the extra `fleet`:

    python -m benchmarks.fleet

It takes 3 minutes, with `--devices 1 8 64 256` some more. The last line is one JSON object:
`devices_8_tests_per_s`, `devices_8_efficiency` (the share of the ideal), and so on, and
`driver_ms_per_test`, the driver's CPU time in the largest fleet.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.frame import Figures, benchmark, count, option, show
from benchmarks.overhead import SEARCH_ALONE, run_campaign, write_space
from harness import __version__
from harness.core.records import (
    COLD,
    DEVICE_UUID,
    Build,
    Config,
    DeviceLimits,
    Environment,
    Input,
    Measurement,
    Outcome,
    Timing,
)
from harness.display.progress import Display
from harness.fleet import agent
from harness.fleet.agent import FleetDevice, Offer
from harness.fleet.cluster import load_distributed
from harness.fleet.measurers import FleetRequest, open_fleet
from harness.measure.devices import Backend
from harness.measure.occasions import ONE_OCCASION, split_rounds
from harness.space import Space
from harness.space_file import Spec
from harness.tuning.devices import DevicePool

BUILD_S, MEASURE_S = 1.0, 0.2
BUILDERS = 8
"""Builds at once for each device: more than a device can measure, so that it waits for none."""

DEVICES = (1, 8, 64)
PER_WORKER = 8
INPUTS, TESTS = 2, 20
"""The inputs of each device, and the tests of each input."""

SAMPLES = 20
"""The samples of a test."""

BACKEND = Backend("cuda", "nvcc", "", arch="sm_90")


class SleepingMeasurer:
    """A device and its compiler, which sleep."""

    compiler = "nvcc"
    notices = ()
    limits = DeviceLimits(1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535), 49152, 100, 32)

    def __init__(self, uuid: str) -> None:
        made = ("cuda", "simulated", "none", "none", "simulated compiler", COLD)
        self.environment = Environment(*made, notes={DEVICE_UUID: uuid})
        self._builders = ThreadPoolExecutor(BUILDERS)
        self._builds: dict[Config, Future[None]] = {}

    def fitted(self, spec: Spec) -> Spec:
        """Know all flags."""
        return spec

    def recall(self, problem: Input, measured: Sequence[Measurement]) -> None:
        """Find nothing equal."""

    def weak_tests(self, problem: Input) -> Sequence[str]:
        """Find no fault of the verification."""
        return ()

    def data_sha256(self, problem: Input, stored: Collection[str]) -> str | None:
        """Have no data."""
        return None

    def expect(self, space: Space, configs: Iterable[Config]) -> None:
        """Start to build."""
        for config in configs:
            if config not in self._builds:
                self._builds[config] = self._builders.submit(time.sleep, BUILD_S)

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Sleep once it is built, and answer with times from a formula."""
        return self._measured(space, problem, [config], SAMPLES)[0]

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Sleep once they are built, and answer with times from a formula."""
        samples = sum(block.rounds for block in split_rounds(rounds, seeds))
        return self._measured(space, problem, configs, samples)

    def _measured(
        self, space: Space, problem: Input, configs: Sequence[Config], samples: int
    ) -> list[Measurement]:
        self.expect(space, configs)
        for config in configs:
            self._builds[config].result()
        time.sleep(MEASURE_S * len(configs))
        return [_measurement(problem, config, samples) for config in configs]

    def close(self) -> None:
        """Build no more."""
        self._builders.shutdown(wait=False)


class SleepingAgent(agent.Agent):
    """An agent whose devices and compilers sleep."""

    def _device(self, uuid: str) -> FleetDevice:
        return _device(uuid)

    def _measurer(self, device: FleetDevice) -> Any:
        return SleepingMeasurer(device.uuid)


def _measurement(problem: Input, config: Config, samples: int) -> Measurement:
    time_s = 1e-3 * (1 + int(config.digest[:8], 16) % 1000 / 250)
    samples_s = tuple(time_s * (1 + 1e-3 * number) for number in range(samples))
    build = Build(config.digest, "", "simulated compiler", BUILD_S, binary_sha256=config.digest)
    return Measurement(config, problem, Outcome.OK, Timing(samples_s), build)


def _device(uuid: str) -> FleetDevice:
    return FleetDevice(uuid, "simulated", uuid.partition("-")[0], BACKEND)


def _offer() -> Offer:
    """Offer the devices of the worker that is asked."""
    import distributed

    asked = distributed.get_worker()
    name = str(asked.name)
    devices = range(int(asked.state.total_resources["devices"]))
    return Offer(__version__, tuple(_device(f"{name}-{number}") for number in devices))


def serve(devices: int) -> None:
    """Run a scheduler and workers with these devices until standard input ends."""
    vars(agent).update(Agent=SleepingAgent, offer=_offer)  # which drivers call by their names
    distributed = load_distributed()
    size = min(PER_WORKER, devices)
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(
            distributed.LocalCluster(
                n_workers=devices // size,
                threads_per_worker=1,
                processes=False,
                host="127.0.0.1",
                protocol="tcp://",
                dashboard_address="127.0.0.1:0",
                resources={"devices": size},
            )
        )
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()


@contextlib.contextmanager
def served(devices: int) -> Iterator[str]:
    """Start workers with these devices in a process of their own; yield the scheduler's address."""
    command = [sys.executable, "-m", "benchmarks.fleet", "--serve", str(devices)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().decode().strip()
        finally:
            process.stdin.close()


class Clock(Display):
    """A display that shows nothing and notes when the first and the last test ended."""

    def __init__(self) -> None:
        self.tests_s: list[tuple[float, float]] = []

    def test(self, progress: object) -> None:
        """Note the time, and the driver's CPU time."""
        self.tests_s.append((time.perf_counter(), time.process_time()))


def rates(spec: Spec, database: str, address: str, devices: int) -> tuple[float, float]:
    """Search all inputs; return the tests a second, and the driver's CPU seconds for each."""
    clock = Clock()
    request = FleetRequest(address, (), devices, False, database, print)
    with open_fleet(spec, request) as fleet:
        pool = DevicePool(fleet.measurers)
        assert len(pool.left) == devices, f"{len(pool.left)} devices joined"
        with contextlib.closing(pool):
            run_campaign(spec, database, pool, "UniformRandom", TESTS, clock, **SEARCH_ALONE)
    (began_s, began_cpu_s), (ended_s, ended_cpu_s) = clock.tests_s[0], clock.tests_s[-1]
    tests = len(clock.tests_s) - 1
    assert tests >= devices * INPUTS * TESTS - 1, f"only {tests} tests"
    return tests / (ended_s - began_s), (ended_cpu_s - began_cpu_s) / tests


@benchmark(
    option("--devices", list(DEVICES), "numbers of devices", type=count, nargs="+", metavar="N"),
    option("--serve", what="be the workers of N devices", type=count, metavar="N"),
)
def main(args: argparse.Namespace) -> Figures | None:
    """Measure each number of devices."""
    if args.serve is not None:
        serve(args.serve)
        return None
    figures: dict[str, float] = {}
    rows, alone = [], 0.0
    for devices in sorted({1, *args.devices}):
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as name, served(devices) as address:
            os.environ["HARNESS_CACHE_DIR"] = name  # what is built for one fleet is not for others
            spec = write_space(Path(name), devices * INPUTS, "fleet", "cu")
            rate, cpu_s = rates(spec, f"{name}/fleet.db", address, devices)
        alone = alone or rate
        figures[f"devices_{devices}_tests_per_s"] = rate
        figures[f"devices_{devices}_efficiency"] = share = rate / (alone * devices)
        figures["driver_ms_per_test"] = 1e3 * cpu_s
        rows.append((devices, rate, f"{share:.0%}", 1e3 * cpu_s))
    show(("devices", "tests/s", "of the ideal", "driver, ms a test"), rows)
    return figures


if __name__ == "__main__":
    sys.exit(main())
