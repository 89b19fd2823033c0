"""Which results are compared, and the words of a comparison, on rows made by hand."""

from __future__ import annotations

import dataclasses

import pytest
from rich.console import Console

from harness.compare.comparison import ComparedRow, Comparison, Rules
from harness.compare.matching import check_last, match, matching_notes
from harness.compare.reading import KernelResults
from harness.compare.statistics import Change, Verdict
from harness.compare.table import comparison_table, sentence, summary, times
from harness.core.errors import UsageError
from harness.core.records import Config, Environment, Input, Measurement, Outcome, Timing
from harness.stats import Estimate

ENVIRONMENT = Environment("opencl", "a device", "a platform", "1.0", "a compiler")
RULES = Rules(level=0.05, threshold=0.01, run_noise=0.005)


def measured(time_s):
    return Measurement(Config({"B": 1}), Input({"n": 1}), Outcome.OK, Timing((time_s,) * 3))


def row(n=1, verdict=Verdict.WITHIN_NOISE, high=1.05):
    """A tested row whose ratio is 1, with this upper bound."""
    change = Change(Estimate(1.0, 0.9, high), 0.5, Verdict.WITHIN_NOISE)
    sides = measured(1e-3), measured(2e-3)
    problem = Input({"n": n})
    return ComparedRow("small", ENVIRONMENT, problem, "best", *sides, verdict, change)


def missing(n, reason="measured only in BASE"):
    return ComparedRow("small", ENVIRONMENT, Input({"n": n}), "best", notes=(reason,))


def comparison(*rows, rules=RULES):
    return Comparison(rows, rules)


def text_of(*rows):
    console = Console(width=150)
    with console.capture() as captured:
        console.print(comparison_table(comparison(*rows)))
    return captured.get()


def test_large_ratios_lose_their_decimals():
    shown = list(map(times, (1.05, 999.96, 1000, 4567)))
    assert shown == ["1.050x", "999.960x", "1,000x", "4,570x"]


def test_four_inputs_that_are_not_compared_are_listed_and_more_are_counted():
    four = text_of(row(), *map(missing, range(2, 6)))
    assert "not compared, measured only in BASE: (n=2), (n=3), (n=4), (n=5)\n" in four
    for count in (1, 2):
        more = text_of(row(), *map(missing, range(2, 6 + count)))
        assert f"(n=2), (n=3), (n=4), (n=5) and {count} more\n" in more
    assert "measured only" not in text_of(row())


def test_summary_counts_regressions_first():
    rows = [row(1), row(2, Verdict.FIXED), row(3, Verdict.FASTER), row(4, Verdict.BROKEN)]
    found = summary(comparison(*rows, row(5, Verdict.SLOWER)))
    assert found.startswith("1 slower, 1 works no more, 1 faster, 1 within noise, 1 works now; ")


def test_summary_says_what_may_have_been_missed():
    for high, missed, advice in (
        (1.0, "no slowdown could have been missed", False),
        (1.1, "slowdowns of up to 1.100x could have been missed (small, n=1, best)", False),
        (1.11, "slowdowns of up to 1.110x could have been missed (small, n=1, best)", True),
    ):
        words = summary(comparison(row(high=high))).split("; ")
        assert words[1] == missed
        assert len(words) == (3 if advice else 2)


def test_advice_on_a_rerun_is_about_the_rerun():
    again = dataclasses.replace(RULES, is_rerun=True)
    assert "use more --occasions" in summary(comparison(row(high=1.5), rules=again))
    assert "--rerun" in summary(comparison(row(high=1.5)))


def test_summary_without_tests_says_so():
    assert summary(comparison(missing(1))) == "1 not compared; nothing was tested"
    assert summary(comparison(row(verdict=Verdict.SLOWER))) == "1 slower"


def test_a_sentence_has_the_limit_where_nothing_is_clear():
    within = sentence(row())
    assert within == (
        "n=1: best within noise, 1.000x [0.900x, 1.050x], 1.00 ms -> 2.00 ms; "
        "not slower than 1.050x"
    )
    assert "not slower" not in sentence(row(verdict=Verdict.SLOWER))
    assert sentence(missing(1)) == "n=1: best not compared; measured only in BASE"


# ----------------------------------------------------------------------------------- reports


# --------------------------------------------------------------------- which results are compared


def results(kernel="mvmul", driver="1", program="p" * 9):
    environment = Environment("opencl", "a device", "a platform", driver, "a compiler")
    return KernelResults(kernel, environment, program, {})


OLD, NEW, STENCIL = results(driver="1"), results(driver="2"), results("stencil")


def test_across_environments_those_tuned_last_are_paired():
    assert list(match([STENCIL, OLD, NEW], [NEW, OLD], True)) == [(OLD, NEW)]


def test_notes_name_what_only_one_side_has_and_which_sources_differ():
    edited = results(program="q" * 9)
    found = list(matching_notes([STENCIL, OLD], [edited, results("saxpy")], [(OLD, edited)]))
    assert found == [
        "only in BASE: stencil",
        "only in CANDIDATE: saxpy",
        "mvmul: sources differ, pppppppp -> qqqqqqqq",
    ]
    assert list(matching_notes([OLD], [OLD], [(OLD, OLD)])) == []
    assert list(matching_notes([OLD], [NEW], [(OLD, NEW)])) == ["mvmul: driver differs: 1 -> 2"]


def test_copies_alone_are_no_comparison_where_the_last_environment_is_new():
    copy = results(driver="1")
    base, candidate, matched = [STENCIL, OLD], [STENCIL, NEW, copy], [(OLD, copy)]
    with pytest.raises(UsageError, match="driver: 1 -> 2"):
        check_last(base, candidate, matched, fresh=())
    check_last(base, candidate, matched, fresh={"mvmul"})
    check_last(base, [STENCIL, copy, NEW], matched, fresh=())
