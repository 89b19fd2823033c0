"""Measure how much faster several equal devices finish a campaign than one.

Simulated devices sleep for the time of a measurement; the rest of a campaign is real: the searches,
the finals, and a database that each test is committed to. A device measures one input at a time, so
the ideal is the time of the inputs that the busiest device has. Run it where harness is installed:

    python -m benchmarks.devices

It takes two minutes. The last line is one JSON object: for each number of devices the seconds, the
efficiency (the time of one device over the number of devices and their time), and the share of the
ideal.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.arguments import count, make_parser
from benchmarks.overhead import SPACE_FILE, Device, FormulaTimes
from harness.core.records import Config, Environment, Input, Measurement
from harness.measure.measurer import Measurer
from harness.results import Store, writing
from harness.search import SearchOptions, make_opentuner_tables, resolve_techniques
from harness.space import Space
from harness.space_file import Spec, load_spec
from harness.tuning import Campaign, CampaignPlan, Stages
from harness.tuning.devices import EqualDevices
from harness.tuning.progress import SilentDisplay

DEVICES = (1, 2, 4, 8, 16)


class SleepingDevice(Device):
    """A device on which each measurement takes the same time."""

    def __init__(self, latency_s: float) -> None:
        environment = Environment("replay", "formula", "none", "none", "none")
        super().__init__(FormulaTimes(), environment)
        self._latency_s = latency_s

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Return the formula's time after a while."""
        time.sleep(self._latency_s)
        return super().measure(space, problem, config, best_s)


def campaign_s(spec: Spec, database: Path, devices: int, tests: int, latency_s: float) -> float:
    """Return the seconds of a campaign on so many devices."""
    options = SearchOptions(resolve_techniques(["UniformRandom"]), tests, 0, "devices", 4)
    plan = CampaignPlan(spec, options, stages=Stages(cross=False, ablate=False, finalists=1))
    opened = {f"device {number}": SleepingDevice(latency_s) for number in range(devices)}
    measurer: Measurer = EqualDevices(opened) if devices > 1 else opened["device 0"]
    with writing(str(database)) as engine, Store(engine) as store:
        make_opentuner_tables(store)
        began_s = time.perf_counter()
        Campaign(plan, measurer, store, SilentDisplay()).run()
        return time.perf_counter() - began_s


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line for each number of devices, and the JSON line."""
    parser = make_parser("devices", __doc__)
    parser.add_argument("--devices", type=count, nargs="+", default=DEVICES, help="numbers of them")
    parser.add_argument("--inputs", type=count, default=32, help="(default 32)")
    parser.add_argument("--tests", type=count, default=10, help="of each input (default 10)")
    parser.add_argument("--latency", type=float, default=0.1, help="seconds a test (default 0.1)")
    options = parser.parse_args(arguments)
    figures: dict[str, float] = {"inputs": options.inputs, "tests": options.tests}
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        spec = _write_space(Path(folder), options.inputs)
        one_s = math.nan
        for devices in sorted({1, *options.devices}):
            database = Path(folder) / f"{devices}.db"
            found_s = campaign_s(spec, database, devices, options.tests, options.latency)
            one_s = found_s if devices == 1 else one_s
            busiest = math.ceil(options.inputs / devices)
            efficiency, ideal = one_s / devices / found_s, one_s / options.inputs * busiest
            print(
                f"{devices:>4} devices: {found_s:7.2f} s, {one_s / found_s:6.2f} times as fast as "
                f"one, efficiency {efficiency:.1%}, {ideal / found_s:.1%} of the ideal"
            )
            figures |= {
                f"devices_{devices}_s": round(found_s, 3),
                f"devices_{devices}_efficiency": round(efficiency, 4),
                f"devices_{devices}_of_ideal": round(ideal / found_s, 4),
            }
    print(json.dumps(figures))


def _write_space(folder: Path, inputs: int) -> Spec:
    (folder / "kernel.cl").write_text("kernel X Y TILE UNROLL LAYOUT CACHE")
    host = "def arguments(features, rng): ...\ndef reference(arguments): ...\n"
    (folder / "kernel.py").write_text(host)
    values = ", ".join(f"{{n: {4096 + number}}}" for number in range(inputs))
    space = folder / "devices.yaml"
    space.write_text(SPACE_FILE.replace("{n: 4096}", values))
    return load_spec(space)


if __name__ == "__main__":
    main()
