"""Programs from their builds to interleaved rounds."""

import random
from contextlib import closing

import pytest

from harness.core.records import Config, Input, Outcome
from harness.measure.programs.measurer import ProgramMeasurer
from harness.space_file import load_spec
from tests.helpers.fake_kernels import measure_programs_here
from tests.helpers.planted import assert_failed, assert_ok, space_of

GIVEN = Input({"n": 1})
COMPILER = """\
echo "$3" >> JOURNAL
[ "$3" = 9 ] && { echo nine is too many; exit 1; }
cp "$1" "$2"
"""
PROGRAM = """\
#!/bin/sh
echo "$1" >> JOURNAL_OF_RUNS
[ "$1" = 2 ] && exit 3
echo right
"""
SPACE = """\
name: copied
program:
  sources: [program.sh]
  build: [sh, FOLDER/compiler.sh, "{source}", "{output}", "{A}"]
  run: ["{output}", "{B}"]
  time: wall
parameters:
  A: {values: [0, 1, 2, 9], default: 0}
  B: {values: [0, 1, 2], default: 0}
inputs: {features: [n], values: [{n: 1}]}
measure: {repeats: 2, min_repeats: 2, warmup: 1}
"""


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes the space of programs that are copies of one script, whatever A is, with texts
    replaced."""
    measure_programs_here(monkeypatch)
    program = PROGRAM.replace("JOURNAL_OF_RUNS", str(tmp_path / "run"))
    (tmp_path / "program.sh").write_text(program)
    compiler = COMPILER.replace("JOURNAL", str(tmp_path / "built"))
    (tmp_path / "compiler.sh").write_text(compiler)

    def written(*changes):
        text = SPACE.replace("FOLDER", str(tmp_path))
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "space.yaml").write_text(text)
        return load_spec(tmp_path / "space.yaml")

    return written


@pytest.fixture
def opened(write, tmp_path):
    """A measurer of the space, and the space; and what returns the lines of a journal: the values
    of A that were built, those of B that were run."""
    spec = write()
    with closing(ProgramMeasurer(spec)) as measurer:
        space = space_of(spec, measurer, GIVEN)
        yield measurer, space, lambda name: (tmp_path / name).read_text().split()


def config(a, b=0):
    return Config({"A": a, "B": b})


def test_the_first_configuration_of_a_command_is_built_alone(opened):
    measurer, space, journal = opened
    announced = [config(0), config(1), config(2)]
    measurer.expect(space, announced)
    assert_ok(measurer.measure(space, GIVEN, config(0), None))
    assert journal("built") == ["0"]
    measurer.expect(space, announced)
    assert_ok(measurer.measure(space, GIVEN, config(0), None))  # after all builds
    assert sorted(journal("built")) == ["0", "1", "2"]


def test_a_native_build_is_that_of_the_named_device(write):
    keys = set()
    for device in ("A100", "H100"):
        named = "  time: wall", f"  time: wall\n  device: [echo, {device}]"
        spec = write(('"{A}"]', '"{A}", -arch=native]'), named)
        with closing(ProgramMeasurer(spec)) as measurer:
            found = measurer.measure(space_of(spec, measurer, GIVEN), GIVEN, config(0), None)
        keys.add(found.build.key)
    assert len(keys) == 2


def test_equal_code_shares_an_earlier_measurement(opened, write):
    measurer, space, _ = opened
    earlier = measurer.measure(space, GIVEN, config(1), None)
    with closing(ProgramMeasurer(write())) as later:
        later.recall(GIVEN, [earlier])
        shared = later.measure(space, GIVEN, config(2), None)
        other = later.measure(space, GIVEN, config(2, b=1), None)
    assert shared.shared_with == config(1).digest
    assert (shared.timing, shared.wall_s) == (earlier.timing, 0.0)
    assert other.shared_with is None, "other words"


def test_a_failed_build_has_its_place_among_finalists(opened):
    measurer, space, _ = opened
    modes = [config(1), config(9), config(0), config(1)]
    found = measurer.measure_interleaved(space, GIVEN, modes, 3, (2, 3))
    assert [measured.config for measured in found] == modes
    assert_failed(found.pop(1), Outcome.BUILD_FAILED, "nine is too many")
    for measured in found:
        assert_ok(measured)
        assert measured.timing.occasions == (2, 1)
        assert measured.shared_with is None, "each is run"


def test_rounds_are_in_random_order_and_who_fails_drops_out(opened):
    measurer, space, journal = opened
    modes = [config(0), config(0, b=1), config(0, b=2)]
    *right, failed = measurer.measure_interleaved(space, GIVEN, modes, 8)
    assert_ok(*right)
    assert_failed(failed, Outcome.WRONG_RESULT, "exit status 3, expected 0")
    assert failed.warmup_s == ()
    reference, warmup = ["0", "0"], ["0", "1", "2"]
    rng = random.Random(0)
    rounds = [number for _ in range(8) for number in rng.sample("012", 3) if number != "2"]
    assert journal("run") == [*reference, *warmup, *rounds]
