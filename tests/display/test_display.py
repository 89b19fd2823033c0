"""Numbers with units, tables that fit, progress on terminals and in logs."""

import io
import math
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

import harness
from harness.analysis.inputs import InputReport
from harness.core.records import Config, Environment, Input, Measurement, Outcome, Timing
from harness.core.text import format_time
from harness.display import inputs as inputs_table
from harness.display.inputs import baselines_section, health_line, print_inputs
from harness.display.progress import ProgressDisplay
from harness.display.text import (
    format_outcomes,
    format_ratio,
    format_share,
    format_timing,
    make_console,
    make_table,
)
from harness.results import RunPlan
from harness.search import Progress
from harness.stats.timing import TimeRatio
from tests.helpers.replays import make_spec

DEFAULT = Config({"BLOCK": 256, "TILE": 1})
BEST = Config({"BLOCK": 64, "TILE": 4})
NO_DEFAULT = Config({})
GIVEN = Input({"m": 64, "n": 4096})
CLEAR, CHANCE = TimeRatio(2.0, 1.9, 2.1, 20), TimeRatio(1.01, 0.97, 1.06, 20)


def ok(config, *samples_s):
    return Measurement(config, GIVEN, Outcome.OK, Timing(samples_s))


def failed(config, outcome=Outcome.BUILD_FAILED):
    return Measurement(config, GIVEN, outcome, message="as it is")


def report(speedup=CLEAR, best=None, outcomes=None, legal=1234, ties=3, shared=0):
    best = best or ok(BEST, 1.00e-3, 1.02e-3, 0.98e-3)
    counts = outcomes or {Outcome.OK: 20}
    baseline = ok(DEFAULT, 2e-3, 2.1e-3)
    return InputReport(GIVEN, best, baseline, speedup, ties, counts, legal, shared=shared)


def printed(*reports, width=140, default=DEFAULT):
    """The table of inputs, as it is printed."""
    stream = io.StringIO()
    print_inputs(Console(file=stream, width=width, highlight=False), reports, default)
    return stream.getvalue()


def on_one_line(*reports, **options):
    return " ".join(printed(*reports, **options).split())


def baselines_of(*reports):
    table = baselines_section(reports, {}).table
    return table.head, table.rows


def test_noisy_times_are_counted_in_a_warning_that_says_what_helps():
    quiet = replace(report(), baseline=ok(DEFAULT, 2e-3, 2.01e-3, 2.02e-3))
    noisy = replace(quiet, best=ok(BEST, 1e-3, 5e-3, 1e-3, 9e-3))
    assert "Timings are noisy" not in printed(quiet)
    text = on_one_line(quiet, noisy)
    assert "Timings are noisy on 1 of 2 inputs (interval wider than +- 25 %)" in text
    assert "--repeats" in text


# ------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    "seconds, text",
    [
        (412e-6, "412 us"), (1.1e-3, "1.10 ms"), (12.34e-3, "12.3 ms"), (999.4e-6, "999 us"),
        (999.6e-6, "1.00 ms"), (9.996e-3, "10.0 ms"), (99.96e-3, "100 ms"), (0.99951, "1.00 s"),
        (1.0, "1.00 s"), (123.4, "123 s"), (999.6e-9, "1.00 us"), (1e-9, "1.00 ns"),
        (0.42e-9, "0.42 ns"), (0.0, "0 s"), (math.inf, "inf s"),
    ],
)  # fmt: skip
def test_times_have_three_digits_and_the_unit_that_people_read(seconds, text):
    assert format_time(seconds) == text


