"""Spaces and recordings by formula: a real search in milliseconds, with nothing launched."""

import math
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType

from harness.analysis.coverage import input_reports
from harness.core.errors import HostModuleError
from harness.core.records import (
    Environment,
    Measurement,
    Outcome,
    StopReason,
    Timing,
    shown,
)
from harness.display.progress import Display
from harness.measure.occasions import split_rounds
from harness.recordings.replay import ReplayMeasurer
from harness.results import Store, writing
from harness.results.view import Results, read_results, the_one
from harness.search import Progress, SearchOptions, resolve_techniques
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
from harness.tuning import Campaign, CampaignPlan
from harness.tuning.devices import DevicePool

SPACE = """\
name: formula
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {type: power_of_two, min: 16, max: 1024, role: launch, default: 256}
  TILE: {values: [1, 2, 3, 4, 6, 8], default: 1}
  UNROLL: {type: integer, min: 1, max: 8, default: 1}
  DEPTH: {type: log_integer, min: 1, max: 64, default: 8}
  LAYOUT: {values: [row, column, block], role: choice, default: row}
  CACHE: {type: boolean, role: choice, default: false}
constraints:
  - UNROLL <= TILE
  - BLOCK * TILE <= 2048
launch: {group: [BLOCK], grid: ["ceil_div(n, BLOCK)"]}
inputs:
  features: [m, n]
  values: [{m: 64, n: 4096}, {m: 4096, n: 64}]
search: {test_limit: 40}
"""
RECORDED = SPACE.replace("max: 64, default: 8", "max: 4, default: 2")
"""The same in 6,384 points, for what reads a recording of all of it: SPACE has 102,144."""

REPLAYED = """\
name: replayed
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [16, 64, 256], default: 64}
  TILE: {type: integer, min: 1, max: 8, default: 1}
  CACHE: {type: boolean, role: choice, default: false}
launch: {group: [BLOCK], grid: [n]}
inputs:
  features: [m, n]
  values: [{m: 64, n: 4096}, {m: 4096, n: 64}, {m: 64, n: 1024}, {m: 1024, n: 64}]
search: {technique: AUCBanditMetaTechniqueA, test_limit: 20}
"""
REPLAYED_TWO = REPLAYED.replace(", {m: 64, n: 1024}, {m: 1024, n: 64}", "")
"""Two inputs are too few to learn a choice from, which takes longer than all else here."""


def small_space(parameters, *inputs, more="", name="small", group="BLOCK"):
    """A space with a feature n, for kernels of which only the times are asked."""
    values = ", ".join(f"{{n: {n}}}" for n in inputs)
    return (
        f"name: {name}\nkernel: {{function: kernel, source: kernel.cl, host: kernel.py}}\n{more}"
        f"parameters: {{{parameters}}}\nlaunch: {{group: [{group}], grid: [n]}}\n"
        f"inputs: {{features: [n], values: [{values}]}}\n"
    )


BLOCKS_AND_TILES = (
    "BLOCK: {values: [16, 32, 64, 256], default: 256}, TILE: {values: [1, 2], default: 1}"
)
SIZED = small_space(
    BLOCKS_AND_TILES, 8, 16, 32, 64, 128, 256, more='title: "<b>A small</b> space"\n'
)
"""A space whose best block depends on the size, by `sized_s`."""

KERNEL = "kernel BLOCK TILE UNROLL DEPTH LAYOUT CACHE A B"
HOST = "def arguments(features, rng): ...\n\n\ndef reference(arguments): ...\n"

BROKEN = "kernel.py: arguments() raised"


def write_space(folder, text=SPACE):
    """A space whose kernel is never compiled; returns the YAML file."""
    (folder / "kernel.cl").write_text(KERNEL)
    (folder / "kernel.py").write_text(HOST)
    path = folder / "space.yaml"
    path.write_text(text)
    return path


def make_spec(folder, text=SPACE):
    """The space, loaded."""
    return load_spec(write_space(folder, text))


def write_recording(folder, text):
    """A space and a CSV recording of the formula on all of it; `formula_s` needs a BLOCK."""
    space = write_space(folder, text)
    spec = load_spec(space)
    names = [parameter.name for parameter in spec.parameters]
    lines = [",".join([*spec.features, *names, "outcome", "time_s", "message"])]
    for problem in spec.inputs:
        for config in ConstrainedSpace.of(spec, problem, None):
            time_s = formula_s(problem, config)
            point = [problem[f] for f in spec.features] + [shown(config[n]) for n in names]
            failed = time_s == float("inf")
            point += ["crashed", "", "as recorded"] if failed else ["ok", time_s, ""]
            lines.append(",".join(map(str, point)))
    recording = folder / "recording.csv"
    recording.write_text("\n".join(lines) + "\n")
    return space, recording


def formula_s(problem, config):
    """A smooth landscape whose best block size depends on the input; a few points fail."""
    if int(config.digest[:6], 16) % 17 == 0:
        return float("inf")
    best_block = 64 if problem["n"] < problem["m"] else 512
    block = config["BLOCK"]
    cost = abs(block.bit_length() - best_block.bit_length()) + 1
    return 1e-3 * cost * (1 + int(config.digest[6:10], 16) / 0x20000)


