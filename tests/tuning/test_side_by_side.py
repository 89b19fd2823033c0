"""Campaigns on different models of devices run at the same time, and find what each finds alone."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import BackendUnavailable, HostModuleError
from harness.core.records import Config, Input, Measurement, Outcome
from harness.results import Store, writing
from harness.results.view import Results, read_results
from harness.search import SearchOptions, make_opentuner_tables, resolve_techniques
from harness.space_file import Spec
from harness.tuning import Campaign, CampaignPlan
from harness.tuning.baton import Baton
from harness.tuning.devices import EqualDevices
from harness.tuning.side_by_side import SideBySide, SideCampaign
from tests.helpers.planted import until
from tests.helpers.replays import Tests, formula_s, make_spec
from tests.tuning.test_several_devices import MANY, Scripted, stored, tuned


def twice_as_slow(problem: Input, config: Config) -> float:
    """The formula of a slower model."""
    return 2 * formula_s(problem, config)


def model(name: str, *uuids: str, before: Any = lambda _: None) -> list[Scripted]:
    """The devices of a model."""
    devices = [Scripted(uuid, before, name) for uuid in uuids or (f"GPU-{name}",)]
    for device in devices:
        device._times = twice_as_slow if name == "slow" else formula_s
    return devices


@contextmanager
def opened(
    spec: Spec, database: Path | str, models: Sequence[Sequence[Scripted]], **options: Any
) -> Iterator[SideBySide]:
    """Campaigns of several models in one database."""
    chosen = {"test_limit": 12, "seed": 0, "label": "test", "parallelism": 4} | options
    search = SearchOptions(resolve_techniques(["AUCBanditMetaTechniqueA"]), **chosen)
    baton = Baton()
    with writing(str(database)) as engine, Store(engine) as store:
        make_opentuner_tables(store)
        members = []
        for number, each in enumerate(models):
            named = {f"device {number}{place}": device for place, device in enumerate(each)}
            devices = EqualDevices(named, None, baton)
            campaign = Campaign(CampaignPlan(spec, search), devices, store, Tests())
            members.append(SideCampaign(campaign, devices))
        yield SideBySide(members, baton)


def read(database: Path | str) -> dict[str, Results]:
    """What is stored, by the device's name."""
    return {each.campaign.environment.device: each for each in read_results([str(database)])}


def test_each_model_finds_what_it_finds_alone_while_the_other_measures(tmp_path: Path) -> None:
    """With one device each, a seed repeats both searches bit for bit."""
    spec = make_spec(tmp_path, MANY)
    begun = {"fast": threading.Event(), "slow": threading.Event()}

    def meet(name: str) -> Any:
        other = begun["slow" if name == "fast" else "fast"]

        def before(number: int) -> None:
            begun[name].set()
            assert other.wait(60), "both measure at the same time"

        return before

    models = [model(name, before=meet(name)) for name in begun]
    with opened(spec, tmp_path / "both.db", models) as campaigns:
        both = campaigns.run()
    together = read(tmp_path / "both.db")
    for number, name in enumerate(begun):
        (device,) = model(name)
        alone, results, _ = tuned(spec, tmp_path / f"{name}.db", [device], test_limit=12)
        assert both[number] == alone
        assert stored(together[name]) == stored(results)
        assert models[number][0].asked == device.asked


def test_each_model_shares_its_inputs_out_over_its_devices(tmp_path: Path, database: str) -> None:
    """In a file, and on a server, where one writer holds the campaigns of both."""
    spec = make_spec(tmp_path, MANY)
    models = [model("fast", "GPU-0", "GPU-1"), model("slow", "GPU-2", "GPU-3")]
    with opened(spec, database, models) as campaigns:
        ended = campaigns.run()
    assert {name: len(found.runs) for name, found in read(database).items()} == {
        "fast": 5,
        "slow": 5,
    }
    assert [len(reports) for reports in ended] == [5, 5]  # type: ignore[arg-type]
    assert all(device.asked for devices in models for device in devices)


def test_a_model_whose_last_device_fails_ends_alone(tmp_path: Path) -> None:
    def fail(number: int) -> None:
        if number > 4:
            raise BackendUnavailable("fell off the bus")

    spec, database = make_spec(tmp_path, MANY), tmp_path / "r.db"
    models = [model("fast"), model("slow", before=fail)]
    with opened(spec, database, models) as campaigns:
        good, error = campaigns.run()
    assert isinstance(error, BackendUnavailable)
    assert str(error) == "fell off the bus"
    assert len(good) == 5  # type: ignore[arg-type]
    states = {n: {run.state for run in found.runs} for n, found in read(database).items()}
    assert states == {"fast": {"complete"}, "slow": {"interrupted"}}
    again = [model("fast"), model("slow")]
    with opened(spec, database, again) as campaigns:
        campaigns.run()
    assert not again[0][0].asked, "nothing is measured twice"
    assert {run.state for run in read(database)["slow"].runs} == {"complete"}