@pytest.mark.parametrize(
    "shown, text",
    [
        # A timing is its median and the interval of its mean; a single sample has no interval.
        (format_timing(Timing((412e-6, 414e-6, 410e-6))), "412 us +- 5.0 us"),
        (format_timing(Timing((1e-3, 1e-3))), "1.00 ms +- 0 s"),
        (format_timing(Timing((1e-3,) * 9 + (1.0,))), "1.00 ms +- 230 ms"),  # an outlier
        (format_timing(Timing((1e-3,))), "1.00 ms"),
        # Shares have two digits and no exponent.
        (format_share(1.372), "140 %"), (format_share(0.996), "100 %"),
        (format_share(0.283), "28 %"), (format_share(0.0283), "2.8 %"),
        (format_share(0.000283), "0.028 %"), (format_share(12.34), "1,200 %"),
        (format_share(0.0), "0 %"), (format_share(math.inf), "inf %"),
        # A ratio inside the noise is called that.
        (format_ratio(CLEAR), "2.00x [1.90, 2.10]"),
        (format_ratio(CHANCE), "1.01x [0.97, 1.06] within noise"),
        (format_ratio(TimeRatio(2.0, 0.0, math.inf, 1)), "2.00x [0.00, inf] within noise"),
        # Outcomes are counted with ok first and without zeros.
        (format_outcomes({Outcome.TIMEOUT: 1, Outcome.OK: 7, Outcome.CRASHED: 0}),
         "7 ok, 1 timeout"),
        (format_outcomes({}), ""),
    ],
)  # fmt: skip
def test_numbers_are_shown_as_people_read_them(shown, text):
    assert shown == text


# --------------------------------------------------------------------------------- table


def test_shared_measurements_are_counted():
    assert "Shared: 17 configurations" in printed(report(shared=12), report(shared=5))
    assert "Shared: 1 configuration " in printed(report(shared=1))
    assert "hared" not in printed(report())


def test_a_line_says_how_healthy_the_winner_is():
    spills = replace(ok(BEST, 1e-3), observed={"spill_bytes": 192.0})
    outcomes = {Outcome.OK: 92, Outcome.TIMEOUT: 4}
    healthy = replace(report(outcomes=outcomes), worst=23.04)
    sick = replace(healthy, best=spills, worst=1.5)
    alone = replace(healthy, worst=1.0)
    slowest = "as long as the best; of 96 tests, 4 failed."
    both = (
        "1 of 2 best configurations spill up to 48 registers. The slowest took up to 23x as long "
        "as the best; of 192 tests, 8 failed."
    )
    for reports, line in (
        ([healthy], f"The slowest took 23x {slowest}"),
        (
            [sick],
            f"The best spills 48 registers. The slowest took 1.5x {slowest}",
        ),
        ([sick, healthy], both),
        ([alone], "Of 96 tests, 4 failed."),
        ([report()], ""),
    ):
        assert health_line(reports) == line
    assert both in on_one_line(sick, healthy)


@pytest.mark.parametrize("width", [80, 140])
def test_an_input_on_which_nothing_worked_says_so(width):
    nothing = InputReport(GIVEN, None, None, None, 0, {Outcome.CRASHED: 4}, 100)
    text = on_one_line(nothing, width=width)
    assert "nothing worked" in text
    assert "Failed: 4 crashed" in text


def test_a_default_that_is_best_has_no_speed_up():
    same = ok(DEFAULT, 2e-3, 2.1e-3)
    text = printed(report(best=same, speedup=TimeRatio(1.0, 1.0, 1.0, 2)))
    assert "default is best" in text
    assert "1.00x" not in text


def test_a_best_that_may_be_as_fast_as_the_default_is_the_default():
    row = next(line for line in printed(report(CHANCE)).splitlines() if "m=64" in line)
    assert row.split()[-2:] == ["within", "noise"]
    assert row.split()[2] == "default"
    assert row.count("2.05 ms +- 640 us") == 2
    assert report(CHANCE).recommended == report(CHANCE).baseline
    assert report(CLEAR).recommended == report(CLEAR).best


