"""harness compare --rerun: both sides measured together, on a machine whose noise is scripted."""

import json
import math
import random
import shutil
from collections.abc import Callable

import pytest

from harness.compare.reading import read_kernel_results
from harness.compare.rerun import RerunSide, check_rerun_database, plan_rerun
from harness.core.errors import HostModuleError, UsageError
from harness.core.records import (
    Environment,
    Measurement,
    Outcome,
    StopReason,
    Timing,
)
from harness.measure.occasions import split_rounds
from tests.helpers.commands import analyse
from tests.helpers.commands import compare as main
from tests.helpers.compared import ENVIRONMENT, SPACE, run, tuned
from tests.helpers.replays import make_spec
from tests.helpers.results_examples import query

SLOWER = dict.fromkeys((8, 16, 32, 64), 1.05)
TIMES_S = {16: 1e-3, 64: 2e-3}
"""Of the best block, and of the default."""


class Machine:
    """A machine with a clock: `burden` is a factor of every time from the given second on."""

    def __init__(self, begins_s=math.inf, burden=1.0, load=0.0):
        self.clock_s, self.rng = 0.0, random.Random(0)
        self._begins_s, self._burden, self._load = begins_s, burden, load

    def loaded(self):
        """Return the offset of a load of code, as a factor."""
        return math.exp(self._load * self.rng.gauss(0, 1))

    def run(self, time_s):
        time_s *= 1 + 1e-3 * self.rng.gauss(0, 1)
        time_s *= self._burden if self.clock_s >= self._begins_s else 1.0
        self.clock_s += time_s
        return time_s


class Side:
    """A measurer of one side's sources; `slower` multiplies its times."""

    limits = None
    compiler = None
    is_replay = False
    environment = ENVIRONMENT
    notices = ("other processes use this GPU",)

    def __init__(self, machine, slower=1.0, fails=""):
        self.asked = []
        self.closed = False
        self._machine, self._slower, self._fails = machine, slower, fails

    def measure_interleaved(
        self,
        space,
        problem,
        configs,
        rounds,
        seeds,
    ):
        assert split_rounds(rounds, seeds)[0].is_reloaded
        self.asked.append((problem, list(configs)))
        if self._fails == f"Ctrl-C on {problem['n']}":
            raise KeyboardInterrupt
        if self._fails == "host":
            raise HostModuleError("kernel.py: no data")
        if self._fails:
            return [Measurement(c, problem, Outcome.CRASHED, message="gone") for c in configs]
        offsets = [self._machine.loaded() for _ in configs]
        times_s = [self._slower * offset * TIMES_S[config["BLOCK"]]
                   for config, offset in zip(configs, offsets, strict=True)]  # fmt: skip
        rows = [list(map(self._machine.run, times_s)) for _ in range(rounds)]
        measured = []
        for config, samples_s in zip(configs, zip(*rows, strict=True), strict=True):
            timing = Timing(samples_s, StopReason.INTERLEAVED)
            measured.append(Measurement(config, problem, Outcome.OK, timing))
        return measured

    def close(self):
        self.closed = True


Open = Callable[..., None]


