"""Inputs that are drawn from ranges are spread over them, and meet the condition."""

import pytest
import yaml
from pydantic import ValidationError

from harness.core.records import Input
from harness.space_file import load_spec
from harness.space_file.input_ranges import FeatureRange, draw_inputs, draw_unseen
from tests import ROOT


def ranges(**given):
    return {name: FeatureRange.model_validate(values) for name, values in given.items()}


def drawn(count, condition=lambda _: True, **given):
    return draw_inputs(list(given), ranges(**given), count, condition)


def test_numbers_are_spread_by_ratio_or_evenly():
    assert [p["n"] for p in drawn(5, n={"log": [1, 256]})] == [1, 256, 16, 4, 64]
    assert [p["n"] for p in drawn(5, n={"linear": [0, 100]})] == [0, 100, 50, 25, 75]


def test_more_inputs_begin_with_the_same_ones():
    given = {"m": {"log": [1, 65536]}, "n": {"linear": [0.5, 2.5]}}
    assert drawn(20, **given)[:7] == drawn(7, **given)
    assert drawn(20, **given) == drawn(20, **given)


def test_the_first_inputs_are_at_the_ends_and_none_is_there_twice():
    inputs = drawn(20, m={"log": [1, 65536]}, n={"log": [16, 65536], "multiple_of": 16})
    corners = {(1, 16), (65536, 16), (1, 65536), (65536, 65536)}
    assert {(p["m"], p["n"]) for p in inputs[:4]} == corners
    assert len(set(inputs)) == 20
    for problem in inputs:
        assert type(problem["n"]) is int
        assert problem["n"] % 16 == 0
        assert 1 <= problem["m"] <= 65536


def test_each_choice_gets_its_share():
    inputs = drawn(20, layout={"choices": ["a", "b"]}, n={"log": [1, 4096]})
    assert [problem["layout"] for problem in inputs].count("a") == 10


def test_thousands_of_choices_need_no_table_of_their_square():
    first, second = drawn(2, word={"choices": list(range(100_000))}, n={"linear": [0.0, 1.0]})
    assert (first["n"], second["n"]) == (0.0, 1.0)
    assert first["word"] != second["word"]


def test_a_condition_holds_for_all_inputs():
    def is_small(problem):
        return problem["m"] * problem["n"] <= 4096

    inputs = drawn(15, is_small, m={"log": [1, 4096]}, n={"log": [1, 4096]})
    assert list(map(is_small, inputs)) == [True] * 15


def test_a_small_space_is_taken_whole():
    inputs = drawn(100, a={"linear": [1, 3]}, b={"choices": [2, 4.5]}, c={"linear": [7.5, 7.5]})
    assert len(inputs) == 6


def test_a_faulty_range_is_refused():
    cases = (
        ("[1, 2]", r"`{log: \[1, 2\]}`"),
        ("{}", "none"),
        ("{linear: [1, 2], log: [1, 2]}", "`linear` and `log`"),
        ("{log: [0, 2]}", "got 0"),
        ("{linear: [3, 2]}", "smallest"),
        ("{linear: [1, 2, 3]}", "at most 2"),
        ("{linear: [17, 31], multiple_of: 16}", "16 from 17 to 31"),
        ("{choices: [a], multiple_of: 2}", "go with"),
        ("{choices: [a, a]}", "twice"),
        ("{linear: [1, .inf]}", "finite"),
        ("{linear: [-1.7e+308, 1.7e+308]}", "wide"),
        ("{log: [1.0e-300, 1.0e+300]}", "wide"),
        ("{log: [1, 1.0e+300], multiple_of: 2}", r"2\*\*53"),
    )
    for given, fact in cases:
        with pytest.raises(ValidationError, match=fact):
            FeatureRange.model_validate(yaml.safe_load(given))


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


def written(folder, inputs):
    path = folder / "space.yaml"
    path.write_text(SPACE.format(kernels=ROOT / "kernels", inputs=inputs))
    return path


def test_a_space_file_draws_its_inputs(tmp_path):
    text = "ranges: {m: {log: [1, 64]}, n: {log: [1, 64]}}, where: m <= n, count: 6"
    spec = load_spec(written(tmp_path, text))
    assert len(spec.inputs) == 6
    assert all(problem["m"] <= problem["n"] for problem in spec.inputs)


def unseen(count, inputs, condition=None, **given):
    listed = [Input(features) for features in inputs]
    return draw_unseen(listed, ranges(**given), count, condition or (lambda _: True))


def test_unseen_inputs_are_new_odd_often_prime_and_not_larger():
    listed = [{"m": 16, "n": 65536}, {"m": 65536, "n": 16}, {"m": 1024, "n": 1024}]
    inputs = unseen(4, listed)
    assert len(set(inputs)) == 4
    for problem in inputs:
        m, n = problem["m"], problem["n"]
        assert m % 2 == n % 2 == 1
        assert any(all(size % d for d in range(2, min(size, 256))) for size in (m, n)), (
            "one is prime"
        )
        assert 16 <= m <= 65536
        assert m * n <= 2**20
    assert max(p["m"] for p in inputs) > 10_000, "spread over the ranges"


def test_unseen_inputs_keep_words_multiples_and_conditions():
    listed = [{"order": "row", "n": 64, "k": 0}, {"order": "column", "n": 4096, "k": 1}]
    of_four = {"log": [64, 4096], "multiple_of": 4}
    inputs = unseen(6, listed, lambda p: p["n"] > 100, n=of_four, order={"choices": ["row"]})
    assert len(inputs) == 6
    for problem in inputs:
        assert problem["order"] == "row"
        assert problem["k"] in (0, 1), "very few numbers are names"
        assert problem["n"] in range(104, 4097, 4)


def test_there_may_be_no_unseen_input():
    assert unseen(4, [{"n": 1024}]) == []
    assert [p["n"] for p in unseen(9, [{"n": 8}, {"n": 12}])] == [11, 9, 10], "odd ones first"