@pytest.mark.parametrize("width", [80, 140])
def test_brackets_are_no_markup_and_what_could_control_a_terminal_is_escaped(width):
    default = Config({"LAYOUT": "[red]", "OTHER": "[/]"})
    best = ok(Config({"LAYOUT": "[bold]\x1b[31m", "OTHER": "[/]"}), 1e-3)
    text = on_one_line(report(best=best), width=width, default=default)
    assert "LAYOUT=[bold]\\x1b[31m" in text
    assert "(LAYOUT=[red], OTHER=[/])" in text
    assert "\x1b" not in text


def test_no_other_module_makes_text_for_a_console():
    folder = Path(harness.__file__).parent
    importing = [path for path in folder.rglob("*.py") if "rich.text" in path.read_text()]
    assert {path.relative_to(folder).as_posix() for path in importing} == {"display/text.py"}


@pytest.mark.parametrize("width", [80, 140])
def test_configurations_list_only_changes_from_the_default(width):
    flags = [f"f{number}" for number in range(33)]
    default = Config({**DEFAULT, **dict.fromkeys(flags)})
    best = ok(Config({**default, "f7": True}), 1e-3)
    text = on_one_line(report(best=best), width=width, default=default)
    assert "f7=true" in text
    assert "f8" not in text
    assert "(BLOCK=256, TILE=1, 33 parameters absent)" in text


# ----------------------------------------------------------------------------- baselines


def test_a_failed_baseline_is_listed_with_its_reason():
    wrong = Measurement(BEST, GIVEN, Outcome.WRONG_RESULT, message="y[3] is 7\nand more")
    refused = replace(report(), failed_baselines={"-O3": wrong}, baseline_speedups={"-O1": CLEAR})
    other = replace(
        report(), problem=Input({"m": 1}), baseline_speedups={"-O1": CLEAR, "-O3": CLEAR}
    )
    head, rows = baselines_of(refused, other)
    assert head == ("input", "-O1", "-O3")
    assert [row[2] for row in rows] == ["wrong_result", "2.00x [1.90, 2.10]"]
    reason = "(m=64, n=4096): wrong_result: y[3] is 7"
    for second, text in ((other, "1 of 2 inputs, "), (refused, "2 of 2 inputs, such as ")):
        lines = printed(refused, second).splitlines()
        assert f"The baseline -O3 failed on {text}{reason}" in lines


def test_speedups_over_many_baselines_wrap_and_lose_nothing():
    names = [f"-O{level}" for level in range(6)]
    unsure = TimeRatio(1.0, 0.9, 1.1, 20)
    many = replace(report(), baseline_speedups=dict.fromkeys(names, unsure))
    table = printed(many).split("Baselines")[1]
    assert table.count("[0.90,") == table.count("1.10]") == table.count("noise") == len(names)


@pytest.mark.parametrize("width", [80, 140])
def test_a_failed_default_has_its_outcome_in_the_table(width):
    refused = replace(report(None), baseline=None, failed_baselines={"default": failed(DEFAULT)})
    text = on_one_line(refused, width=width)
    assert text.count("build_failed") == 2, "in the table, and with its reason"
    assert "failed on 1 of 1 input, (m=64, n=4096): build_failed: as it is" in text
    assert " failed on " not in printed(report())


def test_names_of_baselines_are_no_markup_and_what_was_not_measured_is_said():
    name = "[/] [bold]O2[/bold]"
    measured = replace(report(), baseline_speedups={name: CLEAR})
    assert name in printed(measured)
    (_, row) = baselines_of(measured, report())[1]
    assert row[1] == "not measured"


