"""Programs in place of kernels: sandboxed, timed, verified, and proved where implausible."""

import contextlib
import errno
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.errors import BackendUnavailable, HostModuleError, LaunchFailed, UsageError
from harness.core.records import Config, Input, Outcome, StopReason, Timing
from harness.measure.choose import open_measurer
from harness.measure.programs.building import backend_of, command_build
from harness.measure.programs.measurer import ProgramMeasurer
from harness.measure.programs.outputs import Expected, Written, WrongOutput, reported_s
from harness.measure.programs.sandbox import (
    STDERR,
    STDOUT,
    Bounds,
    CannotStart,
    end_programs_when_terminated,
    run_command,
)
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
from harness.space_file.program_model import ProgramVerify, Template, TimeField, TimePattern
from tests import ROOT
from tests.helpers.commands import check
from tests.helpers.compilers import needs_gcc
from tests.helpers.fake_kernels import measure_programs_here
from tests.helpers.planted import assert_failed, assert_ok, space_of
from tests.helpers.results_examples import SPEC

BOUNDS = Bounds(1 << 30, 1 << 20, 20.0)

# The parameter MODE says what it does; it reports a time of its own, unlike that of its process.
SCRIPT = """\
case $1 in
  wrong) echo "sum 4"; echo "took 1000 us";;
  near) echo "sum 3.0001"; echo "took 1000 us";;
  crash) kill -SEGV $$;;
  status) echo "sum 3"; echo "took 1000 us"; exit 7;;
  silent) echo "sum 3";;
  hang) sleep 60;;
  early) ;;
  fast) echo "sum 3"; echo "took 20 us";;
  slow) sleep 0.05; echo "sum 3"; echo "took 50000 us";;
  leaves) ls; touch left; echo "took 1000 us";;
  *) echo "sum 3"; echo "took 1000 us";;
esac
echo ran >> "$2"
"""
SPACE = """\
name: script
program:
  sources: [script.sh]
  run: [sh, "{source}", "{MODE}", JOURNAL, "{n}"]
  environment: {SUM: "{n}"}
  time: {pattern: 'took (\\d+) us', unit: us}
  limits: {deadline_s: 1}
parameters:
  MODE:
    values: [right, other, wrong, near, crash, status, silent, hang, early, fast, slow, leaves]
    default: right
inputs: {features: [n], values: [{n: 3}, {n: 4}]}
measure: {repeats: 3, min_repeats: 2, warmup: 1, precision: 0}
"""


@pytest.fixture
def here(monkeypatch):
    """Measurers run in this process."""
    measure_programs_here(monkeypatch)


@pytest.fixture
def load(tmp_path):
    """Loads the space of the script, with texts replaced."""

    def loaded(*changes, script=SCRIPT):
        text = SPACE.replace("JOURNAL", str(tmp_path / "journal"))
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "script.sh").write_text(script)
        (tmp_path / "space.yaml").write_text(text)
        return load_spec(tmp_path / "space.yaml")

    return loaded


@pytest.fixture
def measure(here, load):
    """Measures a mode of the script in a space with texts replaced."""
    opened = []

    def measured(mode, *changes, n=3, **more):
        spec = load(*changes, **more)
        opened.append(ProgramMeasurer(spec))
        given = Input({"n": n})
        space = space_of(spec, opened[-1], given)
        return opened[-1].measure(space, given, Config({"MODE": mode}), None)

    yield measured
    for each in opened:
        each.close()


def measure_finalists(spec, modes, rounds, seeds=(0,)):
    """Measure modes of the script interleaved on the first input."""
    given = spec.inputs[0]
    with closing(ProgramMeasurer(spec)) as measurer:
        space = space_of(spec, measurer, given)
        configs = [Config({"MODE": mode}) for mode in modes]
        return measurer.measure_interleaved(space, given, configs, rounds, seeds)


def verifying(verify):
    """The change of the space that verifies so."""
    return "inputs:", f"verify: {{{verify}}}\ninputs:"


HOST_CHECK = verifying("against: {host: check.py}")


