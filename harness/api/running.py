"""Carry out a request: open the devices and the database, plan the campaign, and run it."""

from __future__ import annotations

import dataclasses
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.analysis.inputs import InputReport
from harness.api.request import TuneRequest
from harness.core.errors import UsageError
from harness.core.locks import patiently
from harness.core.records import Config, Environment
from harness.core.text import first_few
from harness.display.progress import ProgressDisplay
from harness.fleet.measurers import FleetRequest, open_fleet
from harness.measure.choose import open_measurers
from harness.options.tune import DATABASE, TuneOptions
from harness.results import Store, writing
from harness.results.fitting import changed_data_lines
from harness.results.provenance import set_aside_sentence
from harness.results.url import shown_database
from harness.search import SearchOptions
from harness.tuning import Campaign, CampaignPlan
from harness.tuning.devices import DevicePool, SharedDevice

if TYPE_CHECKING:
    from harness.report.findings import Findings
    from harness.results.view import Results

_PARALLEL_BUILDS = 4


@dataclass(frozen=True)
class Tuned:
    """A campaign, while its devices and its database are open; the results are there once it has
    ended."""

    request: TuneRequest
    campaign: Campaign

    @cached_property
    def results(self) -> Results:
        """The campaign's results."""
        return dataclasses.replace(self.campaign.results(), databases=(self.request.database,))

    @cached_property
    def findings(self) -> Findings:
        """What is learnt from the results: for a console by the learners that take no time."""
        from harness.dispatch.study import QUICK, learners
        from harness.report.findings import Findings  # here: it loads what learns

        chosen = learners() if self.request.options.json else QUICK
        return Findings(self.results, learners=chosen)

    @cached_property
    def reports(self) -> Sequence[InputReport]:
        """The report of each input that was tuned, in the order of the space."""
        by_input = {report.problem: report for report in self.findings.reports}
        return [by_input[problem] for problem in self.campaign.spec.inputs]

    @property
    def has_failed(self) -> bool:
        """Whether nothing was measured, or nothing worked on an input that was measured."""
        left_out = self.campaign.left_out
        failed = any(not r.best and (r.measured or r.problem in left_out) for r in self.reports)
        return failed or not any(report.measured for report in self.reports)


@contextmanager
def tuned(request: TuneRequest, display: ProgressDisplay) -> Iterator[Tuned]:
    """Run a campaign; each measurement is stored when it ends. Raises what `open_campaign` does."""
    with open_campaign(request, display) as done:
        with display:
            done.campaign.run()
        yield done


@contextmanager
def open_campaign(request: TuneRequest, display: ProgressDisplay) -> Iterator[Tuned]:
    """Open the devices and the database of a campaign, plan it, and say from what it starts.

    Raises UsageError for a seed or a recording that cannot be used, BackendUnavailable, and
    DeviceBusy or DatabaseBusy where another process measures on the device, or writes the
    database, for longer than the request waits.
    """
    with ExitStack() as opened:
        # The device first: where it cannot be opened, no database is left behind.
        lines: list[str] = []
        end_s = time.monotonic() + request.options.wait  # of all that is waited for
        if request.replay is None:
            pool, line = patiently(
                lambda: _open_devices(request, opened, display.say), end_s, display.say
            )
            lines.append(line)
        else:
            pool = DevicePool({"": request.replay})
        opened.callback(pool.close)
        lines += request.notices
        for notice in pool.notices:
            lines.append(f"note: {notice}")
        for line in lines:
            display.note(line)
        engine = patiently(
            lambda: opened.enter_context(writing(request.database, display.say)),
            end_s,
            display.say,
        )
        store = opened.enter_context(Store(engine))
        plan = _make_plan(request, pool.left[0], store, end_s, display)
        campaign = Campaign(plan, pool, store, display)
        if request.recording is None:
            display.default = plan.spec.default
        with display:
            campaign.check_seeds()
            for line in _describe_start(request, campaign):
                display.note(line)
        yield Tuned(request, campaign)


def _make_plan(
    request: TuneRequest,
    device: SharedDevice,
    store: Store,
    end_s: float,
    display: ProgressDisplay,
) -> CampaignPlan:
    """Make the plan of a campaign: the space as it fits the device, whose default completes the
    user's seeds, and the campaign's number.

    Waits for another process that writes the same campaign until `end_s` of the monotonic clock;
    raises DatabaseBusy then.
    """
    options, environment = request.options, device.environment
    spec = device.fitted(dataclasses.replace(request.space, inputs=request.inputs))
    for notice in spec.notices:
        display.note(f"note: {notice}")
    default = {p.name: p.default for p in spec.tuned_for(device.compiler)}
    seeds = [Config({**default, **seed}) for seed in request.seeds]
    seeds += _predicted(request, environment, display)
    number = patiently(
        partial(store.choose_campaign, spec, environment, options.fresh), end_s, display.say
    )
    earlier = store.earlier_environment(spec, environment)
    is_chosen = isinstance(options, TuneOptions) and options.device  # not by default
    if earlier is not None and not options.fresh and not is_chosen:
        display.note(f"note: {spec.name} {_other_environment(earlier, environment)}")
    stop_at = None
    if options.max_time_s is not None:  # counted from here: devices take a while to open
        stop_at = time.monotonic() + options.max_time_s
    # Builds run in parallel; where nothing is built, a proposal can follow from all results.
    parallelism = _PARALLEL_BUILDS if request.replay is None else 1
    search = SearchOptions(
        techniques=request.techniques,
        test_limit=request.test_limit,
        seed=options.seed,
        label=options.label,
        parallelism=options.parallelism or parallelism,
        stop_at=stop_at,
        seeds=tuple(seeds),
        peak_fraction=spec.search.stop_at,
    )
    return CampaignPlan(
        spec=spec,
        options=search,
        number=number,
        cross=options.cross,
        ablate=isinstance(options, TuneOptions) and options.reduce,
        finalists=options.finalists,
        target=options.validate,
        warm_start=request.warm_start,
        other_devices=Path(DATABASE) in options.warm_start,
        arguments=options.command,
        recording=request.recording,
    )


