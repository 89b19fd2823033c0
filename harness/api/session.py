"""Carry out a request: open a measurer and a database, and run the campaign."""

from __future__ import annotations

import dataclasses
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from harness.analysis.inputs import InputReport
from harness.api.request import PREDICTED, TuneRequest
from harness.api.tune_options import DATABASE
from harness.core.errors import DatabaseBusy, UsageError
from harness.core.records import Config
from harness.core.text import counted, first_few
from harness.display.progress import ProgressDisplay
from harness.fleet.measurers import Fleet, FleetRequest, open_fleet
from harness.measure.choose import fitted_to, open_measurers
from harness.measure.measurer import Measurer
from harness.recordings.recording import Recording
from harness.recordings.replay import ReplayMeasurer, open_replay
from harness.results import Store, writing
from harness.results.present_data import changed_data_lines
from harness.results.provenance import set_aside_lines
from harness.results.url import shown_database
from harness.search import make_opentuner_tables
from harness.space_file import Spec
from harness.tuning import Campaign
from harness.tuning.devices import DevicePool

if TYPE_CHECKING:
    from harness.results.view import Results


T = TypeVar("T")

_AGAIN_S = 1.0  # between two attempts to write


def _open_devices(
    request: TuneRequest, opened: ExitStack, say: Callable[[str], None]
) -> tuple[DevicePool, str]:
    """Open the devices; return them and why they were chosen. `opened` keeps a cluster
    open, and `say` shows what is waited for.

    Raises UsageError for several devices that differ, and for several where one input after
    another is sampled.
    """
    options, most = request.options, len(request.plan.spec.inputs)  # an input is with one device
    measurers: Mapping[str, Measurer]
    joining: Fleet | None = None
    if options.cluster is None:
        measurers, why = open_measurers(request.whole, options.backend, options.device, most)
    else:
        driver = f"{platform.node()}: {shown_database(request.database)}"
        asked = FleetRequest(options.cluster, options.device, most, options.insecure, driver, say)
        fleet = opened.enter_context(open_fleet(request.whole, asked))
        measurers, why = (
            fleet.measurers,
            "; ".join([f"--cluster {options.cluster}", *fleet.skipped]),
        )
        joining = fleet if most > 1 and options.validate is None else None
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
    return pool, f"{why}; {pool.describe()}" if pool.is_shared else why


@dataclass(frozen=True)
class Tuned:
    """A campaign, while its measurer and its database are open; once it has ended, with the report
    of each input."""

    request: TuneRequest
    measurer: Measurer
    store: Store
    campaign: Campaign
    reports: Sequence[InputReport] = ()

    @property
    def has_failed(self) -> bool:
        """Whether nothing was measured, or nothing worked on an input that was measured."""
        left_out = self.campaign.left_out
        failed = any(not r.best and (r.measured or r.problem in left_out) for r in self.reports)
        return failed or not any(report.measured for report in self.reports)

    def results(self) -> Results | None:
        """Read the campaign's results from the database; None where it has not begun."""
        from harness.results.view import results_of  # here, since it loads pandas

        campaign = self.campaign
        key = campaign.run_plan(campaign.spec.inputs[0]).key
        return self.store.read(lambda: results_of(self.store, key, self.request.database))


@contextmanager
def tuned(request: TuneRequest, display: ProgressDisplay) -> Iterator[Tuned]:
    """Run a campaign; each measurement is stored when it ends. Raises what `open_campaign` does."""
    with open_campaign(request, display) as done:
        with display:
            reports = done.campaign.run()
        yield dataclasses.replace(done, reports=reports)


@contextmanager
def open_campaign(request: TuneRequest, display: ProgressDisplay) -> Iterator[Tuned]:
    """Open the devices and the database of a campaign, and make it.

    Raises UsageError for a seed or a recording that cannot be used, BackendUnavailable, and
    DatabaseBusy where another process writes the database.
    """
    # The device first: where it cannot be opened, no database is left behind.
    with ExitStack() as opened:
        pool = opened.enter_context(_opened(request, display))
        measurer = pool.left[0]
        engine = patiently(
            lambda: opened.enter_context(writing(request.database, display.say)),
            request.options.wait,
            display.say,
        )
        store = opened.enter_context(Store(engine))
        spec = fitted_to(request.plan.spec, measurer.measurer)
        for notice in spec.notices:
            display.note(f"note: {notice}")
        make_opentuner_tables(store)
        default = Config({p.name: p.default for p in spec.tuned_for(measurer.compiler)})
        with display.running(None if request.plan.recording else default):
            campaign = _campaign(request, spec, default, pool, store, display)
        yield Tuned(request, measurer, store, campaign)


