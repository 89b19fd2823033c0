"""The launcher of a dispatched program: what it reads, and what it becomes."""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from harness.api import dispatching
from harness.core.records import Config, Environment, Input
from harness.dispatch.choice import Choice, DispatchProgram, Leaf, Split
from harness.dispatch.package import dispatcher_of, program_files, write_dispatcher
from harness.dispatch.study import DISPATCHERS, STATIC
from harness.measure.programs import building
from harness.measure.programs.building import backend_of
from harness.models.columns import Column, ColumnKind, TunedRange
from harness.results.view import Results
from harness.space_file import Spec, load_spec
from harness.space_file.program import command_line
from tests.helpers.commands import dispatch
from tests.helpers.dispatch_examples import PROVENANCE, imported
from tests.helpers.dispatch_results import fill
from tests.helpers.fakes import HereChild

Capture = pytest.CaptureFixture[str]

# ------------------------------------------------------------- every source of a feature

DATA = Path(__file__).parents[1] / "data" / "launcher"
EVERY, WORK, COPIED, SHOW, SOURCE = (
    (DATA / name).read_text()
    for name in ("every.yaml", "work.yaml", "copied.yaml", "show.sh", "work.c")
)

TUNED = (
    TunedRange("n", 1, 100),
    TunedRange("s", 0.5, 2.5),
    TunedRange("bytes", 1, 100),
    TunedRange("kind", words=("half float", "double")),
)


@dataclass(frozen=True)
class Ran:
    """What a launcher did."""

    status: int
    stdout: str
    stderr: str