def sized_s(problem, config):
    """Time grows with n; small inputs want BLOCK=16, large ones 64; TILE does not matter, but 256
    with TILE=2 does not work."""
    n, block = problem["n"], config["BLOCK"]
    if block == 256 and config["TILE"] == 2:
        return float("inf")
    return 1e-5 * n * (1 if block == (16 if n < 50 else 64) else 3)


class FormulaMeasurer(ReplayMeasurer):
    """Measures a formula, remembers what it was asked for, and can stop the run.

    It is no replay: its measurements must be on disk before the next test.
    """

    is_replay = False

    def __init__(
        self, times=formula_s, stop_after=None, interleaves=False, broken=MappingProxyType({})
    ):
        """The host module raises on `broken` inputs, after so many measurements of each."""
        environment = Environment("replay", "formula", "none", "recorded", "recorded")
        super().__init__({}, environment)
        self._times = times
        self._stop_after = stop_after
        self._interleaves = interleaves
        self._broken = broken
        self.asked = []

    def measure(self, space, problem, config, best_s):
        """Return the formula's time in three samples, or a failed build where it is infinite."""
        if self._stop_after is not None and len(self.asked) >= self._stop_after:
            raise KeyboardInterrupt
        self.asked.append((problem, config))
        if [asked for asked, _ in self.asked].count(problem) > self._broken.get(problem, math.inf):
            raise HostModuleError(BROKEN)
        return self.changed(recorded(self._times, problem, config))

    def changed(self, measured):
        """Return what else than the formula's time a test measures."""
        return measured

    def measure_interleaved(self, space, problem, configs, rounds, seeds=()):
        """Return the same again, or one sample per round."""
        found = [recorded(self._times, problem, config) for config in configs]
        return [_interleaved(m, rounds, seeds) if self._interleaves else m for m in found]


def _interleaved(measurement, rounds, seeds):
    return replace(measurement, timing=in_occasions((measurement.time_s,) * rounds, seeds))


def in_occasions(samples_s, seeds):
    """Samples of interleaved rounds, split into one occasion for each seed."""
    blocks = split_rounds(len(samples_s), seeds) if len(seeds) > 1 else []
    sizes = tuple(block.rounds for block in blocks)
    return Timing(tuple(samples_s), StopReason.INTERLEAVED, sizes)


def recorded(times, problem, config):
    """A measurement as a formula has it."""
    time_s = times(problem, config)
    if time_s == float("inf"):
        return Measurement(config, problem, Outcome.BUILD_FAILED, message="as the formula has it")
    samples_s = (time_s, time_s * 1.01, time_s * 0.99)
    return Measurement(config, problem, Outcome.OK, Timing(samples_s, StopReason.RECORDED))


class Tests(list[Progress], Display):
    """A display that remembers the tests, stages, notes and warnings, and shows nothing."""

    __test__ = False

    def __init__(self):
        super().__init__()
        self.stages = []
        self.notes = []
        self.warnings = []

    def test(self, progress):
        """A test has ended."""
        self.append(progress)

    def begin_stage(self, title, steps, stored=0):
        """A stage of so many steps begins."""
        self.stages.append((title, steps, stored))

    def note(self, text):
        """Something is worth a line."""
        self.notes.append(text)

    def warn(self, text):
        """Something is amiss."""
        self.warnings.append(text)


@contextmanager
def opened(spec, database, measurer, fresh=False, **options):
    """A campaign on a database, and the tests that its display has seen.

    Most tests ask what is kept of a search, not how good it is: the technique is a cheap one.
    """
    names = options.pop("technique", ["AUCBanditMetaTechniqueA"])
    planned = {n: options.pop(n) for n in ("target", "cross", "ablate") if n in options}
    chosen = {"test_limit": 40, "seed": 0, "label": "test", "parallelism": 4} | options
    with writing(str(database)) as engine:
        store = Store(engine)
        tests = Tests()
        search = SearchOptions(resolve_techniques(names), **chosen)
        try:
            pool = measurer if isinstance(measurer, DevicePool) else DevicePool({"": measurer})
            number = store.choose_campaign(spec, pool.left[0].environment, fresh)
            plan = CampaignPlan(spec, search, number, **planned)
            yield Campaign(plan, pool, store, tests), tests
        finally:
            store.close()


@dataclass(frozen=True)
class Ran:
    """A campaign that has ended: its results, and the tests that its display has seen."""

    campaign: Campaign
    results: Results
    tests: Tests

    @property
    def reports(self):
        """The reports of the inputs that were tuned, in order."""
        by_input = {report.problem: report for report in input_reports(self.results)}
        return [by_input[problem] for problem in self.campaign.spec.inputs]

    def tested(self, problem):
        """The configurations that were tested on an input, in order."""
        return [t.measurement.config for t in self.tests if t.plan.problem == problem]


def stored(database):
    """Return the results of the one campaign in a database."""
    return the_one(read_results([str(database)]))


def results_of(folder, text, measurer=None, **more):
    """Run a campaign on a space of this text; return the results in its database."""
    database = folder / more.pop("database", "r.db")
    ran(make_spec(folder, text), database, measurer, **more)
    return stored(database)


def ran(spec, database, measurer=None, **options):
    """Run a campaign on a database, on the formula where no measurer is given."""
    with opened(spec, database, measurer or FormulaMeasurer(), **options) as (campaign, tests):
        campaign.run()
        return Ran(campaign, campaign.results(), tests)
