"""Simulated machines: noise models, and a measurer that takes its samples from one.

Each model is a source of the noise that a launch meets: random numbers of its own, a clock that
counts launches, and an offset for each load of the code and for each process. All times of a
simulated device are TIME_S, unless the caller says otherwise, so every claim that one configuration
is faster than another is false.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from harness.core.records import (
    Build,
    Config,
    Environment,
    Input,
    Measurement,
    Outcome,
    Statistic,
    StopReason,
    Timing,
)
from harness.measure.occasions import ONE_OCCASION, Block, over_occasions, split_rounds
from harness.recordings.replay import ReplayMeasurer
from harness.space import Space
from harness.space_file import Spec

TIME_S = 1e-3
ENVIRONMENT = Environment("simulated", "a device", "a platform", "1.0", "a compiler")


@dataclass(frozen=True)
class Load:
    """A load of the code: what it adds to the logarithm of each of its times, and the factor of the
    noise that its launches have."""

    offset: float = 0.0
    size: float = 1.0


class Noise:
    """The noise of a machine, in logarithms of factors of the time: none."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.launches = 0

    def start_process(self) -> Iterator[float]:
        """Yield what a new process adds to the logarithm of each of its times."""
        return itertools.repeat(0.0)

    def load(self, code: str) -> Load:
        """Load some code, which is equal where its text is."""
        return Load()

    def launch(self, load: Load) -> float:
        """Return the noise of the next launch."""
        self.launches += 1
        return load.offset + load.size * self._next()

    def read(self, seconds: float) -> float:
        """Return what the clock shows."""
        return seconds

    def _next(self) -> float:
        return 0.0


class Normal(Noise):
    """Independent launches, 0.5 %."""

    def _next(self) -> float:
        return self.rng.gauss(0, 0.005)


class Bimodal(Noise):
    """Each launch in one of two modes, 3 % apart."""

    def _next(self) -> float:
        return self.rng.choice((0.0, 0.03)) + self.rng.gauss(0, 0.002)


class RandomWalk(Noise):
    """A clock that wanders by 0.2 % a launch."""

    state = 0.0

    def _next(self) -> float:
        self.state += self.rng.gauss(0, 0.002)
        return self.state + self.rng.gauss(0, 0.002)


class HeavyTails(Noise):
    """Student's t with two degrees of freedom, 0.5 %: its variance is infinite."""

    def _next(self) -> float:
        return min(3.0, 0.005 * self.rng.gauss(0, 1) / math.sqrt(self.rng.expovariate(1)))


class Drift(Noise):
    """A machine that becomes slower all the time, by 1 % in 1,000 launches."""

    def _next(self) -> float:
        return 1e-5 * self.launches + self.rng.gauss(0, 0.003)


class Bursts(Noise):
    """Other work: one launch in 200 begins a burst of 40 launches on average, 20 % slower."""

    left = 0

    def _next(self) -> float:
        if self.left == 0 and self.rng.random() < 1 / 200:
            self.left = 1 + int(self.rng.expovariate(1 / 40))
        self.left = max(0, self.left - 1)
        return (0.2 if self.left else 0.0) + self.rng.gauss(0, 0.003)


class LoadOffset(Noise):
    """An offset of 1 % from each load of the code to its end."""

    def load(self, code: str) -> Load:
        return Load(self.rng.gauss(0, 0.01))

    def _next(self) -> float:
        return self.rng.gauss(0, 0.003)


class ProcessOffset(Noise):
    """Each process has an offset of 5 %, which changes once in 500 launches; these vary by 3 %."""

    def start_process(self) -> Iterator[float]:
        while True:
            offset = self.rng.gauss(0, 0.05)
            yield from itertools.repeat(offset, 1 + int(self.rng.expovariate(1 / 500)))

    def _next(self) -> float:
        return self.rng.gauss(0, 0.03)


class CoarseTicks(Noise):
    """A clock that ticks every 2 % of the time; launches vary by 0.5 %."""

    def _next(self) -> float:
        return self.rng.gauss(0, 0.005)

    def read(self, seconds: float) -> float:
        tick_s = 0.02 * TIME_S
        return max(1, round(seconds / tick_s)) * tick_s


class Autocorrelated(Noise):
    """An autoregressive process: 0.9 of the last noise remains."""

    state = 0.0

    def _next(self) -> float:
        self.state = 0.9 * self.state + self.rng.gauss(0, 0.003)
        return self.state


