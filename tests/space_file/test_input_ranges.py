"""Inputs that are drawn from ranges are spread over them, and meet the condition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from harness.core.errors import SpecError
from harness.core.records import Input
from harness.space_file import load_spec
from harness.space_file.input_ranges import FeatureRange, draw_inputs, draw_unseen

ROOT = Path(__file__).parents[2]


def ranges(**given: Any) -> dict[str, FeatureRange]:
    return {name: FeatureRange.model_validate(each) for name, each in given.items()}


def drawn(count: int, condition: Any = lambda _: True, **given: Any) -> list[Input]:
    return draw_inputs(list(given), ranges(**given), count, condition)


def test_numbers_are_spread_by_ratio_or_evenly() -> None:
    found = [problem["n"] for problem in drawn(5, n={"log": [1, 256]})]
    assert found == [1, 256, 16, 4, 64]
    found = [problem["n"] for problem in drawn(5, n={"linear": [0, 100]})]
    assert found == [0, 100, 50, 25, 75]


def test_more_inputs_begin_with_the_same_ones() -> None:
    given: dict[str, Any] = {"m": {"log": [1, 65536]}, "n": {"linear": [0.5, 2.5]}}
    assert drawn(20, **given)[:7] == drawn(7, **given)
    assert drawn(20, **given) == drawn(20, **given)


def test_the_first_inputs_are_at_the_ends_and_none_is_there_twice() -> None:
    found = drawn(40, m={"log": [1, 65536]}, n={"log": [16, 65536], "multiple_of": 16})
    corners = {(1, 16), (65536, 16), (1, 65536), (65536, 65536)}
    assert {(p["m"], p["n"]) for p in found[:4]} == corners
    assert len(set(found)) == 40
    assert all(type(p["n"]) is int and p["n"] % 16 == 0 for p in found)  # type: ignore[operator]
    assert all(1 <= p["m"] <= 65536 for p in found)  # type: ignore[operator]


def test_each_choice_gets_its_share() -> None:
    found = drawn(40, layout={"choices": ["a", "b"]}, n={"log": [1, 4096]})
    assert sum(problem["layout"] == "a" for problem in found) == 20


def test_thousands_of_choices_need_no_table_of_their_square() -> None:
    found = drawn(3, word={"choices": list(range(100_000))}, n={"linear": [0.0, 1.0]})
    assert [problem["n"] for problem in found[:2]] == [0.0, 1.0]
    assert found[0]["word"] != found[1]["word"]


def test_a_condition_holds_for_all_inputs() -> None:
    found = drawn(30, lambda p: p["m"] * p["n"] <= 4096, m={"log": [1, 4096]}, n={"log": [1, 4096]})
    assert len(found) == 30
    assert all(p["m"] * p["n"] <= 4096 for p in found)  # type: ignore[operator]


def test_a_small_space_is_taken_whole() -> None:
    found = drawn(100, a={"linear": [1, 3]}, b={"choices": [2, 4.5]}, c={"linear": [7.5, 7.5]})
    assert len(found) == 6


def test_a_faulty_range_is_refused() -> None:
    cases = (
        ([1, 2], r"write `{log: \[1, 2\]}`, `{linear:"),
        ({}, "needs one of `linear`, `log` and `choices`, but got none"),
        ({"linear": [1, 2], "log": [1, 2]}, "but got `linear` and `log`"),
        ({"log": [0, 2]}, "`log` needs numbers above 0, but got 0"),
        ({"linear": [3, 2]}, "the smallest comes first"),
        ({"linear": [1, 2, 3]}, "at most 2"),
        ({"linear": [17, 31], "multiple_of": 16}, "no multiple of 16 from 17 to 31"),
        ({"choices": ["a"], "multiple_of": 2}, "does not go with"),
        ({"choices": ["a", "a"]}, "there twice"),
        ({"linear": [1, float("inf")]}, "finite"),
        ({"linear": [-1.7e308, 1.7e308]}, "too wide"),
        ({"log": [1e-300, 1e300]}, "too wide"),
        ({"log": [1, 1e300], "multiple_of": 2}, r"whole numbers lie between -2\*\*53 and 2\*\*53"),
    )
    for given, reason in cases:
        with pytest.raises(ValidationError, match=reason):
            FeatureRange.model_validate(given)


SPACE = """
name: ranges
kernel: {{function: mvmul, source: {{opencl: {kernels}/mvmul.cl}}, host: {kernels}/mvmul.py}}
parameters:
  THRD: {{values: [16], default: 16, role: launch}}
  LU: {{values: [1], default: 1}}
  X_CACHE: {{values: [0], default: 0}}