Run = Callable[..., Ran]


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dispatcher with every source of features: T=2 up to n = 10, T=3 up to s = 1, else T=1."""
    folder = tmp_path_factory.mktemp("every")
    (folder / "device").write_text("\na device \nmore\n")
    (folder / "show.sh").write_text(SHOW)
    (folder / "space.yaml").write_text(EVERY.replace("DEVICE", str(folder / "device")))
    spec = load_spec(folder / "space.yaml")
    assert spec.program is not None
    by_scale = Split(1, 1.0, Leaf((1.0, 1.0, 0.0)), Leaf((0.0, 1.0, 2.0)))
    program = DispatchProgram(
        columns=(Column(ColumnKind.RAW, ("n",)), Column(ColumnKind.RAW, ("s",))),
        tuned=TUNED,
        portfolio=tuple(Config({"T": t}) for t in (1, 2, 3)),
        choice=Choice.of_trees([Split(0, 10.0, Leaf((1.0, 0.0, 1.0)), by_scale)], False),
        guards=((), (), ()),
    )
    environment = Environment("command", "a device", "a platform", "1.0", "a compiler")
    provenance = dataclasses.replace(PROVENANCE, environment=environment)
    launcher = command_line(spec.program, spec.features)
    files = program_files(spec, program)
    dispatcher = dispatcher_of(program, spec, provenance, files, launcher=launcher)
    write_dispatcher(folder / "out", dispatcher)
    (folder / "out").rename(folder / "moved")  # everything is found next to the launcher
    (folder / "5 bytes").write_text("12345")
    return folder


def launched(words: list[str], folder: Path, variables: Mapping[str, str]) -> Ran:
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **variables},
        input="the program's\n",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def run(every: Path) -> Run:
    """Runs the launcher."""

    def ran(arguments: list[str], **variables: str) -> Ran:
        words = [sys.executable, str(every / "moved" / "every"), *arguments]
        return launched(words, every, {"KIND": "double", **variables})

    return ran


GOOD = ["20", "--scale=0.5", "--file", "5 bytes"]


def test_all_features_are_read_and_the_words_of_the_configuration_inserted(run: Run) -> None:
    found = run(GOOD, HARNESS_VERBOSE="1")
    words = "3 20 -t 3 --scale=0.5 --file 5 bytes\n"
    assert found.stdout == f"{words}THREADS=3 N=20 FIXED=as measured\n"
    shown = "every: n=20 s=0.5 bytes=5 kind=double -> configuration 2 (T=3)\n"
    assert found.stderr == shown


def test_variables_of_the_configuration_replace_the_users_and_others_do_not(run: Run) -> None:
    found = run(GOOD, THREADS="9", N="9", FIXED="mine")
    assert found.stdout.splitlines()[1] == "THREADS=3 N=20 FIXED=mine"


@pytest.mark.parametrize(
    ("arguments", "threads"),
    [
        (["10", *GOOD[1:]], 2),
        (["+11", *GOOD[1:]], 3),
        (["11", "--scale", "1.5e0", *GOOD[2:]], 1),
        (["9", "--scale=9", *GOOD[2:], "--scale=.9"], 2),  # the last option counts
        (["9", *GOOD[1:], "--", "--scale=9"], 2),  # up to --
        (["0", *GOOD[1:]], 1),  # outside the tuned range
        ([str(-(2**63)), *GOOD[1:]], 1),
    ],
)
def test_the_choice_is_that_of_the_features(run: Run, arguments: list[str], threads: int) -> None:
    assert run(arguments).stdout.split()[0] == str(threads)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the feature n is missing: it is argument 1. HARNESS_CHOICE=static runs the best"),
        (["1e3", *GOOD[1:]], "n is `1e3` (argument 1), but must be a whole number\n"),
        (["", *GOOD[1:]], "n is `` (argument 1), but must be a whole number\n"),
        ([" 5", *GOOD[1:]], "n is ` 5` (argument 1), but must be a whole number\n"),
        ([str(2**63), *GOOD[1:]], "but must be a whole number of 64 bits\n"),
        (["9" * 5000, *GOOD[1:]], "but must be a whole number of 64 bits\n"),
        (["5", "--scale=1.5x", *GOOD[2:]],
         "s is `1.5x` (the option --scale), but must be a number"),
        (["5", "--scale=1e999", *GOOD[2:]], "but must be a number"),
        (["5", "--scale=nan", *GOOD[2:]], "but must be a number"),
        (["5", "--scale=1"], "bytes is missing: it is the size in bytes of the file that the"),
        (["5", "--scale=1", "--file", "no"], "but `no`: No such file or directory\n"),
        (["5", "--scale=1", "--file", "."], "but `.` is no file\n"),
    ],
)  # fmt: skip
def test_a_wrong_feature_is_one_message(run: Run, arguments: list[str], message: str) -> None:
    found = run(arguments)
    assert (found.status, found.stdout) == (125, "")
    assert found.stderr.startswith("every: ")
    assert message in found.stderr
    assert found.stderr.count("\n") == 1


def test_an_option_chooses_without_features_or_by_number(run: Run) -> None:
    assert run(["20", "x"], HARNESS_CHOICE="static").stdout.startswith("1 20 -t 1 x\n")
    assert run(["20", "x"], HARNESS_CHOICE="2").stdout.startswith("3 20 -t 3 x\n")
    assert run(GOOD, HARNESS_CHOICE="tuned").stdout.startswith("3 20")
    for number in ("3", "9" * 5000):
        wrong = run(GOOD, HARNESS_CHOICE=number)
        assert wrong.stderr == (
            f"every: HARNESS_CHOICE is `{number}`, but must be static, tuned or 0 to 2\n"
        )
        assert wrong.status == 125


def test_on_another_device_the_best_single_configuration_runs(every: Path, run: Run) -> None:
    device = every / "device"
    was = device.read_text()
    warning = (
        "every: tuned on a device, not on {}: the best configuration for all inputs runs; tune it "
        "on this device"
    )
    try:
        device.write_text("another device\n")
        found = run(GOOD)
        assert found.stdout.startswith("1 20")
        assert warning.format("another device") in found.stderr
        assert run(GOOD, HARNESS_CHOICE="tuned").stdout.startswith("3 20")
        device.unlink()
        found = run(GOOD)
        assert found.stdout.startswith("1 20")
        assert warning.format("an unknown device") in found.stderr
    finally:
        device.write_text(was)


def test_a_space_may_be_called_like_a_module_of_python(every: Path, tmp_path: Path) -> None:
    shutil.copytree(every / "moved" / "every", tmp_path / "json")
    words = [sys.executable, str(tmp_path / "json"), *GOOD]
    found = launched(words, every, {"KIND": "double"})
    assert found.stdout.startswith("3 20 -t 3 --scale=0.5 --file 5 bytes\n")
    assert found.stderr == ""


# ------------------------------------------------------------------ from results to a program


def by_tile(given: Input, config: Config) -> float:
    """Small inputs want TILE 16 and large ones 64, at -O3; nothing wants 1."""
    n = given["n"]
    assert isinstance(n, int)
    slow = 1 if config["TILE"] == (16 if n < 1024 else 64) else 3
    return 1e-3 * slow * (1 if config["level"] == 3 else 1.5)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds run in this process, and only the tree is learnt."""
    monkeypatch.setattr("harness.measure.builds.queue.Child", HereChild)
    monkeypatch.setattr(building, "end_programs_when_terminated", lambda: None)
    monkeypatch.setattr(
        dispatching, "learners", lambda names: [STATIC, *(DISPATCHERS[name] for name in names)]
    )


def tuned_work(folder: Path, text: str = WORK) -> tuple[Path, Spec]:
    """The database of a tuned program."""
    spec = space_of(folder, text, work_c=SOURCE)
    return fill(folder / "r.db", spec, backend_of(spec).environment(), by_tile), spec


def facts(environment: Environment) -> Results:
    """Results of which only the environment matters."""
    return cast(Results, SimpleNamespace(campaign=SimpleNamespace(environment=environment)))


def dispatched(database: Path, folder: Path) -> int:
    arguments = [str(database), "-o", str(folder / "out"), "--choice", "tree"]
    return dispatch([*arguments, "--spec", str(folder / "work.yaml")])