# ------------------------------------------------------------------------------- placeholders


def test_placeholders_are_filled_with_any_text():
    for text, filled in [("-D{A}={B}", "-Da b=$(touch x)"), ("{{x}}", "{x}"), ("{A}", "a b")]:
        assert Template(text).filled({"A": "a b", "B": "$(touch x)"}) == filled


def test_brace_without_its_pair_is_refused():
    for text in ["{A", "A}", "{A{B}}", "{{A}"]:
        with pytest.raises(ValueError, match="belongs to no pair"):
            Template(text)


def test_no_shell_sees_the_words(tmp_path):
    run_command(["echo", "$(touch made); *"], tmp_path, tmp_path, BOUNDS)
    assert (tmp_path / STDOUT).read_text() == "$(touch made); *\n"
    assert not (tmp_path / "made").exists()


# ------------------------------------------------------------------------------------- sandbox


def test_file_beyond_its_limit_ends_a_command(tmp_path):
    words = ["sh", "-c", "exec head -c 3000000 /dev/zero > big"]
    description = run_command(words, tmp_path, tmp_path, BOUNDS).description
    assert description.startswith("died of SIGXFSZ: a file that it wrote exceeded")


def test_deadline_kills_children_and_what_has_left_the_group(tmp_path):
    script = "setsid sh -c 'echo $$ > one; exec sleep 60' & sh -c 'echo $$ > two; exec sleep 60'"
    bounds = replace(BOUNDS, deadline_s=0.5)
    ended = run_command(["sh", "-c", script], tmp_path, tmp_path, bounds)
    assert ended.status is None
    for name in ("one", "two"):
        assert not Path(f"/proc/{(tmp_path / name).read_text().strip()}").exists()


HIDE = "import os; os.setsid(); os.fork() and os._exit(0); os.setsid(); "
CHAIN = (
    HIDE
    + """
while True:
    os.fork() and os._exit(0)
    open('one', 'w').write(str(os.getpid()))
"""
)
SLEEP = HIDE + "open('one', 'w').write(str(os.getpid())); os.execve('/bin/sleep', ['x', '60'], {})"


@pytest.mark.parametrize("hidden", [SLEEP, CHAIN])
def test_what_hides_in_a_new_session_is_killed(tmp_path, hidden):
    words = ["sh", "-c", 'env -i "$0" -S -c "$1" & while ! [ -s one ]; do :; done']
    ended = run_command([*words, sys.executable, hidden], tmp_path, tmp_path, BOUNDS)
    assert (ended.status, ended.unended) == (0, 0)
    last = (tmp_path / "one").read_text()
    assert not (last and Path(f"/proc/{last}").exists())  # empty: killed while it wrote
    time.sleep(0.02)
    assert (tmp_path / "one").read_text() == last, "the chain goes on"


def test_children_of_this_process_in_its_own_session_are_spared(tmp_path):
    ours = subprocess.Popen(["sleep", "60"])
    hers = subprocess.Popen(["sleep", "60"], start_new_session=True)
    with ours, hers:
        assert run_command(["true"], tmp_path, tmp_path, BOUNDS).left == 0
        assert (ours.poll(), hers.poll()) == (None, None)
        ours.kill()
        hers.kill()


def test_process_that_is_terminated_takes_its_command_along(tmp_path):
    pid = os.fork()
    if pid == 0:
        end_programs_when_terminated()
        script = "echo $$ > one; mv one two; exec sleep 60"
        run_command(["sh", "-c", script], tmp_path, tmp_path, BOUNDS)
        os._exit(1)
    while not (tmp_path / "two").exists():
        time.sleep(0.01)
    os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + signal.SIGTERM
    command = int((tmp_path / "two").read_text())
    with contextlib.suppress(ChildProcessError):  # it is ours where orphans come to us
        os.waitpid(command, 0)
    while Path(f"/proc/{command}").exists():
        time.sleep(0.01)


