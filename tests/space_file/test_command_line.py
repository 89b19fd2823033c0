"""The command line of a launcher: which argument is which feature, and what has no launcher."""

from __future__ import annotations

import pytest

from harness.core.errors import SpecError
from harness.space_file import load_spec
from harness.space_file.program import NoLauncher, command_line, texts_of

SPACE = """\
name: work
program:
  sources: [work.c]
  build: [gcc, "-DTILE={TILE}", -o, "{output}", "{source}"]
  run: [WORDS]
  time: wall
  MORE
parameters: {TILE: {values: [1, 2], default: 1}, T: {values: [1, 2], default: 1}}
inputs: {features: [n, m], values: [{n: 3, m: 1}, {n: 4, m: 2}]}
verify: {against: nothing}
"""


def plan_of(folder, words, more="environment: {T: '{T}'}"):
    (folder / "work.c").write_text("int main(void) { return 0; }\n")
    path = folder / "space.yaml"
    path.write_text(SPACE.replace("WORDS", words).replace("MORE", more))
    plan = load_spec(path).program
    assert plan is not None
    return plan


def sources(line):
    return {name: s.model_dump(exclude_defaults=True) for name, s in line.sources.items()}


def test_features_are_where_run_has_them(tmp_path):
    cases = (
        ('"{output}", "{n}", "{m}"', 1, 2),
        ('"{output}", fast, "{m}", "{n}"', 3, 2),
        ('"{output}", -n, "{n}", "{m}"', "-n", 3),
        ('"{output}", "--n={n}", "m={m}"', "--n", "m="),
        ('"{output}", "{T}", "{n}", -t, "{T}", "{m}"', 1, 2),
        ('taskset, "1", "{output}", "{n}", -, "{m}"', 1, 3),
    )
    for words, n, m in cases:
        line = command_line(plan_of(tmp_path, words), ("n", "m"))
        assert sources(line) == {"n": {"argument": n}, "m": {"argument": m}}


def test_a_seed_is_the_users_to_give(tmp_path):
    more = "environment: {T: '{T}', S: '{seed}'}"
    plan = plan_of(tmp_path, '"{output}", "--seed={seed}", "{n}", "{m}"', more)
    line = command_line(plan, ("n", "m"))
    assert line.usage == "--seed=SEED N M"
    assert sources(line) == {"n": {"argument": 2}, "m": {"argument": 3}}


def test_words_that_parameters_set_are_inserted_with_their_options(tmp_path):
    plan = plan_of(tmp_path, '"{output}", "{T}", "{n}", -t, "{T}", "{m}", "--x={TILE}"')
    line = command_line(plan, ("n", "m"))
    inserted = [(at, template.text) for at, template in line.inserted]
    assert inserted == [(0, "{T}"), (1, "-t"), (1, "{T}"), (2, "--x={TILE}")]


def test_variables_are_set_by_parameters_features_or_the_space(tmp_path):
    more = "environment: {T: '{T}', A: 'yes', N: '{n}', M: '{m}'}"
    line = command_line(plan_of(tmp_path, '"{output}", "{n}"', more), ("n", "m"))
    assert sources(line) == {"n": {"argument": 1}, "m": {"environment": "M"}}
    assert [name for name, _ in line.set_variables] == ["T"]
    assert [name for name, _ in line.fixed_variables] == ["A"]
    assert line.feature_variables == (("N", "n"),)


def test_the_space_may_say_where_a_feature_is(tmp_path):
    more = "features: {n: {file_size: 2}, m: {environment: M}}"
    plan = plan_of(tmp_path, '"{output}", "{T}", "{n}"', more)
    line = command_line(plan, ("n", "m"))
    assert sources(line) == {"n": {"file_size": 2}, "m": {"environment": "M"}}


def test_the_sources_of_features_change_no_measurement(tmp_path):
    plan_of(tmp_path, '"{output}", "{T}", "{n}"', "")
    without = load_spec(tmp_path / "space.yaml")
    plan_of(tmp_path, '"{output}", "{T}", "{n}"', "features: {n: {argument: 2}}")
    stated = load_spec(tmp_path / "space.yaml")
    assert stated.program is not None
    assert stated.program.model.features
    assert stated.program_parts == without.program_parts


def test_what_cannot_be_launched_says_why(tmp_path):
    cases = {
        '"{output}", "{n}"': "feature m",
        '"{output}", "{n}", "in{m}.txt"': "feature m",
        '"{output}", "{n}", "{m}{T}"': "`{m}{T}`",
        'mpirun, "{n}", "{output}", "{m}"': "`{n}`",
        './wrap, "{output}", "{n}", "{m}"': "folder",
        'valgrind, "--of={output}", "{n}", "{m}"': "twice",
        '"{output}", "{n}", "{m}", "{source}"': "twice",
    }
    for words, fact in cases.items():
        plan = plan_of(tmp_path, words)
        with pytest.raises(NoLauncher, match=fact):
            command_line(plan, ("n", "m"))


def test_a_program_for_each_input_has_no_launcher(tmp_path):
    plan = plan_of(tmp_path, '"{output}", "{n}", "{m}"')
    with pytest.raises(NoLauncher, match=r"`\{TILE\}`"):
        command_line(plan, ("TILE",))


def test_a_wrong_source_is_a_fault_of_its_line(tmp_path):
    cases = {
        "{nn: {argument: 1}}": "nn: .* `n`",
        "{n: {argument: 0}}": "n.argument: .* 0",
        "{n: {argument: 4294967297}}": "4294967297",
        "{n: {argument: size}}": "`size`",
        "{n: {argument: 1, file_size: 1}}": "n: .* `argument`",
        "{n: {}}": "none",
        "{n: {filesize: 1}}": "`filesize` .* `file_size`",
    }
    for features, fact in cases.items():
        with pytest.raises(SpecError, match=f"space.yaml:7: program.features.*{fact}"):
            plan_of(tmp_path, '"{output}", "{T}", "{n}"', f"features: {features}")


def test_booleans_are_words_as_in_the_measured_runs():
    assert texts_of({"FAST": True, "T": 4}) == {"FAST": "1", "T": "4"}