@pytest.fixture
def opens(monkeypatch):
    """Open these measurers for BASE and CANDIDATE, in this order."""

    def use(base, candidate):
        def open_measurer(spec, requested, beside, devices):
            """The second side runs in the process of the first."""
            return {None: base, base: candidate}[beside], "why"

        monkeypatch.setattr("harness.commands.compare.open_measurer", open_measurer)
        monkeypatch.setattr("harness.compare.rerun.fitted_to", lambda spec, measurer: spec)

    return use


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A space, and two databases of it: in candidate.db all is 5 % slower, from the machine."""
    folder = tmp_path_factory.mktemp("rerun")
    tuned(folder, "base.db", seed=1)
    tuned(folder, "candidate.db", seed=2, slower=SLOWER)
    return folder


def rerun(folder, out, *more, space="space.yaml"):
    """Run the command; return the exit status and its JSON."""
    words = [str(folder / "base.db"), str(folder / "candidate.db")]
    stored = ["--rerun-database", str(out / "rerun.db")]
    return run(*words, "--rerun", str(folder / space), *stored, *more)


def both(opens, machine, **candidate):
    """Open two measurers on one machine; `candidate` is what is different about the second."""
    opens(Side(machine), Side(machine, **candidate))


def verdicts(data):
    return {row["verdict"] for row in data["comparisons"]}


def test_a_burden_that_begins_during_the_candidate_is_no_regression_of_a_rerun(
    folder, tmp_path, opens
):
    edited = tuned(tmp_path, "edited.db", seed=2, slower=SLOWER, function="edited")
    assert main([folder / "base.db", edited]) == 1
    for begins_s in (0.1, 0.4):
        both(opens, Machine(begins_s, burden=1.3))
        status, data = rerun(folder, tmp_path)
        assert (status, verdicts(data)) == (0, {"within noise"})
        assert data["upper_limit"] < 1.2


def test_a_kernel_that_became_slower_is_found_beside_a_burden(folder, tmp_path, opens, capsys):
    machine = Machine(0.3, burden=1.3, load=0.005)
    sides = Side(machine), Side(machine, slower=1.05)
    opens(*sides)
    status, data = rerun(folder, tmp_path)
    assert (status, verdicts(data)) == (1, {"slower"})
    for row in data["comparisons"]:
        assert row["low"] < 1.05 < row["high"]
        assert row["base"]["samples"] == 10 * 4
    assert "10 occasions of 4 rounds" in capsys.readouterr().err
    assert all(side.closed for side in sides)


def test_a_rerun_has_twice_the_repeats_of_the_space_over_all_occasions(folder):
    spec = make_spec(folder, SPACE)
    (results,) = read_kernel_results(str(folder / "base.db"))
    side = RerunSide("BASE", "base.db", results, spec, None)
    assert spec.measure.repeats == 20
    assert [side.rounds(occasions) for occasions in (4, 10, 19, 20, 40)] == [10, 4, 3, 2, 2]


def test_each_side_measures_in_random_order(folder, tmp_path, opens):
    machine = Machine()
    sides = Side(machine), Side(machine)
    opens(*sides)
    rerun(folder, tmp_path, "--occasions", "6")
    for side in sides:
        assert [given["n"] for given, _ in side.asked] == sorted([8, 16, 32, 64] * 6)
        assert {configs[0]["BLOCK"] for _, configs in side.asked} == {16, 64}


def test_a_rerun_changes_neither_database(folder, tmp_path, opens):
    compared = [folder / "base.db", folder / "candidate.db"]
    before = [database.read_bytes() for database in compared]
    both(opens, Machine())
    rerun(folder, tmp_path, "--occasions", "3")
    assert [database.read_bytes() for database in compared] == before
    stored = tmp_path / "rerun.db"
    sql = "SELECT count(*), count(DISTINCT tuning_run_id) FROM measurements JOIN result USING (id)"
    shares = query(stored, f"{sql} GROUP BY group_uuid")
    assert shares == [(4, 2)] * 12, "both sides of an occasion share its turn"
    labels = "SELECT DISTINCT name, technique, state FROM runs JOIN tuning_run USING (id)"
    assert query(stored, labels) == [
        (f"rerun of {side}", "rerun", "COMPLETE") for side in ("BASE", "CANDIDATE")
    ]


def test_an_interrupted_rerun_ends_its_runs(folder, tmp_path, opens):
    both(opens, Machine(), fails="Ctrl-C on 32")
    with pytest.raises(json.JSONDecodeError):  # an interrupted command prints nothing
        rerun(folder, tmp_path, "--occasions", "3")
    states = "SELECT state, count(*), count(end_date) FROM tuning_run GROUP BY state"
    assert query(tmp_path / "rerun.db", states) == [("ABORTED", 4, 4), ("COMPLETE", 4, 4)]


def test_analyse_says_what_the_database_of_a_rerun_holds(folder, tmp_path, opens, capsys):
    both(opens, Machine())
    rerun(folder, tmp_path, "--occasions", "3")
    capsys.readouterr()
    assert analyse([tmp_path / "rerun.db"]) == 0
    assert "`harness compare --rerun`" in capsys.readouterr().out


def test_a_rerun_is_never_stored_in_a_compared_database(folder, tmp_path):
    for name in ("base.db", "candidate.db"):
        status, data = rerun(folder, tmp_path, "--rerun-database", str(folder / name))
        assert status == 2
        assert name in data["error"]


def test_sources_that_are_not_at_hand_are_named(folder, tmp_path, opens):
    shutil.copy(folder / "base.db", tmp_path)
    tuned(tmp_path, "candidate.db", seed=3, space=f"{SPACE}verify: {{rtol: 0.01}}\n")
    status, data = rerun(tmp_path, tmp_path)
    assert status == 2
    assert "--base-space" in data["error"]
    both(opens, Machine(), slower=1.1)
    old = str(folder / "space.yaml")
    status, data = rerun(tmp_path, tmp_path, "--base-space", old)
    assert (status, verdicts(data)) == (1, {"slower"})
    assert any("sources differ" in note for note in data["notes"])
    programs = "SELECT count(DISTINCT program_sha256) FROM runs JOIN spaces ON space_id = spaces.id"
    assert query(tmp_path / "rerun.db", programs) == [(2,)]


def test_a_database_by_url_is_told_from_those_compared():
    compared = ["postgresql://host/old", "old.db"]
    for place in ("postgresql://host/new", "new.db"):
        check_rerun_database(place, compared)
    for place in ("postgresql://host/old", "./old.db", "old.db"):
        with pytest.raises(UsageError, match="which is compared"):
            check_rerun_database(place, compared)


def test_two_spaces_of_one_name_are_refused(folder):
    database, space = str(folder / "base.db"), folder / "space.yaml"
    with pytest.raises(UsageError, match="both named small"):
        plan_rerun(database, database, [space, space])


def test_without_named_spaces_those_of_the_kernels_are_taken(folder, tmp_path, monkeypatch):
    base, candidate = str(folder / "base.db"), str(folder / "candidate.db")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"small\.yaml not found"):
        plan_rerun(base, candidate, [])
    (tmp_path / "spaces").mkdir()
    space = make_spec(tmp_path / "spaces", SPACE).path
    space.rename(space.with_name("small.yaml"))
    ((old, new),) = plan_rerun(base, candidate, [], kernel="small")
    assert (old.name, old.database) == ("BASE", base)
    assert (new.name, new.database) == ("CANDIDATE", candidate)
    assert old.spec == new.spec
    assert old.of(ENVIRONMENT) is old.results[0]
    other = tuned(tmp_path, "other.db", seed=3, space=SPACE.replace("name: small", "name: other"))
    with pytest.raises(UsageError, match="BASE holds small"):
        plan_rerun(base, other, [])
    assert plan_rerun(base, candidate, [space.with_name("small.yaml")], kernel="other") == []


def test_a_base_space_of_another_kernel_is_refused(folder, tmp_path):
    other = make_spec(tmp_path, SPACE.replace("name: small", "name: other")).path
    status, data = rerun(folder, tmp_path, "--base-space", str(other))
    assert status == 2
    assert "other is no kernel" in data["error"]
    words = [str(folder / "base.db"), str(folder / "candidate.db"), "--base-space", str(other)]
    assert main(words) == 2, "without --rerun"


def test_a_candidate_that_fails_works_no_more(folder, tmp_path, opens):
    for fails, note in (("crash", "crashed (may be chance): gone"), ("host", "kernel.py: no data")):
        machine = Machine()
        candidate = Side(machine, fails=fails)
        opens(Side(machine), candidate)
        status, data = rerun(folder, tmp_path, "--occasions", "3")
        assert (status, verdicts(data)) == (1, {"works no more"})
        assert [row["notes"] for row in data["comparisons"]] == [[note]] * 8
        assert len(candidate.asked) == 4, "what failed is not tried again"


def test_a_base_that_is_not_measured_is_an_error(folder, tmp_path, opens):
    opens(Side(Machine(), fails="host"), Side(Machine()))
    status, data = rerun(folder, tmp_path)
    assert (status, data["error"]) == (2, "kernel.py: no data")


def test_a_winner_not_in_the_space_is_an_error(folder, tmp_path, opens):
    make_spec(tmp_path, SPACE.replace("values: [16, 64]", "values: [32, 64]"))
    both(opens, Machine())
    status, data = rerun(folder, tmp_path, space=str(tmp_path / "space.yaml"))
    assert status == 2
    assert "(BLOCK=16) of BASE is illegal on (n=8)" in data["error"]


def test_results_of_another_driver_are_measured_now_and_noted(tmp_path, opens):
    older = Environment("replay", "a device", "a platform", "0.9", "a compiler")
    tuned(tmp_path, "base.db", seed=1, environment=older)
    tuned(tmp_path, "candidate.db", seed=2)
    both(opens, Machine())
    status, data = rerun(tmp_path, tmp_path, "--occasions", "3")
    assert status == 0
    assert any("driver 0.9" in note for note in data["notes"])
    assert data["notes"].count("other processes use this GPU") == 1
