"""Which results of BASE and CANDIDATE are compared, and what is said of the others."""

from __future__ import annotations

import pytest

from harness.compare.matching import Matched, check_last, match, matching_notes
from harness.compare.reading import KernelResults
from harness.core.errors import UsageError
from harness.core.records import Environment


def results(kernel: str = "mvmul", driver: str = "1", program: str = "p" * 9) -> KernelResults:
    environment = Environment("opencl", "a device", "a platform", driver, "a compiler")
    return KernelResults(kernel, environment, program, {})


def pairs(
    base: list[KernelResults], candidate: list[KernelResults], across: bool = False
) -> list[Matched]:
    return list(match(base, candidate, across))


OLD, NEW, STENCIL = results(driver="1"), results(driver="2"), results("stencil")


def test_the_same_kernels_are_paired_in_the_same_environments() -> None:
    found = pairs([STENCIL, OLD, NEW], [results(driver="2"), results(driver="1")])
    assert [(one.environment.driver, other.environment.driver) for one, other in found] == [
        ("2", "2"),
        ("1", "1"),
    ]
    assert pairs([STENCIL], [OLD]) == []


def test_across_environments_those_tuned_last_are_paired() -> None:
    (found,) = pairs([STENCIL, OLD, NEW], [NEW, OLD], across=True)
    assert found == (OLD, NEW)


def test_a_kernel_without_a_common_environment_is_refused_with_what_differs() -> None:
    with pytest.raises(UsageError, match=r"mvmul was measured .*\n    driver: 1 -> 2\nTune BASE"):
        pairs([OLD], [NEW])


def test_notes_name_what_only_one_side_has_and_which_sources_differ() -> None:
    edited = results(program="q" * 9)
    found = list(matching_notes([STENCIL, OLD], [edited, results("saxpy")], [(OLD, edited)]))
    assert found == [
        "only in BASE: stencil",
        "only in CANDIDATE: saxpy",
        "mvmul: sources differ, pppppppp -> qqqqqqqq",
    ]
    assert list(matching_notes([OLD], [OLD], [(OLD, OLD)])) == []
    assert list(matching_notes([OLD], [NEW], [(OLD, NEW)])) == ["mvmul: driver differs: 1 -> 2"]


def test_environments_that_base_lacks_are_named() -> None:
    again = results(driver="1")
    found = matching_notes([STENCIL, OLD], [NEW, again], [(OLD, again)])
    assert "only in CANDIDATE: mvmul with driver 2" in found
    assert list(matching_notes([OLD, NEW], [NEW, again], [(OLD, again)])) == []


def test_copies_alone_are_no_comparison_where_the_last_environment_is_new() -> None:
    copy = results(driver="1")
    base, candidate, matched = [STENCIL, OLD], [STENCIL, NEW, copy], [(OLD, copy)]
    with pytest.raises(UsageError, match="driver: 1 -> 2"):
        check_last(base, candidate, matched, fresh=())
    check_last(base, candidate, matched, fresh={"mvmul"})
    check_last(base, [STENCIL, copy, NEW], matched, fresh=())
