"""The launcher of a dispatched program: what it reads, and what it becomes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.api import dispatching
from harness.core.records import Config, Environment
from harness.dispatch.choice import Choice, DispatchProgram, Leaf, Split
from harness.dispatch.package import dispatcher_of, program_files, write_dispatcher
from harness.dispatch.study import DISPATCHERS, STATIC
from harness.measure.programs import building
from harness.measure.programs.building import backend_of
from harness.models.columns import Column, ColumnKind, TunedRange
from harness.space_file import load_spec
from harness.space_file.program import command_line
from tests.helpers.commands import dispatch
from tests.helpers.dispatch_examples import PROVENANCE, imported
from tests.helpers.dispatch_results import fill
from tests.helpers.fakes import HereChild

# ------------------------------------------------------------- every source of a feature

DATA = Path(__file__).parents[1] / "data" / "launcher"
EVERY, WORK, COPIED, SHOW, SOURCE = (
    (DATA / name).read_text()
    for name in ("every.yaml", "work.yaml", "copied.yaml", "show.sh", "work.c")
)

ENVIRONMENT = Environment("command", "a device", "a platform", "1.0", "a compiler")
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


@pytest.fixture(scope="module")
def every(tmp_path_factory):
    """A dispatcher with every source of features: T=2 up to n = 10, T=3 up to s = 1, else T=1."""
    folder = tmp_path_factory.mktemp("every")
    (folder / "device").write_text("\na device \nmore\n")
    (folder / "show.sh").write_text(SHOW)
    (folder / "space.yaml").write_text(EVERY.replace("DEVICE", str(folder / "device")))
    spec = load_spec(folder / "space.yaml")
    by_scale = Split(1, 1.0, Leaf((1.0, 1.0, 0.0)), Leaf((0.0, 1.0, 2.0)))
    program = DispatchProgram(
        columns=(Column(ColumnKind.RAW, ("n",)), Column(ColumnKind.RAW, ("s",))),
        tuned=TUNED,
        portfolio=tuple(Config({"T": t}) for t in (1, 2, 3)),
        choice=Choice.of_trees([Split(0, 10.0, Leaf((1.0, 0.0, 1.0)), by_scale)], False),
        guards=((), (), ()),
    )
    provenance = replace(PROVENANCE, environment=ENVIRONMENT)
    launcher = command_line(spec.program, spec.features)
    files = program_files(spec, program)
    dispatcher = dispatcher_of(program, spec, provenance, files, launcher=launcher)
    write_dispatcher(folder / "out", dispatcher)
    (folder / "out").rename(folder / "moved")  # everything is found next to the launcher
    (folder / "5 bytes").write_text("12345")
    return folder


def launched(program, folder, *arguments, **variables):
    done = subprocess.run(
        [sys.executable, program, *arguments],
        cwd=folder,
        env={**os.environ, "KIND": "double", **variables},
        input="the program's\n",
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def run(every):
    """Runs the launcher."""
    return partial(launched, every / "moved" / "every", every)


GOOD = ["20", "--scale=0.5", "--file", "5 bytes"]


def test_all_features_are_read_and_the_words_of_the_configuration_inserted(run):
    ran = run(*GOOD, HARNESS_VERBOSE="1")
    words = "3 20 -t 3 --scale=0.5 --file 5 bytes\n"
    assert ran.stdout == f"{words}THREADS=3 N=20 FIXED=as measured\n"
    assert ran.stderr == "every: n=20 s=0.5 bytes=5 kind=double -> configuration 2 (T=3)\n"


def test_variables_of_the_configuration_replace_the_users_and_others_do_not(run):
    ran = run(*GOOD, THREADS="9", N="9", FIXED="mine")
    assert ran.stdout.splitlines()[1] == "THREADS=3 N=20 FIXED=mine"


FILE = GOOD[2:]


def test_the_choice_is_that_of_the_features(run):
    for n, arguments, threads in (
        ("10", GOOD[1:], 2),
        ("+11", GOOD[1:], 3),
        ("11", ["--scale", "1.5e0", *FILE], 1),
        ("9", ["--scale=9", *FILE, "--scale=.9"], 2),  # the last option counts
        ("9", [*GOOD[1:], "--", "--scale=9"], 2),  # up to --
        ("0", GOOD[1:], 1),  # outside the tuned range
        (str(-(2**63)), GOOD[1:], 1),
    ):
        assert run(n, *arguments).stdout.split()[0] == str(threads)


def test_a_wrong_feature_is_one_message(run):
    for arguments, message in (
        ([], "n is missing: it is argument 1"),
        (["1e3", *GOOD[1:]], "n is `1e3`"),
        (["", *GOOD[1:]], "n is ``"),
        ([" 5", *GOOD[1:]], "n is ` 5`"),
        ([str(2**63), *GOOD[1:]], "64 bits"),
        (["9" * 5000, *GOOD[1:]], "64 bits"),
        (["5", "--scale=1.5x", *FILE], "s is `1.5x`"),
        (["5", "--scale=1e999", *FILE], "s is `1e999`"),
        (["5", "--scale=nan", *FILE], "s is `nan`"),
        (["5", "--scale=1"], "bytes is missing"),
        (["5", "--scale=1", "--file", "no"], "`no`"),
        (["5", "--scale=1", "--file", "."], "`.`"),
    ):
        ran = run(*arguments)
        assert (ran.status, ran.stdout) == (125, "")
        assert ran.stderr.startswith("every: ")
        assert message in ran.stderr
        assert ran.stderr.count("\n") == 1


def test_an_option_chooses_without_features_or_by_number(run):
    assert run("20", "x", HARNESS_CHOICE="static").stdout.startswith("1 20 -t 1 x\n")
    assert run("20", "x", HARNESS_CHOICE="2").stdout.startswith("3 20 -t 3 x\n")
    for number in ("3", "9" * 5000):
        wrong = run(*GOOD, HARNESS_CHOICE=number)
        assert wrong.status == 125
        assert f"HARNESS_CHOICE is `{number}`" in wrong.stderr


def test_on_another_device_the_best_single_configuration_runs(every, run):
    device = every / "device"
    was = device.read_text()
    try:
        device.write_text("another device\n")
        for name in ("another device", "an unknown device"):
            ran = run(*GOOD)
            assert ran.stdout.startswith("1 20")
            assert f"not on {name}" in ran.stderr
            device.unlink(missing_ok=True)
        assert run(*GOOD, HARNESS_CHOICE="tuned").stdout.startswith("3 20")
    finally:
        device.write_text(was)


def test_a_space_may_be_called_like_a_module_of_python(every, tmp_path):
    shutil.copytree(every / "moved" / "every", tmp_path / "json")
    ran = launched(tmp_path / "json", every, *GOOD)
    assert ran.stdout.startswith("3 20 -t 3 --scale=0.5 --file 5 bytes\n")
    assert ran.stderr == ""


# ------------------------------------------------------------------ from results to a program


def by_tile(given, config):
    """Small inputs want TILE 16 and large ones 64, at -O3; nothing wants 1."""
    wanted = 16 if given["n"] < 1024 else 64
    factor = 1 if config["TILE"] == wanted else 3
    return 1e-3 * factor * (1 if config["level"] == 3 else 1.5)


@pytest.fixture
def here(monkeypatch):
    """Builds run in this process, and only the tree is learnt."""
    monkeypatch.setattr("harness.measure.builds.queue.Child", HereChild)
    monkeypatch.setattr(building, "end_programs_when_terminated", lambda: None)
    monkeypatch.setattr(
        dispatching, "learners", lambda names: [STATIC, *(DISPATCHERS[name] for name in names)]
    )


def test_each_input_runs_its_chosen_program(tmp_path, here, capsys):
    spec = space_of(tmp_path, WORK, work_c=SOURCE)
    database = fill(tmp_path / "r.db", spec, backend_of(spec).environment(), by_tile)
    words = ["-o", str(tmp_path / "out"), "--choice", "tree", "--spec", str(spec.path)]
    assert dispatch([database, *words]) == 0
    assert f"python {tmp_path}/out/work N\n" in capsys.readouterr().out
    out = (tmp_path / "out").rename(tmp_path / "moved")
    program, other = sorted((out / "work" / "programs").iterdir())
    assert (program.name, other.name) == ("0-TILE=16-level=3", "1-TILE=64-level=3")
    run = partial(launched, out / "work", tmp_path)
    assert run("64") == Ran(0, "16 the program's\n\n", "")
    assert run("8192", "7") == Ran(7, "64 the program's\n\n", "")
    assert run("64", "dies").status == -signal.SIGPIPE
    done = imported(out, "work").load().run(["64"], stdin=subprocess.DEVNULL, capture_output=True)
    assert done.stdout == b"16 \n"
    program.chmod(0o644)
    assert run("64").status == 126
    program.unlink()
    assert run("64").status == 127


def space_of(folder, text, **sources):
    """The space of this text, beside sources by their names without `.`."""
    for name, content in sources.items():
        (folder / name.replace("_", ".")).write_text(content)
    (folder / "work.yaml").write_text(text)
    return load_spec(folder / "work.yaml")


def files_of(spec, *tiles):
    """Return the files of the configurations of these tiles, with each value of T."""
    configs = tuple(Config({"TILE": tile, "T": t}) for tile in tiles for t in (1, 2))
    order = Choice.in_order(len(configs))
    program = DispatchProgram((), (), configs, order, ((),) * len(configs))
    return program_files(spec, program)


def test_native_build_for_another_device_is_not_cached(tmp_path, here):
    device = tmp_path / "device"
    build = f'sh, -c, "cat {device} > {{output}}", "{{TILE}}", -arch=native'
    text = "\n".join(
        f"  build: [{build}]\n  device: [cat, {device}]" if line.startswith("  build") else line
        for line in COPIED.splitlines()
    )
    spec = space_of(tmp_path, text, work_c="")
    for name in (b"A100", b"H100"):
        device.write_bytes(name)
        assert {file.content for file in files_of(spec, 1, 2)} == {name}


def test_configurations_of_one_build_share_its_file(tmp_path, here):
    text = COPIED.replace("{source}", str(tmp_path / "work.c"))
    spec = space_of(tmp_path, text, work_c="TILE")
    files = [(file.name, file.content) for file in files_of(spec, 1, 2)]
    assert files == [("0-default", b"1")] * 2 + [("2-TILE=2", b"2")] * 2


def test_a_source_that_is_not_built_is_copied(tmp_path):
    text = COPIED.replace("work.c", "work.py").replace('["{output}"', '[python3, "{source}"')
    lines = [line for line in text.splitlines() if "build:" not in line and "version:" not in line]
    text = "\n".join(lines).replace('"{T}"]', '"{T}", "{TILE}"]')
    spec = space_of(tmp_path, text, work_py="print()")
    files = files_of(spec, 1, 2)
    assert {(file.name, file.content) for file in files} == {("work.py", b"print()")}
    before = command_line(spec.program, ("n",)).before
    assert [template.text for template in before] == ["python3", "{source}"]


def test_names_of_programs_are_readable_and_short(tmp_path, here):
    text = re.sub("  build: .*", '  build: [sh, -c, "echo > {output}", "{TILE}"]', COPIED)
    spec = space_of(tmp_path, text, work_c="")
    short, _, long, _ = (file.name for file in files_of(spec, "x/../y z", "a-" * 50))
    assert short == "0-TILE=x-..-y-z"
    assert long.startswith("2-TILE=a-a-")
    assert 70 < len(long) < 80


@pytest.mark.parametrize(
    "old, new, notice",
    [
        ("{n}", "x{n}", "no launcher"),
        ("TILE={TILE}", "TILE={TILE}+{n}", "no programs: `build` names `{n}`"),
    ],
)
def test_what_is_not_written_is_said(tmp_path, old, new, notice):
    spec = space_of(tmp_path, WORK.replace(old, new, 1), work_c=SOURCE)
    campaign = SimpleNamespace(environment=ENVIRONMENT)
    results = SimpleNamespace(campaign=campaign)
    compiler, missing = dispatching.program_launcher(spec, results)[1]
    assert "a compiler" in compiler
    assert notice in missing
    campaign.environment = replace(ENVIRONMENT, backend="replay")
    assert dispatching.program_launcher(spec, results) == (None, [])