class UnequalVariances(Noise):
    """Each configuration of each input has noise of its own size, from 0.1 % to 5 %."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self._sizes: dict[str, float] = {}

    def load(self, code: str) -> Load:
        size = self._sizes.setdefault(code, 50 ** self.rng.random())
        return Load(size=size)

    def _next(self) -> float:
        return self.rng.gauss(0, 0.001)


class Burdened(Noise):
    """Another machine, on which other work begins at one of its launches and never ends."""

    def __init__(self, other: Noise, begins: float, factor: float) -> None:
        """`begins` counts launches; from there on times are multiplied by `factor`."""
        super().__init__(other.rng)
        self._other, self._begins, self._log = other, begins, math.log(factor)

    def start_process(self) -> Iterator[float]:
        return self._other.start_process()

    def load(self, code: str) -> Load:
        return self._other.load(code)

    def launch(self, load: Load) -> float:
        self.launches += 1
        return self._other.launch(load) + (self._log if self.launches > self._begins else 0.0)

    def read(self, seconds: float) -> float:
        return self._other.read(seconds)


MODELS: Mapping[str, Callable[[random.Random], Noise]] = {
    "normal": Normal,
    "bimodal": Bimodal,
    "random walk": RandomWalk,
    "heavy tails": HeavyTails,
    "drift": Drift,
    "bursts": Bursts,
    "offset per load": LoadOffset,
    "offset per process": ProcessOffset,
    "coarse ticks": CoarseTicks,
    "autocorrelated": Autocorrelated,
    "unequal variances": UnequalVariances,
}


Times = Callable[[Input, Config], float]
"""The true seconds of a configuration on an input."""


class SimulatedMeasurer(ReplayMeasurer):
    """A measurer of no recording, which takes its samples from a noise model.

    It samples as real measurers do. Nothing is built, and nothing fails. With an `owner`, it uses
    the simulated process of that measurer.
    """

    is_replay = False

    def __init__(
        self,
        spec: Spec,
        noise: Noise,
        times: Times = lambda problem, config: TIME_S,
        owner: SimulatedMeasurer | None = None,
    ) -> None:
        super().__init__({}, ENVIRONMENT)
        self.noise = noise
        self._process: Iterator[float] = noise.start_process() if owner is None else owner._process
        self._sampling = spec.measure.sampling()
        self._times = times

    def measure(
        self, space: Space, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        """Measure one configuration."""
        loaded = self._load(problem, config)
        while True:
            loaded.samples_s.append(self._run(loaded))
            stopped = self._sampling.stop(loaded.samples_s, best_s)
            if stopped is not None:
                return loaded.measured(stopped)

    def measure_interleaved(
        self,
        space: Space,
        problem: Input,
        configs: Sequence[Config],
        rounds: int,
        seeds: Sequence[int] = ONE_OCCASION,
    ) -> list[Measurement]:
        """Measure several configurations, one sample of each per round."""

        def measure(configs: Sequence[Config], block: Block) -> list[Measurement]:
            loads = [self._load(problem, config) for config in configs]
            rng = random.Random(block.order)
            for _ in range(block.rounds):
                for loaded in rng.sample(loads, len(loads)):
                    loaded.samples_s.append(self._run(loaded))
            return [loaded.measured(StopReason.INTERLEAVED) for loaded in loads]

        return over_occasions(configs, split_rounds(rounds, seeds), measure)

    def _load(self, problem: Input, config: Config) -> _Loaded:
        """Load a configuration; its first run warms up."""
        load = self.noise.load(f"{problem.digest} {config.digest}")
        loaded = _Loaded(problem, config, load, self._sampling.statistic)
        loaded.first_run_s = self._run(loaded)
        return loaded

    def _run(self, loaded: _Loaded) -> float:
        """Run once; return what the clock says."""
        time_s = self._times(loaded.problem, loaded.config)
        noise = next(self._process) + self.noise.launch(loaded.load)
        return self.noise.read(time_s * math.exp(noise))


@dataclass
class _Loaded:
    """One load of a configuration's code, and its times."""

    problem: Input
    config: Config
    load: Load
    statistic: Statistic
    first_run_s: float = 0.0
    samples_s: list[float] = field(default_factory=list)

    def measured(self, stopped: StopReason) -> Measurement:
        """Return its measurement."""
        return Measurement(
            self.config,
            self.problem,
            Outcome.OK,
            Timing(tuple(self.samples_s), stopped, statistic=self.statistic),
            Build(self.config.digest, "", "a compiler", 0.0),
            warmup_s=(self.first_run_s,),
            host_read=(),
        )
