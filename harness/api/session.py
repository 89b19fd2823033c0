"""Ask and tell: the caller decides what is measured; harness proposes, verifies, stores and
judges."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.arrays import own_random
from harness.core.errors import UsageError
from harness.core.records import Config, Input, Measurement, Value
from harness.options.tune import ReplayOptions, TuneOptions

if TYPE_CHECKING:
    from harness.api.results import TuneResults
    from harness.search.driver import Driver
    from harness.space_file import Spec
    from harness.tuning import Campaign


@contextmanager
def session(space: str | Path | Spec | None = None, **arguments: Any) -> Iterator[Session]:
    """Open a campaign of which the caller decides what is measured; its arguments are those of
    `tune`, or with a `recording` those of `replay`. At the end of the block, the best are measured
    again, as `tune` does.

    Each measurement is stored when it ends, and the same call continues. Raises HarnessError.
    """
    model = ReplayOptions if "recording" in arguments else TuneOptions
    arguments["space"] = space
    with model.called("session", arguments) as options, ExitStack() as opened:
        if options.validate is not None or options.parallelism not in (None, 1):
            raise UsageError("a session tests one at a time; leave out --validate, --parallelism")
        with own_random():
            # Here, since OpenTuner and others take seconds to load.
            from harness.api.request import read_request
            from harness.api.results import TuneResults
            from harness.api.running import open_campaign
            from harness.display.progress import ProgressDisplay
            from harness.display.text import make_console

            request = read_request(dataclasses.replace(options.read(), parallelism=1))
            display = ProgressDisplay(make_console(stderr=True), quiet=not options.progress)
            done = opened.enter_context(open_campaign(request, display))
        command = done.campaign.begin()
        searches = opened.enter_context(ExitStack())
        asked = Session(done.campaign, searches)
        try:
            yield asked
        except BaseException:
            display.warn(
                "the session ended early; measurements are kept, and the same code goes on"
            )
            raise
        finally:
            asked.has_ended = True
        searches.close()
        with own_random(), display:
            done.campaign.end(command)
        if done.results.runs:
            asked.results = TuneResults(done.results, request.space)


session.__signature__ = TuneOptions.signature(space="space")  # type: ignore[attr-defined]


class Session:
    """A campaign of which the caller decides what is measured.

    `inputs` are the inputs of the space. `input` is the one at hand, to which all methods apply
    that name no other: the first, then the one that was last asked for, measured or named.
    `results` is what `tune` returns, once the session has ended; None where nothing was measured.
    """

    def __init__(self, campaign: Campaign, searches: ExitStack) -> None:
        self.inputs: Sequence[Input] = campaign.spec.inputs
        self.input = self.inputs[0]
        self.results: TuneResults | None = None
        self.has_ended = False
        self._campaign = campaign
        self._searches = searches  # keeps them open
        self._begun: dict[Input, tuple[Driver, Any, Any]] = {}  # each with the random generators

    @property
    def parameters(self) -> Mapping[str, Sequence[Value]]:
        """The values of each parameter."""
        space = self._campaign.space(self.input)
        return {parameter.name: parameter.values for parameter in space.parameters}

    @property
    def best(self) -> Measurement | None:
        """The fastest measurement so far; None where nothing worked."""
        return self._campaign.best(self.input)

    def ask(self, on: Mapping[str, Any] | None = None) -> Config | None:
        """Return a configuration to measure, the same until it is measured: first the default, then
        what the technique proposes after all that was measured.

        Goes on with the next input at the test limit, unless one is named. Returns None where all
        is tested, or the time is up.
        """
        campaign, problems = self._campaign, [self._named(on)]
        if not on:
            problems += self.inputs
        for problem in dict.fromkeys(problems):
            if campaign.is_time_up() or problem in campaign.left_out or campaign.is_empty(problem):
                continue
            with self._search(problem) as search:
                proposed = search.propose()
            if proposed is not None:
                self.input = problem
                return proposed
        return None

    def measure(
        self, config: Mapping[str, Any], on: Mapping[str, Any] | None = None
    ) -> Measurement:
        """Measure, verify and store a configuration, or return what is stored of it. Parameters
        that it leaves out have their defaults.

        Raises UsageError for an illegal one, with the reason; HostModuleError.
        """
        self.input = self._named(on)
        whole, space = self._point(config), self._campaign.space(self.input)
        canonical = space.canonical(whole)
        why = space.why_illegal(canonical)
        if why is not None:
            raise UsageError(
                f"the configuration ({whole}) is illegal on ({self.input}): {why}; nearest() "
                "returns a legal one"
            )
        with self._search(self.input) as search:
            return search.test(canonical)

    def nearest(self, config: Mapping[str, Any], on: Mapping[str, Any] | None = None) -> Config:
        """Return the legal configuration nearest to one. Raises UsageError for unknown values."""
        self.input = self._named(on)
        whole, space = self._point(config), self._campaign.space(self.input)
        return space.canonical(space.nearest_legal(whole, random.Random(whole.digest)))

    def _named(self, on: Mapping[str, Any] | None) -> Input:
        """Return the input that is meant."""
        if self.has_ended:
            raise UsageError("the session has ended; open another one to go on")
        if on is None:
            return self.input
        if not isinstance(on, Mapping):
            raise UsageError(f"`on` is a mapping of features to values, but got {on!r}")
        problem = Input(on)
        if problem not in self.inputs:
            raise UsageError(f"({problem}) is no input of the session; choose one of its `inputs`")
        return problem

    def _point(self, config: Mapping[str, Any]) -> Config:
        """Complete a configuration with defaults; other optimisers give numbers of numpy."""
        if not isinstance(config, Mapping):
            raise UsageError(
                f"a configuration is a mapping of parameters to values, but got {config!r}; ask() "
                "returns None where all is tested"
            )
        space = self._campaign.space(self.input)
        plain = dict(config)
        for name, value in config.items():
            if isinstance(value, np.generic):
                plain[name] = value.item()
        try:
            whole = Config({**space.default, **plain})
        except (TypeError, ValueError) as error:
            raise UsageError(f"the configuration {plain}: {error}") from None
        why = space.why_no_point(whole)
        if why is not None:
            raise UsageError(f"the configuration ({whole}): {why}; `parameters` has all values")
        return whole

    @contextmanager
    def _search(self, problem: Input) -> Iterator[Driver]:
        """Begin the search of an input, or go on with it, with random generators of its own."""
        with own_random():
            if problem in self._begun:
                search, state, numpy_state = self._begun[problem]
                random.setstate(state)
                np.random.set_state(numpy_state)
            else:
                search = self._begin(problem)
            try:
                yield search
            finally:
                self._begun[problem] = search, random.getstate(), np.random.get_state()

    def _begin(self, problem: Input) -> Driver:
        from harness.search.run import open_search  # here, since it loads OpenTuner
        from harness.tuning.searching import prepared

        campaign, count = self._campaign, len(self.inputs)
        number = self.inputs.index(problem) + 1
        options = dataclasses.replace(campaign.options, stop_at=None)
        begun = prepared(campaign, problem, list(self._begun), options)
        steps = begun.interface.space.budget(options.test_limit)
        stored = min(steps, len(begun.answers))
        campaign.display.begin_stage(f"[{number}/{count}] {problem}", steps, stored)
        search = self._searches.enter_context(open_search(begun))
        campaign.runs[problem] = search.run_id
        return search
