"""Commands lose no file that they did not write, and name every file that they write."""

import shutil
from pathlib import Path

import pytest

from harness.__main__ import COMMANDS, main
from harness.commands.run import make_parser
from harness.core.errors import UsageError
from harness.core.files import check_output, write_output
from harness.dispatch import ensemble
from tests.helpers.replays import write_recording
from tests.helpers.stencil_kernels import path_of

SPACE = """\
name: scale
kernel: {function: kernel, source: kernel.cl, host: kernel.py}
parameters:
  BLOCK: {values: [16, 64, 256], default: 64}
  TILE: {values: [1, 2], default: 1}
launch: {group: [BLOCK], grid: [n]}
inputs:
  features: [m, n]
  values: [{m: 64, n: 4096}, {m: 4096, n: 64}, {m: 64, n: 1024}, {m: 1024, n: 64}]
search: {technique: UniformRandom, test_limit: 6}
"""
KERNEL = """\
#define BLOCK 64
#define TILE 1
kernel void kernel_(global float *A, int B) { A[B] = BLOCK * TILE; }
"""
REPLAY = "replay recording.csv --spec scale.yaml"

WRITING = [
    f"{REPLAY} --database new.db --test-limit 2 --no-cross --report page.html",
    "report r.db -o page.html",
    "dispatch r.db --spec scale.yaml -o out",
    "compare r.db r.db --junit j.xml",
    "export r.db",
    "export r.db --format csv",
    "export r.db --format csv --output scale.csv",
    "merge new.db r.db",
    "discover kernel.cl --function kernel_ --output new.yaml --host new.py",
    "stencil explore jacobi2d_5pt.py --size 64 --count 2 -o out",
    "example mvmul -o out",
]
"""Every command with every option that writes."""

ONLY_NEW = ("discover", "stencil", "example")
"""Commands that replace nothing, not even what they wrote: a person goes on with it."""

READ = {
    "tune": {"space", "report", "mapping", "seed_configurations", "warm_start", "inputs_from"},
    "replay": {"space", "recording", "mapping", "seed_configurations", "warm_start", "inputs_from"},
    "check": {"spaces"},
    "dispatch": {"spec", "weights"},
    "recheck": {"folder", "spec", "output"},  # tests/api/test_rechecking.py tries its output
    "report": {"weights"},
    "compare": {"spec", "rerun", "base_space", "rerun_database"},
    "discover": {"source"},
    "stencil": {"stencil"},
}
"""Options with the name of a file that is only read, or of a database, which `--database` shows."""


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A folder with a space, a recording and a database."""
    folder = tmp_path_factory.mktemp("start")
    space, _ = write_recording(folder, SPACE)
    space.rename(folder / "scale.yaml")
    (folder / "kernel.cl").write_text(KERNEL)
    shutil.copy(path_of("jacobi2d_5pt"), folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main([*REPLAY.split(), "--database", "r.db", "--quiet"]) == 0
    return folder


def contents(folder):
    """Every file but locks and SQLite's own beside a database, which hold nothing, and Python's
    `__pycache__`."""
    left_out = (".lock", "-wal", "-shm", ".pyc")
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in files
        if not path.name.endswith(left_out)
    }


@pytest.mark.parametrize("line", WRITING)
def test_no_file_that_a_command_did_not_write_is_lost(
    undrawn, few_folds, line, start, tmp_path, monkeypatch, capsys
):
    here = tmp_path / "here"
    shutil.copytree(start, here)
    monkeypatch.chdir(here)
    monkeypatch.setattr(ensemble, "_FOREST_TREES", 2)  # whatever is learnt is written
    monkeypatch.setattr(ensemble, "TREES", 2)
    before = contents(here)
    assert main(line.split()) == 0
    out, err = capsys.readouterr()
    written = contents(here).keys() - before.keys()
    assert contents(here).items() >= before.items()
    for name in written:
        assert Path(name).name in out + err, f"{name} is not named"
    expected = 2 if line.startswith(ONLY_NEW) else 0
    assert main(line.split()) == expected, "what it wrote itself is not in its way"
    for name in written:
        shutil.rmtree(here)
        shutil.copytree(start, here)
        monkeypatch.chdir(here)
        mine = here / name
        mine.parent.mkdir(parents=True, exist_ok=True)
        mine.write_text("mine\n")
        capsys.readouterr()
        assert main(line.split()) == 2
        err = capsys.readouterr().err
        assert any(f"{part}" in err for part in (name, Path(name).parts[0])), err
        assert contents(here) == {**before, name: b"mine\n"}


RERUN = "compare r.db r.db --rerun scale.yaml --rerun-database new.db"
READ_FILES = ("scale.yaml", "recording.csv", "kernel.cl", "r.db", "jacobi2d_5pt.py")
UNWRITABLE = {
    "missing/folder": "the folder missing does not exist",
    "kernel.py": "kernel.py is a file, not a folder",
    "/proc": "no file can be made in the folder /proc",
}
"""Folders in which nothing can be written, and why."""

REFUSED = [
    (line, word, folder)
    for line in (*WRITING, RERUN)
    for word in line.split()
    for folder in UNWRITABLE
    if word not in READ_FILES and (word == "out" or Path(word).suffix)
    if not (word == "out" and folder == "missing/folder")  # these are made, with all above them
]
"""Every command with each file, folder or database that it writes, and where it cannot be."""


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="/proc takes no files, from nobody")
@pytest.mark.parametrize("line, name, folder", REFUSED)
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_done(
    line, name, folder, start, tmp_path, monkeypatch, capsys
):
    for file in start.iterdir():
        shutil.copy(file, tmp_path)
    monkeypatch.chdir(tmp_path)
    Path("r.db").write_bytes(b"must not be read")
    before = contents(tmp_path)
    words = [f"{folder}/{word}" if word == name else word for word in line.split()]
    assert main(words) == 2
    err = capsys.readouterr().err
    assert f"{folder}/{name} cannot be written: {UNWRITABLE[folder]}; name" in err
    assert len(err.splitlines()) == 1
    assert contents(tmp_path) == before
    assert not Path("missing").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_that_names_a_file_is_tried(command):
    tried = " ".join(line for line in WRITING if line.startswith(command)).split()
    for action in make_parser(command)._actions:
        is_file = action.metavar in ("FILE", "FOLDER", "DATABASE", "OUT")
        if is_file and action.dest not in READ.get(command, ()) and action.dest != "database":
            assert set(action.option_strings or ["new.db"]) & set(tried), action.dest


def test_an_empty_file_and_a_device_are_written(tmp_path):
    path = tmp_path / "a.html"
    path.touch()
    write_output(path, "text")
    assert path.read_text() == "text"
    write_output(Path("/dev/null"), "text")


@pytest.mark.parametrize(
    "mine", ["mine", "<!doctype html>\n<p>My notes: Written by harness\n", "0.5 2.0\n1.5 1.0\n"]
)
def test_another_file_stays_and_the_error_says_what_to_do(mine, tmp_path):
    path = tmp_path / "a.html"
    path.write_text(mine)
    with pytest.raises(UsageError, match=f"{path} already exists"):
        write_output(path, "new")
    assert path.read_text() == mine
    with pytest.raises(UsageError, match="is a folder"):
        check_output(tmp_path)