def _other_environment(earlier: Environment, now: Environment) -> str:
    """Say of a space that its campaign does not go on, since its environment is another one."""
    changes = []
    for name, value in now.compared.items():
        was = earlier.compared[name]
        if was != value:
            changes.append(f"{name} {value}, not {was}")
    advice = ""
    if earlier.device != now.device:
        advice = "; if the other device is here, --device names it"
    return (
        f"was tuned before in another environment: now it is {', '.join(changes)}. "
        f"Times of two environments are never compared, so this is a new campaign{advice}"
    )


def _predicted(
    request: TuneRequest, environment: Environment, display: ProgressDisplay
) -> list[Config]:
    """Return the configurations predicted to be the fastest, for half of the tests."""
    predictor = request.predictor
    if predictor is None:
        return []
    order = predictor.order(environment)
    if order is None:
        database = request.database
        message = f"{database} has no other stencil tuned on this device; using auto instead"
        display.say(f"{predictor.technique}: {message}")
        return []
    configs, message = order
    display.say(f"{predictor.technique}: {message}")
    return configs[: max(1, request.test_limit // 2)]


def _describe_start(request: TuneRequest, campaign: Campaign) -> Iterator[str]:
    """Say what the campaign does not use of the database, and what its searches learn from.

    Raises UsageError for a recording of which nothing can be used.
    """
    database = shown_database(request.database)
    set_aside = set_aside_sentence(campaign.set_aside(), [database])
    if set_aside:
        yield f"note: {set_aside}"
    if campaign.fitting.sentence:
        yield f"note: {campaign.fitting.sentence}"
    for line in changed_data_lines(campaign.fitting.changed):
        yield f"note: {line}"
    differ = [f"({p})" for p, digest in campaign.data_digests.items() if digest is None]
    if differ:
        yield (
            f"note: arguments() returns other data each time on {first_few(differ, ', ')}: harness "
            "cannot see whether the data changed, and uses the earlier measurements. Draw random "
            "numbers from `rng`"
        )
    lines = list(campaign.describe_warm_start())
    for recording, line in zip(request.warm_start, lines, strict=True):
        yield f"warm start from {line}"
        for note in recording.notes:
            yield f"note: {note}"
    devices = campaign.devices_learnt_from()
    if devices:
        yield f"warm start from the results of {first_few(devices, ', ')} in {database}"
    elif campaign.plan.other_devices:
        yield (
            f"note: no warm start from {database}: it has no results of another device for this "
            "program, or had none when the search began; --fresh begins a new one"
        )


def _open_devices(
    request: TuneRequest, opened: ExitStack, say: Callable[[str], None]
) -> tuple[DevicePool, str]:
    """Open the devices; return them, and a line that says which and why. `opened` keeps a cluster
    open, and `say` shows what is waited for.

    Raises UsageError for several devices that differ, and for several where one input after
    another is sampled.
    """
    options, most = request.options, len(request.inputs)  # an input is with one device
    assert isinstance(options, TuneOptions), "a replay has no devices"
    joining = None
    if options.cluster is None:
        measurers, why = open_measurers(request.space, options.backend, options.device, most)
    else:
        driver = f"{platform.node()}: {shown_database(request.database)}"
        asked = FleetRequest(options.cluster, options.device, most, options.insecure, driver, say)
        fleet = opened.enter_context(open_fleet(request.space, asked))
        measurers = fleet.measurers
        why = "; ".join([f"--cluster {options.cluster}", *fleet.skipped])
        if most > 1 and options.validate is None:
            joining = fleet
    try:
        if options.validate is not None and len(measurers) > 1:
            raise UsageError(
                f"--validate samples all inputs on one device, and --device names {len(measurers)};"
                " name one of them"
            )
        pool = DevicePool(measurers, joining)
    except UsageError:
        for measurer in reversed([*measurers.values()]):
            measurer.close()
        raise
    environment = pool.left[0].environment
    shared = pool.describe() if pool.is_shared else ""
    line = f"backend {environment.backend}: {environment}"
    return pool, "; ".join(filter(None, [line, why, shared]))