def test_another_error_ends_all_and_keeps_what_is_stored(tmp_path: Path) -> None:
    def fail(number: int) -> None:
        if number == 6:
            raise RuntimeError("a defect")

    models = [model("fast"), model("slow", before=fail)]
    with (
        opened(make_spec(tmp_path, MANY), tmp_path / "r.db", models, test_limit=500) as campaigns,
        pytest.raises(RuntimeError, match="a defect"),
    ):
        campaigns.run()
    assert all(device.is_closed for devices in models for device in devices)
    assert len(read(tmp_path / "r.db")["slow"].rows) == 5


def test_ctrl_c_ends_all_and_the_same_command_measures_nothing_twice(tmp_path: Path) -> None:
    spec, database = make_spec(tmp_path, MANY), tmp_path / "r.db"
    begun = threading.Event()

    def interrupt(number: int) -> None:
        assert begun.wait(60)
        if number == 10:
            os.kill(os.getpid(), signal.SIGINT)

    first = [model("fast", before=interrupt), model("slow", before=lambda _: begun.set())]
    with (
        opened(spec, database, first) as campaigns,
        pytest.raises(KeyboardInterrupt),
    ):
        campaigns.run()
    assert until(lambda: not [t for t in threading.enumerate() if "_serve" in t.name])
    kept = {
        (name, row.measurement.input, row.measurement.config)
        for name, found in read(database).items()
        for row in found.rows
    }
    asked = {(d[0].environment.device, *each) for d in first for each in d[0].asked}
    assert kept <= asked
    assert len(asked) - len(kept) <= 2, "only what was being measured is lost"
    assert all(run.state != "running" for found in read(database).values() for run in found.runs)
    again = [model("fast"), model("slow")]
    with opened(spec, database, again) as campaigns:
        campaigns.run()
    assert not kept & {(d[0].environment.device, *each) for d in again for each in d[0].asked}
    assert {run.state for found in read(database).values() for run in found.runs} == {"complete"}


def test_what_the_end_of_the_others_breaks_is_not_stored(tmp_path: Path) -> None:
    """A device that is closed in the middle of a measurement reports a crash, and is not slow."""
    spec, database = make_spec(tmp_path, MANY), tmp_path / "r.db"
    is_measuring = threading.Event()

    def fail(number: int) -> None:
        assert is_measuring.wait(60)
        raise RuntimeError("a defect")

    def last(number: int) -> None:
        is_measuring.set()
        assert until(lambda: other.is_closed)
        time.sleep(0.01)

    (other,) = model("slow", before=last)
    measure = other.measure

    def crash(space: Any, problem: Input, config: Config, best_s: float | None) -> Any:
        measure(space, problem, config, best_s)
        return Measurement(config, problem, Outcome.CRASHED, message="was killed")

    other.measure = crash  # type: ignore[method-assign]
    with (
        opened(spec, database, [model("fast", before=fail), [other]]) as campaigns,
        pytest.raises(RuntimeError, match="a defect"),
    ):
        campaigns.run()
    assert other.asked
    assert not any(found.rows for found in read(database).values())


def test_an_error_that_comes_before_the_first_look_is_raised(tmp_path: Path) -> None:
    class Ended(SideBySide):
        """All campaigns end before somebody looks at them."""

        def _is_running(self) -> bool:
            for thread in self._threads:
                thread.join()
            return super()._is_running()

    def fail(number: int) -> None:
        raise RuntimeError("a defect")

    with opened(make_spec(tmp_path, MANY), tmp_path / "r.db", [model("fast", before=fail)]) as one:
        campaigns = Ended(one._members, one._baton)
        with pytest.raises(RuntimeError, match="a defect"):
            campaigns.run()


def test_an_input_without_data_is_left_out_of_each_model(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, MANY)
    models = [model("fast"), model("slow")]
    lacking = spec.inputs[1]
    for (device,) in models:
        measure = device.measure

        def lacks(space: Any, problem: Input, *words: Any, measure: Any = measure) -> Any:
            if problem == lacking:
                raise HostModuleError("no data")
            return measure(space, problem, *words)

        device.measure = lacks  # type: ignore[method-assign]
    with opened(spec, tmp_path / "r.db", models) as campaigns:
        for reports in campaigns.run():
            assert not isinstance(reports, BackendUnavailable)
            assert [r.problem for r in reports if not r.best] == [lacking]
