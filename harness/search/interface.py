"""OpenTuner's measurement interface: the seam between a search and what it measures.

harness's driver and OpenTuner's own both call `run` of an `InputInterface`, which asks a Measurer
to build, verify and time a configuration. `MeasurementInterface` also opens the space and the
device, for a program in OpenTuner's usual form.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import re
import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import inf
from pathlib import Path
from typing import Any

import opentuner
from opentuner.measurement.inputmanager import FixedInputManager
from opentuner.resultsdb.models import Result
from opentuner.search.objective import MinimizeTime

from harness.core.errors import UsageError
from harness.core.files import check_output, write_output
from harness.core.records import Config, Input, Measurement, Outcome
from harness.measure.choose import fitted_to, open_measurer
from harness.measure.measurer import Measurer
from harness.results.database import utc_now
from harness.search.manipulator import Cfg, SpaceManipulator
from harness.search.techniques import OURS
from harness.space import ConstrainedSpace, Space
from harness.space_file import Spec, load_spec

_STATES = {Outcome.OK: "OK", Outcome.TIMEOUT: "TIMEOUT"}
"""OpenTuner's states of outcomes; all others are errors."""

_log = logging.getLogger(__name__)


class InputInterface(opentuner.MeasurementInterface):  # type: ignore[misc]
    """One input of a space, measured by a Measurer."""

    def __init__(
        self,
        spec: Spec,
        problem: Input,
        space: Space,
        measurer: Measurer,
        args: argparse.Namespace | None = None,
    ) -> None:
        """`space` has the configurations of the input that are legal on the measurer's device."""
        super().__init__(
            args or argparse.Namespace(parallel_compile=False),
            project_name="harness",
            program_name=spec.name,
            program_version=spec.space_sha256,
            objective=MinimizeTime(),
            input_manager=FixedInputManager(spec.name, path=problem.json),
        )
        self.problem = problem
        self.space = space
        self.measurer = measurer
        self.best: Measurement | None = None

    @cached_property
    def _legal_manipulator(self) -> SpaceManipulator:
        return SpaceManipulator(self.space, random.Random(random.random()))

    def manipulator(self) -> SpaceManipulator:
        """Return the space's manipulator; `random.seed` repeats its draws."""
        return self._legal_manipulator

    def expect(self, configs: Iterable[Config]) -> None:
        """Start the builds of configurations that are run next."""
        self.measurer.expect(self.space, configs)

    def compile(self, config_data: Cfg, id: int) -> None:
        """Start the build of a configuration; `run_precompiled` waits for it."""
        self.expect([Config(config_data)])

    def run_precompiled(
        self, desired_result: Any, input: Any, limit: float, compile_result: None, id: int
    ) -> Result:
        """Run a configuration whose build `compile` has started."""
        return self.run(desired_result, input, limit)

    def run(self, desired_result: Any, input: Any, limit: float | None) -> Result:
        """Build, verify and time a configuration; return OpenTuner's result.

        The space's `give_up_at` takes the place of `limit`, which is twice the best time. Raises
        HostModuleError where nothing can be measured on this input.
        """
        configuration = desired_result.configuration
        best_s = self.best.time_s if self.best else None
        config = Config(configuration.data)
        measurement = self.measurer.measure(self.space, self.problem, config, best_s)
        return self.result(configuration, measurement)

    def result(self, configuration: Any, measurement: Measurement) -> Result:
        """Make OpenTuner's result of a measurement, which it keeps as `measurement`.

        The time is the median of the samples, or their mean where the space says so. That of a
        failure is infinite: with NaN, 0 or None it would win, or crash the search.
        """
        result = Result(
            configuration=configuration,
            state=_STATES.get(measurement.outcome, "ERROR"),
            time=measurement.time_s,
            collection_date=utc_now(),
        )
        result.measurement = measurement
        best_s = self.best.time_s if self.best else inf
        if measurement.time_s < best_s:  # failures are infinite
            self.best = measurement
        return result