launch: {{group: [THRD], grid: [m]}}
inputs: {{features: [m, n], {inputs}}}
"""


def written(folder: Path, inputs: str) -> Path:
    path = folder / "space.yaml"
    path.write_text(SPACE.format(kernels=ROOT / "kernels", inputs=inputs))
    return path


def test_a_space_file_draws_its_inputs(tmp_path: Path) -> None:
    text = "ranges: {m: {log: [1, 64]}, n: {log: [1, 64]}}, where: m <= n, count: 6"
    spec = load_spec(written(tmp_path, text))
    assert len(spec.inputs) == 6
    assert all(problem["m"] <= problem["n"] for problem in spec.inputs)  # type: ignore[operator]


def test_faults_name_the_key(tmp_path: Path) -> None:
    cases = {
        "values: [{m: 1, n: 1}], ranges: {}": "needs either `values` or `ranges`, but got both",
        "count: 3": "needs either `values` or `ranges`, but got neither",
        "values: [{m: 1, n: 1}], count: 3": "`count` goes with `ranges`, not with `values`",
        "ranges: {m: {log: [1, 2]}, n: {log: [1, 2]}}": "`ranges` needs `count`",
        "ranges: {m: {log: [1, 2]}}, count: 2": "needs the feature `n`",
        "ranges: {m: {log: [1, 2]}, n: {log: [1, 2]}, k: {log: [1, 2]}}, count: 2": "`k` is not",
        "ranges: {m: {log: [1, 2]}, n: {log: [1, 2]}}, where: q < 1, count: 2": "`q` is not",
        "ranges: {m: {log: [1, 2]}, n: {log: [1, 2]}}, where: m + 1, count: 2": "not a condition",
        "ranges: {m: {log: [1, 2]}, n: {log: [1, 2]}}, where: m <, count: 2": "where",
        "ranges: {m: {log: [1, 2]}, n: {log: [1, 2]}}, where: m < n, count: 2": "only 1 input ",
        "ranges: {m: {log: [1, 2]}, n: {log: [1, 2]}}, where: m < 1, count: 2": "no input was",
        "ranges: {mm: {log: [1]}, n: {log: [1, 2]}}, count: 2": "needs 2 entries, but has 1",
        "ranges: {m: {log: [1, 2]}, n: {log: [1, 2]}}, where: mn < 3, count: 2": "did you mean",
    }
    for inputs, fault in cases.items():
        with pytest.raises(SpecError) as error:
            load_spec(written(tmp_path, inputs))
        assert fault in str(error.value)
        assert "space.yaml:" in str(error.value)


def unseen(count: int, inputs: list[dict[str, Any]], condition: Any = None, **given: Any) -> Any:
    listed = [Input(each) for each in inputs]
    return draw_unseen(listed, ranges(**given), count, condition or (lambda _: True))


def is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def test_unseen_inputs_are_new_odd_often_prime_and_not_larger() -> None:
    listed = [{"m": 16, "n": 65536}, {"m": 65536, "n": 16}, {"m": 1024, "n": 1024}]
    found = unseen(8, listed)
    assert len(set(found)) == 8
    assert all(p["m"] % 2 and p["n"] % 2 for p in found)
    assert sum(is_prime(p["m"]) or is_prime(p["n"]) for p in found[:4]) == 4
    assert all(16 <= p["m"] <= 65536 and p["m"] * p["n"] <= 2**20 for p in found)
    assert max(p["m"] for p in found) > 10_000, "spread over the ranges"


def test_unseen_inputs_keep_words_multiples_and_conditions() -> None:
    listed = [{"order": "row", "n": 64, "k": 0}, {"order": "column", "n": 4096, "k": 1}]
    of_four = {"log": [64, 4096], "multiple_of": 4}
    found = unseen(6, listed, lambda p: p["n"] > 100, n=of_four, order={"choices": ["row"]})
    assert {p["order"] for p in found} == {"row"}
    assert {p["k"] for p in found} <= {0, 1}, "very few numbers are names"
    assert all(p["n"] % 4 == 0 and p["n"] > 100 for p in found)
    assert len(found) == 6


def test_there_may_be_no_unseen_input() -> None:
    assert unseen(4, [{"n": 1024}]) == []
    assert [p["n"] for p in unseen(9, [{"n": 8}, {"n": 12}])] == [11, 9, 10], "odd ones first"