MANY = Config({f"PARAMETER_{number}": 1024 for number in range(8)})


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
@pytest.mark.parametrize("config", [BEST, MANY])
def test_nothing_is_cut_at_any_width(width, config):
    text = printed(report(best=ok(config, 1e-3, 1.1e-3)), report(CHANCE), width=width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    words = text.replace("│", " ").split()
    for name, value in config.items():
        assert f"{name}={value}" in [word.strip(",") for word in words]
    assert width < 80 or "1.05 ms +- 640 us" in text


@pytest.mark.parametrize("inputs", [24, 48])
def test_a_table_stays_a_table_at_80_columns(inputs):
    lines = printed(*[report()] * inputs, width=80).splitlines()
    assert len([line for line in lines if "m=64, n=4096" in line]) == inputs
    assert all("BLOCK=64, TILE=4" in line for line in lines if "m=64" in line)
    assert "2.05 ms" not in printed(report(), width=80)  # the default's time is left out
    assert "2.05 ms" in printed(report(), width=100)


# ------------------------------------------------------------------------------ progress


def make_progress(folder, *found):
    environment = Environment("replay", "d", "p", "v", "c")
    plan = RunPlan(make_spec(folder), environment, GIVEN, "auto", 0, len(found), 4, "test", 1)
    progress, best = [], None
    for ordinal, measurement in enumerate(found, start=1):
        if best is None or measurement.time_s < best.time_s:
            best = measurement if measurement.timing else best
        counts = Counter(m.outcome for m in found[:ordinal])
        shared = sum(m.shared_with is not None for m in found[:ordinal])
        progress.append(Progress(plan, ordinal, len(found), measurement, best, 0, counts, shared))
    return progress


@contextmanager
def displaying(terminal=False, **options):
    """A display of progress on a console; and its text so far, as a function."""
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=100, highlight=False)
    with ProgressDisplay(console, **options) as display:
        yield display, stream.getvalue


def shown(folder, *measurements, default=NO_DEFAULT, **options):
    """Print a run: a search, a stage without steps, and a stage of two steps."""
    with displaying(**options) as (display, text):
        display.default = default
        display.begin_stage("[1/2] m=64, n=4096", len(measurements))
        for progress in make_progress(folder, *measurements):
            display.test(progress)
        display.begin_stage("winners on the other inputs", 0)
        display.begin_stage("finalists and the default", 2)
        display.step("one")
        display.step("two [red]")
    return text()


FOUND = (failed(DEFAULT), ok(BEST, 1e-3), ok(DEFAULT, 2e-3, 2.1e-3))


def test_without_a_terminal_progress_is_plain_lines(tmp_path):
    assert shown(tmp_path, *FOUND).splitlines() == [
        "[1/2] m=64, n=4096: 3 to do",
        "[1/2] m=64, n=4096: test 3 of 3, best 1.00 ms (BLOCK=64, TILE=4); 2 ok, 1 build_failed",
        "finalists and the default: 2 of 2, two [red]",
    ]


def test_a_stage_says_how_many_of_its_steps_the_database_may_answer():
    with displaying() as (display, text):
        display.begin_stage("[1/2] n=1", 75, stored=25)
    assert text() == "[1/2] n=1: 75 to do, of which the database may answer 25\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_escapes_what_could_control_a_terminal(terminal):
    with displaying(terminal) as (display, text):
        display.begin_stage("\x1b[45mtitle", 1)
        display.step("\x1b[31mred\u202e")
    assert "\\x1b[45mtitle" in text()
    assert "\\x1b[31mred\\u202e" in text()
    assert "\x1b[31mred" not in text()


def test_progress_lists_changes_from_the_default_and_counts_shared(tmp_path):
    half = Config({"BLOCK": 64, "TILE": 1})
    shared = replace(ok(DEFAULT, 1e-3), shared_with=half.digest)
    found = ok(half, 1e-3), shared
    lines = shown(tmp_path, *found, default=DEFAULT).splitlines()
    assert "best 1.00 ms (BLOCK=64)" in lines[1]
    assert lines[1].endswith("; 2 ok, 1 shared")