def test_memory_beyond_the_limit_is_refused(tmp_path):
    words = ["dd", "if=/dev/zero", "of=/dev/null", "bs=100M", "count=1"]
    assert run_command(words, tmp_path, tmp_path, BOUNDS).status == 0
    bounds = replace(BOUNDS, memory_bytes=50 << 20)
    assert run_command(words, tmp_path, tmp_path, bounds).status == 1
    assert "memory" in (tmp_path / STDERR).read_text()


def test_all_cores_may_be_used_in_time(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    run_command(["sh", "-c", "ulimit -t; ulimit -c"], tmp_path, tmp_path, BOUNDS)
    assert (tmp_path / STDOUT).read_text().split() == ["61", "0"]


def test_what_is_no_program_cannot_start(tmp_path):
    for name in ("no-such-program", str(tmp_path / "none")):
        with pytest.raises(CannotStart, match=f"`{name}` not found"):
            run_command([name], tmp_path, tmp_path, BOUNDS)


# ---------------------------------------------------------------------------------- its time


FIELD = TimeField(json_field="t", unit="s")
NUMBER = TimePattern(pattern=r"t (\d)", unit="s")


def read_s(folder, text, how):
    (folder / STDOUT).write_text(text)
    return reported_s(how, Written(folder, folder))


def test_time_read(tmp_path):
    cases = [
        ("a\ntook 2.5e1 ms\n", TimePattern(pattern="^took (.*) ms$", unit="ms"), 0.025),
        ('log\n{"t": {"run": 3}}\n', TimeField(json_field="t.run", unit="us"), 3e-6),
        ('{"t":\n "4"}', TimeField(json_field="t", unit="ns"), 4e-9),
    ]
    for text, how, seconds in cases:
        assert read_s(tmp_path, text, how) == pytest.approx(seconds, rel=1e-12)


def test_wrong_times(tmp_path):
    cases = [
        ("t 1 t 2", NUMBER, "matches 2 times in stdout"),
        ("nothing", NUMBER, "matches nowhere in stdout"),
        ("t 0", NUMBER, "finds is '0', expected a number of s"),
        ("t x", TimePattern(pattern=r"t (.)", unit="s"), "finds is 'x', expected a number"),
        ("1", FIELD, "neither the whole nor the last line"),
        ('{"u": 1}', FIELD, "has no `t`; there is u"),
        ('{"t": true}', FIELD, "finds is True, expected a number"),
        ("", TimePattern(pattern="(1)", unit="s", read="f"), "did not write the file `f`"),
    ]
    for text, how, message in cases:
        with pytest.raises(LaunchFailed, match=message):
            read_s(tmp_path, text, how)


# --------------------------------------------------------------------------------- its output

TIME = TimePattern(pattern=r"took (\S+) s", unit="s")


def raises_where(message, error):
    """Expect an error where there is a message for it."""
    return pytest.raises(error, match=message) if message else contextlib.nullcontext()


def test_outputs():
    cases = [
        ("sum 3\ntook 1 s", "sum 3\ntook 2 s", {}, ""),
        ("a   1.50\n", "a 1.5", {}, ""),
        ("x=1.001", "x=1", {"rtol": 0.01}, ""),
        ("x=-0.0 nan", "x=0 nan", {}, ""),
        ("at 12:01\nsum 3", "at 12:02\nsum 3", {"ignore": "^at "}, ""),
        ("1.1 0.3", "1.0 0.2", {"atol": 0.1}, ""),
        ("inf -INF nan", "Infinity -inf NaN", {}, ""),
        ("9007199254740993", "9007199254740992", {"atol": 1}, ""),
        ("sum 3", "sum 4", {}, "line 1, word 2 of stdout is 3, expected 4"),
        ("a\n1 x=1.1 2", "a\n1 x=1 2.1", {"rtol": 0.01}, "line 2, word 2 of .* is 1.1, .* 2 of 3"),
        ("at 7\nsum 3", "sum 4", {"ignore": "^at"}, "line 2, word 2 of stdout is 3"),
        ("9007199254740993", "9007199254740992", {}, "is 9007199254740993"),
        ("7" * 400, "7" * 399 + "8", {}, "is inf"),
        ("-inf", "inf", {}, "is -inf, expected inf"),
        ("1e999", "1e998", {"atol": 9}, "is inf"),
        ("1e99999999999999999999", "1", {}, "is inf"),
        ("nan", "1", {"atol": 9}, "is nan, expected 1"),
        ("inf", "1", {"rtol": 0.5}, "is inf, expected 1"),
        ("sum 3 units", "sum 3 parts", {}, "word 3 of stdout is `units`, expected `parts`"),
        ("", "sum 3", {}, "has 0 words, expected 2"),
    ]
    for found, expected, verify, message in cases:
        output = Expected(expected.encode(), ProgramVerify(**verify), TIME)
        with raises_where(message, WrongOutput):
            output.check(found.encode())


def test_all_beside_the_time_of_a_json_object_is_compared():
    cases = [
        ('result 42\n{"t": 2, "n": 1, "id": 7}\n', ""),
        ('{"n": 1,\n "id": 8, "t": 2}', "word 1 of stdout is `{`, expected `result`"),
        ('result WRONG\n{"t": 2, "n": 1, "id": 7}\n', "word 2 of stdout is `WRONG`"),
        ('result 42\n{"t": 2, "n": 5, "id": 7}\n', r"line \d, word \d of stdout is 5, expected 1"),
    ]
    for found, message in cases:
        verify = ProgramVerify(ignore='"id"')
        expected = Expected(b'result 42\n{"t": 1, "n": 1, "id": 6}\n', verify, FIELD)
        with raises_where(message, WrongOutput):
            expected.check(found.encode())


def test_bare_numbers_are_compared_by_their_type():
    verify = ProgramVerify(output="out.bin", dtype="int16")
    expected = Expected(b"\1\0\2\0", verify, None)
    expected.check(b"\1\0\2\0")
    with pytest.raises(WrongOutput, match=r"out.bin\[1\] is 3, expected 2"):
        expected.check(b"\1\0\3\0")
    with pytest.raises(WrongOutput, match="has 2 bytes, expected 4"):
        expected.check(b"\1\0")


# ---------------------------------------------------------------------------------- measuring


def test_right_program_is_timed_by_what_it_reports(measure, tmp_path):
    found = measure("other")
    assert_ok(found)
    assert found.timing == Timing((1e-3,) * 2, StopReason.PRECISE)
    assert found.warmup_s == (1e-3,)
    assert set(found.observed) == {"cpu_s", "process_s", "untimed_s"}
    # Twice the default, which the others are held against; one warm-up, two equal samples.
    assert (tmp_path / "journal").read_text().count("ran") == 2 + 1 + 2


def test_failures_are_outcomes(measure):
    cases = [
        ("wrong", Outcome.WRONG_RESULT, "line 1, word 2 of stdout is 4, expected 3"),
        ("crash", Outcome.CRASHED, "the program died of SIGSEGV"),
        ("status", Outcome.WRONG_RESULT, "ended with exit status 7, expected 0"),
        ("silent", Outcome.LAUNCH_FAILED, "matches nowhere in stdout"),
        ("hang", Outcome.TIMEOUT, "did not end within 1 s (program.limits.deadline_s)"),
    ]
    for mode, outcome, message in cases:
        assert_failed(measure(mode), outcome, message)


@pytest.mark.parametrize(
    "number, times, outcome",
    [("KILL", 1, Outcome.OK), ("KILL", 9, Outcome.CRASHED), ("SEGV", 1, Outcome.CRASHED)],
)
def test_run_that_somebody_killed_is_repeated_once(measure, tmp_path, number, times, outcome):
    killed = tmp_path / "killed"
    killed.touch()
    dies = f"[ $(wc -l < {killed}) -lt {times} ] && echo >> {killed} && kill -{number} $$"
    early = f"early) {dies}; echo sum 3; echo took 1000 us;;"
    found = measure("early", script=SCRIPT.replace("early) ;;", early))
    assert found.outcome is outcome, found.message
    assert killed.read_text().count("\n") == (2 if times > 1 else 1)


def test_time_beyond_that_of_the_process_is_a_failed_launch(measure):
    with pytest.raises(HostModuleError, match=r"reports 1e\+03 s, but ended after .* is `unit: s`"):
        measure("right", ("unit: us", "unit: s"))


ENERGY = ("precision: 0}", "precision: 0, energy: true}")


def test_no_energy_is_a_notice(here, load):
    with closing(ProgramMeasurer(load(ENERGY))) as measurer:
        (notice,) = measurer.notices
    assert "energy" in notice


def test_tolerance_and_an_empty_folder_are_those_of_every_run(measure):
    assert measure("near").outcome is Outcome.WRONG_RESULT
    assert_ok(measure("near", verifying("rtol: 1e-3")))
    assert_ok(measure("leaves", ("default: right", "default: leaves")))


def test_unreadable_output_is_wrong(measure, monkeypatch):
    read = Path.read_bytes

    def refused(path):
        content = read(path)
        if path.name == STDOUT and b"sum 4" in content:  # root could read it
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return content

    monkeypatch.setattr(Path, "read_bytes", refused)
    found = measure("wrong")
    assert found.outcome is Outcome.LAUNCH_FAILED
    assert found.message.endswith("file `stdout` of the run cannot be read: Permission denied")


def test_files_are_in_the_folder_of_every_run(measure, tmp_path):
    (tmp_path / "data_3.txt").write_text("1\n")
    (tmp_path / "data_4.txt").write_text("2\n")
    script = 'cat "data_$3.txt"; echo > "data_$3.txt"; echo "took 900 us"'
    files = ("  environment:", '  files: ["data_{n}.txt"]\n  environment:')
    assert_ok(measure("right", files, script=script))


def test_output_is_compared_with_the_file_of_its_input(measure, tmp_path):
    (tmp_path / "expected_3.txt").write_text("sum 3\ntook 1 us\n")
    (tmp_path / "expected_4.txt").write_text("sum 4\ntook 1 us\n")
    against = verifying('against: {file: "expected_{n}.txt"}')
    assert_ok(measure("other", against))
    with pytest.raises(HostModuleError, match=r"the default configuration .* is 3, expected 4"):
        measure("other", against, n=4)


CHECK = """\
def check(run):
    assert "sum" in run.stdout, "no sum"
    if f"sum {run.features['n']}" not in run.stdout.splitlines():
        return f"the sum is not {run.features['n']} with {run.config['MODE']}"
    return True if run.config["MODE"] == "fast" else None
"""


def test_function_may_verify(measure, tmp_path):
    (tmp_path / "check.py").write_text(CHECK)
    script = SCRIPT.replace("early) ;;", 'early) echo "took 999 us";;')
    assert_ok(measure("other", HOST_CHECK, script=script))
    for mode, message in (("wrong", "not 3 with wrong"), ("early", "AssertionError: no sum")):
        found = measure(mode, HOST_CHECK, script=script)
        assert_failed(found, Outcome.WRONG_RESULT, message)
    with pytest.raises(HostModuleError, match="got True"):
        measure("fast", HOST_CHECK)


def test_default_that_fails_or_changes_its_output_is_reported(measure):
    script = 'echo "id $$"; echo "took 900 us"'
    with pytest.raises(HostModuleError, match=r"does not write the same twice: .*verify\.ignore"):
        measure("right", script=script)
    assert_ok(measure("right", verifying("ignore: '^id'"), script=script))
    with pytest.raises(HostModuleError, match=r"MODE=crash.* does not work.*died of SIGSEGV"):
        measure("right", ("default: right", "default: crash"))


def test_later_occasions_are_not_warmed_up_again(here, load):
    (found,) = measure_finalists(load(), ["right"], 6, (2, 2, 3))
    assert found.timing == Timing((1e-3,) * 6, StopReason.INTERLEAVED, (2, 2, 2))
    assert found.warmup_s == (1e-3,)


def test_finalist_that_hangs_spends_its_own_time_alone(here, load):
    spec = load(("  limits: {deadline_s: 1}\n", ""), ("precision: 0", "precision: 0, timeout_s: 1"))
    hung, right, other = measure_finalists(spec, ["hang", "right", "other"], 2)
    assert hung.outcome is Outcome.TIMEOUT
    assert hung.wall_s >= 1 + 2 / 3
    assert_ok(right, other)
    assert right.wall_s < hung.wall_s, "its own seconds"


# --------------------------------------------------------------------------- too good to be true


def test_no_time_is_below_the_tick_of_clocks(measure):
    for micros, is_ok in (("0.0011", True), ("0.00099", False), ("1e-320", False)):
        script = SCRIPT.replace("took 20 us", f"took {micros} us")
        found = measure("fast", ("(\\d+)", "(\\S+)"), script=script)
        if is_ok:
            assert_ok(found)
        else:
            assert_failed(found, Outcome.LAUNCH_FAILED, "less than a nanosecond")
            assert found.timing is None


def test_each_run_gets_a_seed_in_words_and_variables(measure, tmp_path):
    check = """\
        def check(run):
            assert run.stdout.split()[:2] == [str(run.seed)] * 2, (run.seed, run.stdout)
        """
    (tmp_path / "check.py").write_text(textwrap.dedent(check))
    found = measure(
        "right",
        ('"{n}"]', '"{n}", "{seed}"]'),
        ('SUM: "{n}"', 'SUM: "{seed}"'),
        HOST_CHECK,
        script='echo "$4 $SUM"; echo "$4" >> "$2"; echo took 900 us',
    )
    assert_ok(found)
    seeds = next(tmp_path.glob("journal*")).read_text().split()
    assert len({*seeds}) == len(seeds) > 2


# -------------------------------------------------------------------------------------- builds

C_SPACE = """\
name: c
program:
  sources: [c.c]
  build: [gcc, "{flags}", "-DA={A}", -o, "{output}", "{source}"]
  run: ["{output}", "{B}"]
  time: wall
parameters:
  A: {values: [0, 1, 2, 3], default: 0}
  B: {values: [0, 1], default: 0}
flags:
  gcc:
    g: boolean
    level: {values: [0, 1, 2, 3, fast], option: "-O{value}"}
inputs: {features: [n], values: [{n: 1}]}
measure: {repeats: 2, min_repeats: 2}
"""
HEAD = C_SPACE.partition("flags:")[0]
INPUTS = "inputs: {features: [n], values: [{n: 1}]}\n"
C = """\
#include <stdio.h>
#include "c.h"
#if A == 2
#error two is too many
#endif
int main(void) { puts(A == 1 ? "one" : TEXT); return 0; }
"""


def write_c(folder, space=C_SPACE, source="int main(void) { return A; }"):
    (folder / "c.c").write_text(source)
    (folder / "c.yaml").write_text(space)
    return folder / "c.yaml"


@pytest.fixture
def c_spec(tmp_path):
    (tmp_path / "c.h").write_text('#define TEXT "none"\n')
    return load_spec(write_c(tmp_path, source=C))


@needs_gcc
def test_programs_are_built_verified_and_equal_ones_run_once(here, c_spec):
    given = c_spec.inputs[0]
    with closing(ProgramMeasurer(c_spec)) as measurer:
        space = space_of(c_spec, measurer, given)

        def measured(**changes):
            return measurer.measure(space, given, Config({**space.default, **changes}), None)

        default = measured()
        assert_ok(default)
        assert default.build.compiler.startswith("gcc ")
        # Debug information changes the file, and nothing that runs.
        assert measured(g=True).shared_with == space.default.digest
        assert measured(B=1).shared_with is None
        wrong, failed = measured(A=1), measured(A=2)
    assert wrong.outcome is Outcome.WRONG_RESULT
    assert "number" not in wrong.message
    assert_failed(failed, Outcome.BUILD_FAILED, "c.c:4:2: error: #error two is too many")


def key(spec, compiler="gcc 1", device="", **changes):
    """The key of a build."""
    space = ConstrainedSpace.of(spec, spec.inputs[0], None, "gcc")
    config = Config({**space.default, **changes})
    return command_build(spec, space, config, spec.inputs[0], device).key(compiler)


def test_key_of_a_build_knows_words_sources_and_includes(c_spec, tmp_path):
    (tmp_path / "c.h").write_text('#define TEXT "other"\n')
    edited = load_spec(tmp_path / "c.yaml")
    assert key(c_spec) == key(c_spec, B=1)
    keys = [key(c_spec), key(c_spec, A=1), key(c_spec, level=3), key(edited), key(c_spec, "gcc 2")]
    assert len(set(keys)) == len(keys)
    assert c_spec.program_sha256 != edited.program_sha256


def test_key_of_a_build_knows_what_the_files_of_its_flags_hold(c_spec, tmp_path):
    (tmp_path / "opts.rsp").write_text("-DA=1\n")
    flag = '{resp: {files: opts.rsp, option: "@{value}"}}'
    (tmp_path / "c.yaml").write_text(f"{HEAD}flags: {{gcc: {flag}}}\n{INPUTS}")
    before = load_spec(tmp_path / "c.yaml")
    default, given = key(before), key(before, resp="opts.rsp")
    (tmp_path / "opts.rsp").write_text("-DA=2\n")
    after = load_spec(tmp_path / "c.yaml")
    assert key(after) == default
    assert key(after, resp="opts.rsp") != given


def test_native_build_of_another_device_is_another_build(c_spec, tmp_path):
    for words in ("-arch=native", "-arch, native", "-O3 -arch native"):
        (tmp_path / "c.yaml").write_text(C_SPACE.replace("[gcc,", f"[gcc, {words},"))
        native = load_spec(tmp_path / "c.yaml")
        assert len({key(native, device=device) for device in ("", "A100", "H100")}) == 3
    assert key(c_spec, device="A100") == key(c_spec, device="H100")


def test_compiler_in_the_space_s_folder_is_not_that_of_the_path(here, tmp_path, monkeypatch):
    write_c(tmp_path, C_SPACE.replace("[gcc,", "[./gcc,"))
    (tmp_path / "gcc").write_text("#!/bin/sh\n")
    (tmp_path / "gcc").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with closing(ProgramMeasurer(load_spec(Path("c.yaml")))) as measurer:
        named = measurer.environment.compiler
    assert named.startswith(f"gcc {hashlib.sha256(b'#!/bin/sh' + bytes([10])).hexdigest()[:12]} on")


def test_device_is_named_by_a_command_or_refused(here, load):
    def device(words):
        spec = load(("  environment:", f"  device: {words}\n  environment:"))
        with closing(ProgramMeasurer(spec)) as measurer:
            return measurer.environment.device

    assert device("[echo, One GPU]") == "One GPU"
    with pytest.raises(BackendUnavailable, match=r"program.device: `false` ended with exit status"):
        device('["false"]')


# ------------------------------------------------------------------------------------ baselines


def test_levels_of_optimisation_are_baselines_and_a_space_names_more(tmp_path):
    named = C_SPACE + "baselines: {plain: {level: 0}, debug: {g: true, A: 1}}\n"
    spec = load_spec(write_c(tmp_path, named))
    found = spec.baselines_for("gcc")
    assert list(found) == ["plain", "debug", "-O1", "-O2", "-O3"]
    assert found["debug"] == Config({"A": 1, "B": 0, "g": True, "level": None})
    assert found["-O3"] == Config({"A": 0, "B": 0, "g": False, "level": 3})
    assert spec.baselines_for("nvcc") == {}


def test_level_is_recognised_by_its_spelling(tmp_path):
    cases = [
        ('level: {values: [1, s], option: "-O{value}"}', ["-O1"]),
        ('level: {values: ["2"], option: "-Xptxas -opt-level {value}"}', ["2"]),
        ('level: {values: [3], option: "--ptxas-options=-O{value}"}', ["3"]),
        ('level: {values: [O2, Og, funroll-loops], option: "-{value}"}', ["-O2"]),
        ("optimize: {values: [1, 2]}", ["1", "2"]),
        ("O3: boolean", ["-O3"]),
        ('level: {values: [0, 1], option: "--register-usage-level={value}"}', []),
        ('level: {values: [0, 1], option: "-fNO{value}"}', []),
    ]
    line = 'level: {values: [0, 1, 2, 3, fast], option: "-O{value}"}'
    for flag, levels in cases:
        found = load_spec(write_c(tmp_path, C_SPACE.replace(line, flag))).baselines_for("gcc")
        assert len(found) == len(levels)
        assert all(name.endswith(level) for name, level in zip(found, levels, strict=True))


# ------------------------------------------------------------------------------------- commands


def test_measurer_is_that_of_the_space(load):
    spec = load()
    with pytest.raises(UsageError, match="--backend opencl"):
        open_measurer(spec, "opencl")
    with pytest.raises(UsageError, match="command backend"):
        open_measurer(SPEC, "command")


@pytest.fixture
def checked(here, c_spec, capsys):
    """Checks the C program in a space with texts replaced; returns the target."""

    def target(*changes, status):
        text = HEAD.replace('"{flags}", ', "").replace("B: {values: [0, 1]", "B: {values: [0]")
        for old, new in changes:
            text = text.replace(old, new)
        c_spec.path.write_text(text + INPUTS)
        assert check([c_spec.path, "--compile", "5", "--json"]) == status
        (found,) = json.loads(capsys.readouterr().out)["spaces"][0]["targets"]
        return found

    return target


@needs_gcc
def test_check_counts_the_builds_of_a_program_without_its_device(checked, c_spec, capsys):
    device = ("  time: wall", "  time: wall\n  device: [no-such-smi]")
    found = checked(device, ("2, 3]", "2]"), status=0)
    counts = {"compiled": 3, "failed": 1, "machine_codes": 2, "is_default_ok": True}
    assert counts.items() <= found.items()
    assert check([c_spec.path]) == 2
    assert "no-such-smi" in capsys.readouterr().out


@needs_gcc
def test_check_says_why_the_default_of_a_program_fails(checked):
    found = checked(("[0, 1, 2, 3], default: 0", "[0, 1, 2], default: 2"), status=1)
    assert (found["compiled"], found["failed"], found["is_default_ok"]) == (3, 1, False)
    assert "#error two is too many" in found["why_failed"]
    found = checked(("[gcc,", "[no_such_compiler,"), status=1)
    assert (found["compiled"], found["failed"], found["is_default_ok"]) == (0, 0, False)
    assert "no_such_compiler" in found["why_failed"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_matrix_product_program_verifies_itself(tmp_path):
    """A fake of CUDA's runtime runs it on the CPU. Its fourth kernel needs barriers; 37 is no
    multiple of the block."""
    source = ROOT / "examples" / "matmul.cu"
    text = re.sub(r"(\w+)<<<(\w+), (\w+)>>>\(", r"LAUNCH(\1, \2, \3, ", source.read_text())
    assert "LAUNCH(" in text
    (tmp_path / "program.cpp").write_text(text)
    fake = ROOT / "tests" / "data" / "fake_cuda.h"
    words = ["-std=c++20", "-include", str(fake), f"-iquote{source.parent}", "-pthread"]
    defined = ["-DMATMUL=4", "-DBLOCK=4", "program.cpp", "-o", "program"]
    subprocess.run(["g++", *words, *defined], cwd=tmp_path, check=True)

    def ended(*words, **environment):
        line, variables = [str(tmp_path / "program"), *words], {**os.environ, **environment}
        found = subprocess.run(line, capture_output=True, text=True, env=variables, check=False)
        return found.returncode, found.stdout, found.stderr

    status, printed, _ = ended("37")
    plan = backend_of(load_spec(ROOT / "spaces" / "matmul_4_nvcc.yaml")).plan
    assert status == 0
    assert "sum 312514\n" in printed
    assert read_s(tmp_path, printed, plan.model.time) == pytest.approx(1.5e-3)
    assert ended("37", FAKE_CUDA_FLAW="1")[::2] == (1, "the product is wrong\n")
    assert ended("0")[0] == ended()[0] == 2