def _campaign(
    request: TuneRequest,
    spec: Spec,
    default: Config,
    pool: DevicePool,
    store: Store,
    display: ProgressDisplay,
) -> Campaign:
    """Make the campaign, check its seeds, which the default completes, and describe its warm start.

    Waits for another process that writes the same campaign, for as long as the request does; raises
    DatabaseBusy then.
    """
    measurer = pool.left[0]
    seeds = tuple(Config({**default, **seed}) for seed in request.seeds)
    seeds += _predicted(request, measurer, display)
    patiently(
        partial(store.choose_campaign, spec, measurer.environment, request.options.fresh),
        request.options.wait,
        display.say,
    )
    limit_s = request.options.max_time_s  # counted from here: devices take a while to open
    stop_at = None if limit_s is None else time.monotonic() + limit_s
    search = dataclasses.replace(request.plan.options, seeds=seeds, stop_at=stop_at)
    plan = dataclasses.replace(request.plan, spec=spec, options=search)
    campaign = Campaign(plan, pool, store, display)
    campaign.check_seeds()
    database = shown_database(request.database)
    set_aside = set_aside_lines(campaign.set_aside(), [database])
    for line in (*set_aside, *_values_gone(campaign, database), *_data_changed(campaign)):
        display.note(f"note: {line}")
    lines = list(campaign.describe_warm_start())
    for recording, line in zip(plan.warm_start, lines, strict=True):
        display.note(f"warm start from {line}")
        for note in recording.notes:
            display.note(f"note: {note}")
    for line in _devices_learnt_from(request, campaign, database):
        display.note(line)
    return campaign


def _devices_learnt_from(request: TuneRequest, campaign: Campaign, database: str) -> Iterator[str]:
    """Say which other devices' results in the database the searches start from."""
    devices = campaign.devices_learnt_from()
    if devices:
        yield f"warm start from the results of {first_few(devices, ', ')} in {database}"
    elif Path(DATABASE) in request.options.warm_start:
        yield (
            f"note: no warm start from {database}: it has no results of another device for this "
            "program, or had none when the search began; --fresh begins a new one"
        )


def _values_gone(campaign: Campaign, database: str) -> Iterator[str]:
    """Say which values of earlier measurements the space no longer has."""
    count, gone = campaign.values_gone()
    if not count:
        return
    are, spec = "is" if count == 1 else "are", campaign.spec
    yield (
        f"{counted(count, 'measurement')} in {database} {are} kept but not used, with values that "
        f"{spec.path} no longer has: {first_few(gone, ', ')}"
    )


def _data_changed(campaign: Campaign) -> Iterator[str]:
    """Say which inputs have other data than when they were measured, and of which that cannot be
    said."""
    yield from changed_data_lines(campaign.data_changed)
    digests = campaign.data_digests
    differ = [f"({problem})" for problem, digest in digests.items() if digest is None]
    if differ:
        yield (
            f"arguments() returns other data each time on {first_few(differ, ', ')}: harness "
            "cannot see whether the data changed, and uses the earlier measurements. Draw random "
            "numbers from `rng`"
        )


def _predicted(
    request: TuneRequest, measurer: Measurer, display: ProgressDisplay
) -> tuple[Config, ...]:
    """Return the configurations predicted to be the fastest, for half of the tests."""
    if request.predictor is None:
        return ()
    order = request.predictor.order(measurer.environment)
    if order is None:
        database = request.database
        message = f"{database} has no other stencil tuned on this device; using auto instead"
        display.say(f"{PREDICTED}: {message}")
        return ()
    configs, message = order
    display.say(f"{PREDICTED}: {message}")
    return tuple(configs[: max(1, request.plan.options.test_limit // 2)])


@contextmanager
def _opened(request: TuneRequest, display: ProgressDisplay) -> Iterator[DevicePool]:
    """Open the devices, describe them in a line, and close them at the end."""
    options, recording = request.options, request.plan.recording
    with ExitStack() as opened:
        if recording is not None:
            pool = DevicePool({"": ReplayMeasurer.of(recording)})
            line = _described(recording)
        elif options.replay is not None:
            replay = open_replay(options.replay, request.whole)
            count, device = len(replay.measurements), replay.environment.device
            pool = DevicePool({"": replay})
            line = f"replaying {options.replay}: {count:,} measurements from {device}; none is new"
        else:
            pool, why = _open_devices(request, opened, display.say)
            environment = pool.left[0].environment
            line = f"backend {environment.backend}: {environment}{f'; {why}' if why else ''}"
        opened.callback(pool.close)
        display.note(line)
        for notice in request.notices:
            display.note(notice)
        for note in [*pool.notices, *(recording.notes if recording else ())]:
            display.note(f"note: {note}")
        yield pool


def _described(recording: Recording) -> str:
    """Describe a recording in a line."""
    tables = recording.tables.values()
    outcomes = Counter(outcome for table in tables for outcome in table.outcomes)
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items())
    searched = sum(len(p.values) > 1 for p in recording.parameters)
    return (
        f"{recording.path}: {recording.kind} of {recording.title} on {recording.device}; "
        f"{counts}; {searched} parameters to search"
    )


def patiently(call: Callable[[], T], wait_s: float, say: Callable[[str], None]) -> T:
    """Call again and again while another process writes, for so many seconds; say so once.

    Raises DatabaseBusy where the other one writes for longer.
    """
    end_s = time.monotonic() + wait_s
    is_said = False
    while True:
        try:
            return call()
        except DatabaseBusy as busy:
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise
            if not is_said:
                say(f"{busy.fact}; waiting for it for up to {wait_s:g} s (Ctrl-C ends this)")
            is_said = True
        time.sleep(min(_AGAIN_S, left_s))
