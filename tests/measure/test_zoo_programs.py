"""Programs that fake speed, each refused with the right reason, beside honest ones that are not.

They were written after what is published of agents and of tuned programs that cheat.
"""

from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from harness.core.errors import HostModuleError
from harness.core.records import Config, Input, Outcome
from harness.measure.programs import building
from harness.measure.programs.measurer import ProgramMeasurer
from harness.measure.programs.sandbox import run_command
from harness.space_file import load_spec
from harness.stats.interleaved import is_shown
from tests import DATA
from tests.helpers.fake_kernels import measure_programs_here
from tests.helpers.planted import assert_failed, assert_ok, space_of

ZOO = DATA / "zoo/programs"
NAMES = sorted(path.stem for path in ZOO.glob("*.sh") if path.stem != "common")
SPACE = f"""\
name: zoo
program:
  sources: [{ZOO}/honest.sh]
  run: [sh, "{ZOO}/{{WHO}}.sh"]
  environment: {{HOME: "HOME_FOLDER", ZOO_CLOCK: "CLOCK", ZOO_TEMP: "TEMP_FOLDER"}}
  time: {{pattern: 'took (\\S+) s', unit: s}}
parameters:
  WHO: {{values: [{", ".join(NAMES)}], default: honest}}
inputs: {{features: [n], values: [{{n: 1}}]}}
measure: {{repeats: 4, min_repeats: 4, warmup: 1}}
"""
GIVEN = Input({"n": 1})


@pytest.fixture
def open_zoo(tmp_path, monkeypatch):
    """Opens a space that runs the programs for real, on a clock that only `spend` moves."""
    clock = tmp_path / "clock"

    def clocked(*words):
        clock.write_text("")
        result = run_command(*words)
        spent_s = sum(map(float, clock.read_text().split()))
        return replace(result, wall_s=spent_s, cpu_s=spent_s)

    monkeypatch.setattr(building, "run_command", clocked)
    measure_programs_here(monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "settings_of_user").touch()

    @contextmanager
    def opened(text):
        text = text.replace("HOME_FOLDER", str(tmp_path / "home")).replace('CLOCK"', f'{clock}"')
        (tmp_path / "zoo.yaml").write_text(text.replace("TEMP_FOLDER", str(tmp_path)))
        spec = load_spec(tmp_path / "zoo.yaml")
        with closing(ProgramMeasurer(spec)) as measurer:
            yield measurer, space_of(spec, measurer, GIVEN)

    return opened


def measure_in(measurer, space):
    """Return what measures one program of the zoo."""
    return lambda who: measurer.measure(space, GIVEN, Config({"WHO": who}), None)


def beside_default(measurer, space, who):
    both = [Config({"WHO": who}), space.default]
    return measurer.measure_interleaved(space, GIVEN, both, 4, (2, 3))


REFUSED = {
    "ends_early": "`took`, expected `1`",
    "outlived": "1 of its processes still ran",
    "copies_reference": "exit status 1",
    "replaces_reference": "`took`, expected `7`",
    "zero_output": "16 of 24",
    "skipped_tail": "line 7, word 1",
    "lower_precision": "is 0.3333",
    "rarely_wrong": "is 27, expected 28",
}

MADE_UP = {"made_up_2": "no sooner", "made_up_20": "no sooner", "own_part": "10.0 ms sooner"}
"""Programs that report other times than theirs, and when their processes end."""

REMEMBERED = {"cached": 1, "half_cached": 1, "cached_later": 2}
"""Programs that copy what an earlier run of theirs left in a folder that the space names; in which
measurement."""

AT_HOME = ("cheating_default", "copies_default", "slows_default")
"""Programs that leave files in the home folder of the user, for one another."""

HONEST = {
    "honest": 1,
    "honest_15": 15,
    "honest_3": 3,
    "honest_warm": 5,
    "honest_helper": 5,
    "honest_settings": 1.77,
    "honest_home": 1.77,
    "honest_disturbed": 1.77,
}
"""Programs that do all their work, and how much faster than the default they do it."""


def test_every_program_of_the_zoo_is_tried():
    others = {"two_times", "replaces_programs", *AT_HOME}
    assert {*REFUSED, *MADE_UP, *REMEMBERED, *HONEST} | others == set(NAMES)


def test_cheats_are_refused_with_their_reasons(open_zoo):
    with open_zoo(SPACE) as opened:
        measure = measure_in(*opened)
        for who, reason in REFUSED.items():
            found = measure(who)
            assert_failed(found, Outcome.WRONG_RESULT, reason)
        assert measure("two_times").outcome is Outcome.LAUNCH_FAILED


def test_made_up_times_are_no_claim_beside_the_default(open_zoo):
    with open_zoo(SPACE) as opened:
        for who, end in MADE_UP.items():
            found, default = beside_default(*opened, who)
            assert (is_shown(found), is_shown(default)) == (False, True)
            assert end in found.message


@pytest.mark.parametrize("who", REMEMBERED)
def test_a_seed_finds_what_a_program_remembers(open_zoo, who):
    text = SPACE.replace('.sh"]', '.sh", "{seed}"]').replace(
        "inputs:", f"verify: {{against: {{host: {ZOO}/check.py}}}}\ninputs:"
    )
    with open_zoo(text) as opened:
        measure = measure_in(*opened)
        for _ in range(REMEMBERED[who] - 1):
            assert_ok(measure(who))
        found = measure(who)
    assert_failed(found, Outcome.WRONG_RESULT, "third 0.333333333` is not there")


def test_honest_programs_are_as_fast_as_they_say(open_zoo):
    with open_zoo(SPACE) as opened:
        measure = measure_in(*opened)
        default = measure("honest")
        for who, speedup in HONEST.items():
            found = measure(who)
            assert_ok(found)
            assert default.time_s / found.time_s == pytest.approx(speedup, rel=0.02), who
            interleaved, _ = beside_default(*opened, who)
            assert is_shown(interleaved), interleaved.message


def test_a_program_finds_no_reference_and_no_other_program_to_replace(open_zoo):
    with open_zoo(SPACE) as opened:
        measure_in(*opened)("replaces_reference")
        found, default = beside_default(*opened, "replaces_programs")
    assert (found.outcome, default.outcome) == (Outcome.OK, Outcome.OK)
    assert default.time_s == pytest.approx(0.1)


def test_program_finds_nothing_at_home_that_an_earlier_run_has_left(
    open_zoo, tmp_path, monkeypatch
):
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    text = SPACE.replace("default: honest", "default: cheating_default")
    with open_zoo(text.replace('HOME: "HOME_FOLDER", ', "")) as opened:
        measure = measure_in(*opened)
        for who in (*AT_HOME, "cheating_default"):
            found = measure(who)
            assert_ok(found)
            assert found.time_s == pytest.approx(0.1)
    assert [path.name for path in home.iterdir()] == ["settings_of_user"]


def test_default_without_its_home_folder(open_zoo, monkeypatch):
    monkeypatch.setenv("HOME", "/home/user")
    text = SPACE.replace("default: honest", "default: honest_home")
    with (
        open_zoo(text.replace('HOME: "HOME_FOLDER", ', "")) as opened,
        pytest.raises(HostModuleError, match=r"environment: \{HOME: /home/user\}"),
    ):
        measure_in(*opened)("honest")


def test_home_folder_is_of_desktops(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/user/.cache")
    found = building.home_variables(tmp_path)
    assert found["HOME"] == found["XDG_CACHE_HOME"] == str(tmp_path)
    assert "XDG_DATA_HOME" not in found