def test_long_searches_print_seldom(tmp_path, monkeypatch):
    clock = iter(range(0, 1000, 3))
    # Not the function of the module `time`: threads of other tests would read this clock as well.
    scripted = SimpleNamespace(monotonic=lambda: float(next(clock)))
    monkeypatch.setattr("harness.display.progress.time", scripted)
    lines = shown(tmp_path, *[failed(DEFAULT)] * 6).splitlines()
    tests = [line for line in lines if ": test " in line]
    assert 2 <= len(tests) < 6
    assert tests[0].endswith("none worked yet; 2 build_failed")


def test_many_short_stages_print_one_line_when_each_ends():
    with displaying() as (display, text):
        for number in range(3):
            display.begin_stage(f"default on n={number}", 1)
        display.begin_stage("finalists", 2)
        display.step("one")
        display.step("two")
    assert text().splitlines() == ["default on n=0: 1 to do", "finalists: 2 of 2, two"]


def show_two_devices(folder, terminal):
    """Print a search on each of two devices, and a stage on both together."""
    with displaying(terminal) as (display, text):
        first, second = display.on("device 0"), display.on("device 1")
        first.begin_stage("[1/2] n=1", 3)
        second.begin_stage("[2/2] n=2", 3)
        for progress in make_progress(folder, *FOUND):
            second.test(progress)
            first.test(progress)
        display.begin_stage("finalists", 1)
        display.step("n=1")
    return text()


def test_several_devices_have_lines_or_live_lines_with_their_names(tmp_path):
    best = "test 3 of 3, best 1.00 ms (BLOCK=64, TILE=4); 2 ok, 1 build_failed"
    assert show_two_devices(tmp_path, terminal=False).splitlines() == [
        "device 0 [1/2] n=1: 3 to do",
        f"device 1 [2/2] n=2: {best}",
        f"device 0 [1/2] n=1: {best}",
        "finalists: 1 of 1, n=1",
    ]
    text = show_two_devices(tmp_path, terminal=True)
    for part in ("device 0 [1/2] n=1", "device 1 [2/2] n=2", "finalists"):
        assert part in text


def test_on_a_terminal_progress_is_a_live_line_and_each_best_stays(tmp_path):
    text = shown(tmp_path, *FOUND, terminal=True)
    for part in ("\x1b[", "[1/2] m=64, n=4096", "2/2", "two [red]"):
        assert part in text
    for part in ("to do", "0/0", "finalists and the default: 2 of 2"):
        assert part not in text
    best = "[1/2] m=64, n=4096: test 3 of 3, best 1.00 ms (BLOCK=64, TILE=4); 2 ok, 1 build_failed"
    assert text.count(best) == 1
    assert text.count(": test ") == 1, "other tests are on the live line only"


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_says_nothing(tmp_path, terminal):
    assert shown(tmp_path, *FOUND, terminal=terminal, quiet=True) == ""


def test_a_dumb_terminal_has_lines(tmp_path, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    text = shown(tmp_path, *FOUND, terminal=True)
    assert "\x1b" not in text
    assert "3 to do" in text


def test_a_file_is_wide_unless_columns_says_otherwise(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.StringIO())
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    assert make_console().width == 140
    monkeypatch.setenv("COLUMNS", "90")
    assert make_console().width == 90


def test_a_table_of_very_many_inputs_shows_the_first(monkeypatch):
    assert "harness export" not in printed(report(), report())
    monkeypatch.setattr(inputs_table, "MOST_SHOWN", 2)
    for width in (140, 60):
        text = on_one_line(report(), report(), report(), width=width)
        assert "the first 2 of 3 inputs; `python -m harness export` writes all." in text
        assert text.count("m=64, n=4096") == 2


def test_no_line_of_a_table_ends_in_spaces(capsys):
    rows = [("n=1", "1 ms"), ("n=100", "20 ms")]
    make_console().print(make_table(("input", "time"), rows, left=(0, 1)))
    lines = capsys.readouterr().out.splitlines()
    assert any("20 ms" in line for line in lines)
    assert lines == [line.rstrip() for line in lines]