class MeasurementInterface(InputInterface):
    """Measure one input of a space with OpenTuner: `TuningRunMain(interface, args).main()`.

    A `with` block ends the measuring processes at its end; without one, they end with the program.
    """

    def __init__(
        self,
        space: str | Path | Spec,
        input: Mapping[str, Any],
        args: argparse.Namespace | None = None,
        *,
        backend: str = "auto",
        device: str | None = None,
        seed_configurations: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Open the space and its device. `args` are those of `opentuner.argparsers()`.

        Parameters that a seed leaves out have their defaults. Raises HarnessError for an input or
        a seed that does not fit the space, and BackendUnavailable.
        """
        for name in (args and args.technique) or ():
            if name in {technique.name for technique in OURS}:
                raise UsageError(
                    f"--technique {name} needs harness's driver: run harness tune, or choose a "
                    "technique of OpenTuner"
                )
        spec = space if isinstance(space, Spec) else load_spec(Path(space))
        problem = _checked_input(spec, input)
        devices = [] if device is None else [device]
        measurer, _ = open_measurer(spec, backend, devices=devices)
        self._closing = weakref.finalize(self, measurer.close)
        try:
            spec = fitted_to(spec, measurer)
            legal = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
            super().__init__(spec, problem, legal, measurer, args)
            if legal.count == 0:
                reason = legal.why_illegal(legal.default)
                raise UsageError(
                    f"no configuration of {spec.path} is legal on ({problem}): the default has "
                    f"{reason}"
                )
            self._seeds = [self._seed(seed) for seed in seed_configurations]
            check_output(self.final_path)
        except BaseException:
            self.close()
            raise

    def _seed(self, seed: Mapping[str, Any]) -> Config:
        """Complete and check a seed of the user."""
        try:
            config = Config({**self.space.default, **seed})
        except (TypeError, ValueError) as error:
            raise UsageError(f"seed_configurations: {seed!r}: {error}") from None
        reason = self.space.why_no_point(config) or self.space.why_illegal(
            self.space.canonical(config)
        )
        if reason is not None:
            raise UsageError(f"seed_configurations: ({config}) on ({self.problem}): {reason}")
        return self.space.canonical(config)

    def seed_configurations(self) -> list[Cfg]:
        """Return the default and the user's seeds; OpenTuner takes the last one first."""
        default = self.space.canonical(self.space.default)
        seeds = dict.fromkeys([default, *self._seeds])
        return [dict(seed) for seed in reversed(seeds) if self.space.is_legal(seed)]

    @property
    def final_path(self) -> Path:
        """The file of the best configuration, named by space and input, in the current folder."""
        words = re.sub(r"[^\w.=+-]+", "_", str(self.problem))
        return Path(f"{self.program_name()}.{words}.json")

    def save_final_config(self, config: Any) -> None:
        """Write the best configuration to `final_path`, a file of JSON."""
        if self.best is None:
            _log.warning("nothing worked on (%s); %s is not written", self.problem, self.final_path)
            return
        document = {
            "autotuner": "harness",
            "space": self.program_name(),
            "input": dict(self.problem),
            "configuration": config.data,
            "time_s": self.best.time_s,
        }
        write_output(self.final_path, json.dumps(document) + "\n")
        _log.info("the best configuration of (%s) is in %s", self.problem, self.final_path)

    def close(self) -> None:
        """End the measuring processes."""
        self._closing()

    def __enter__(self) -> MeasurementInterface:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked_input(spec: Spec, features: Mapping[str, Any]) -> Input:
    """Return the input with these features; raises UsageError where they are not the space's."""
    named = f"{spec.path} has the features {', '.join(spec.features)}"
    if not isinstance(features, Mapping):
        raise UsageError(f"the input {features!r} is no mapping of features to values; {named}")
    try:
        problem = Input(features)
    except (TypeError, ValueError) as error:
        raise UsageError(f"the input {features!r}: {error}; {named}") from None
    if set(problem) != set(spec.features):
        raise UsageError(f"({problem}) is no input of the space; {named}")
    return problem