def test_each_input_runs_its_chosen_program(tmp_path: Path, here: None, capsys: Capture) -> None:
    database, _ = tuned_work(tmp_path)
    assert dispatched(database, tmp_path) == 0
    assert f"python {tmp_path}/out/work N\n" in capsys.readouterr().out
    out = (tmp_path / "out").rename(tmp_path / "moved")
    programs = {path.name for path in (out / "work" / "programs").iterdir()}
    assert programs == {"0-TILE=16-level=3", "1-TILE=64-level=3"}
    start = [sys.executable, "moved/work"]
    assert launched([*start, "64"], tmp_path, {}) == Ran(0, "16 the program's\n\n", "")
    found = launched([*start, "8192", "7"], tmp_path, {})
    assert found == Ran(7, "64 the program's\n\n", "")
    assert launched([*start, "64", "dies"], tmp_path, {}).status == -signal.SIGPIPE
    program = out / "work" / "programs" / "0-TILE=16-level=3"
    program.chmod(0o644)
    assert launched([*start, "64"], tmp_path, {}).status == 126
    moved = program.rename(tmp_path / "aside")
    assert launched([*start, "64"], tmp_path, {}).status == 127
    moved.rename(program).chmod(0o755)
    done = imported(out, "work").load().run(["64"], stdin=subprocess.DEVNULL, capture_output=True)
    assert done.stdout == b"16 \n"


def space_of(folder: Path, text: str, **sources: str) -> Spec:
    """The space of this text, beside sources by their names without `.`."""
    for name, content in sources.items():
        (folder / name.replace("_", ".")).write_text(content)
    (folder / "work.yaml").write_text(text)
    return load_spec(folder / "work.yaml")


def program_of(spec: Spec) -> DispatchProgram:
    """All configurations of a space's parameters, to be chosen from."""
    configs = tuple(Config({"TILE": t, "T": k}) for t in (1, 2) for k in (1, 2))
    return DispatchProgram((), (), configs, Choice.in_order(4), ((),) * len(configs))


def test_native_build_for_another_device_is_not_cached(tmp_path: Path, here: None) -> None:
    device = tmp_path / "device"
    build = f'sh, -c, "cat {device} > {{output}}", "{{TILE}}", -arch=native'
    text = "\n".join(
        f"  build: [{build}]\n  device: [cat, {device}]" if line.startswith("  build") else line
        for line in COPIED.splitlines()
    )
    spec = space_of(tmp_path, text, work_c="")
    for name in (b"A100", b"H100"):
        device.write_bytes(name)
        assert {file.content for file in program_files(spec, program_of(spec))} == {name}


def test_configurations_of_one_build_share_its_file(tmp_path: Path, here: None) -> None:
    text = COPIED.replace("{source}", str(tmp_path / "work.c"))
    spec = space_of(tmp_path, text, work_c="TILE")
    files = program_files(spec, program_of(spec))
    assert [(file.name, file.content) for file in files] == [
        ("0-default", b"1"),
        ("0-default", b"1"),
        ("2-TILE=2", b"2"),
        ("2-TILE=2", b"2"),
    ]


def test_a_source_that_is_not_built_is_copied(tmp_path: Path) -> None:
    text = COPIED.replace("work.c", "work.py").replace('["{output}"', '[python3, "{source}"')
    lines = [line for line in text.splitlines() if "build:" not in line and "version:" not in line]
    text = "\n".join(lines).replace('"{T}"]', '"{T}", "{TILE}"]')
    spec = space_of(tmp_path, text, work_py="print()")
    assert spec.program is not None
    files = program_files(spec, program_of(spec))
    assert {(file.name, file.content) for file in files} == {("work.py", b"print()")}
    before = command_line(spec.program, ("n",)).before
    assert [template.text for template in before] == ["python3", "{source}"]


def test_names_of_programs_are_readable_and_short(tmp_path: Path, here: None) -> None:
    text = re.sub("  build: .*", '  build: [sh, -c, "echo > {output}", "{TILE}"]', COPIED)
    spec = space_of(tmp_path, text, work_c="")
    values = ("x/../y z", "a-" * 50)
    configs = tuple(Config({"TILE": value, "T": 1}) for value in values)
    program = DispatchProgram((), (), configs, Choice.in_order(2), ((), ()))
    short, long = (file.name for file in program_files(spec, program))
    assert short == "0-TILE=x-..-y-z"
    assert long.startswith("1-TILE=a-a-")
    assert 70 < len(long) < 80


@pytest.mark.parametrize(
    ("old", "new", "notice"),
    [
        ("{n}", "x{n}", "but no launcher: no argument of `run` is the feature n; say where"),
        ("TILE={TILE}", "TILE={TILE}+{n}", "no programs: `build` names `{n}`, so that each input"),
    ],
)
def test_what_is_not_written_is_said(tmp_path: Path, old: str, new: str, notice: str) -> None:
    spec = space_of(tmp_path, WORK.replace(old, new, 1), work_c=SOURCE)
    environment = Environment("command", "a device", "", "", "another compiler")
    _, notices = dispatching.program_launcher(spec, facts(environment))
    assert "were measured with another compiler: tune again" in notices[0]
    assert notice in notices[1]
    replayed = dataclasses.replace(environment, backend="replay")
    assert dispatching.program_launcher(spec, facts(replayed)) == (None, [])
