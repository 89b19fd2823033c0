"""The commands as a person starts them: by module, by the console script, and the list of them."""

from __future__ import annotations

import configparser
import io
import os
import re
import signal
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

import harness
from harness.__main__ import COMMANDS, main
from harness.commands.run import EXIT_ERROR, guarded
from harness.core.text import command_words
from harness.display.text import make_console
from harness.options.others import EXAMPLES, MODELS
from harness.space_file import load_spec

Capture = pytest.CaptureFixture[str]

ROOT = Path(__file__).parents[2]


def test_the_list_names_every_command() -> None:
    assert set(MODELS) == set(COMMANDS)


def python(*words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run Python with these words."""
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


@pytest.mark.parametrize("words", [["harness.tune"], ["harness", "tune"]], ids=" ".join)
def test_tune_starts_as_a_module_and_as_a_command(words: list[str]) -> None:
    done = python("-m", *words, "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {sys.executable} -m harness tune")


def test_a_command_starts_beside_a_clone_that_is_called_harness(tmp_path: Path) -> None:
    """Python's path begins with the folder; the clone has a folder results, without __init__.py."""
    (tmp_path / "harness").symlink_to(ROOT)
    code = (
        "from harness.results import SEARCHED; from harness.commands.run import run; run('merge')"
    )
    for words in (["-m", "harness", "merge", "--help"], ["-c", code, "--help"]):
        done = python(*words, folder=tmp_path)
        assert done.returncode == 0, done.stderr


def test_an_editable_install_puts_the_clone_on_the_path() -> None:
    """Setuptools does so where the root's folder is named."""
    configuration = configparser.ConfigParser()
    configuration.read(ROOT / "setup.cfg")
    assert configuration["options"]["package_dir"].split() == ["=", "."]


def test_no_text_installs_a_package_called_harness() -> None:
    """On an index, that name may be somebody else's."""
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT)
    texts = [ROOT / name for name in listed.stdout.split() if name.endswith((".py", ".md", ".cfg"))]
    wrong = re.compile(r"""pip install (?:-\S+ )*["'`]*harness\b""")
    assert [path for path in texts if wrong.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("words", [["--help"], []])
def test_help_and_no_command_list_the_commands(words: list[str], capsys: Capture) -> None:
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert all(f"    {name} " in printed for name in COMMANDS)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--version", 0, f"harness {harness.__version__}\n"),
        ("check no_such_space.yaml", 2, "no_such_space.yaml"),
        ("tunes", 2, "unknown command `tunes`; did you mean `tune`?"),
        ("zzz", 2, "harness --help` lists the commands\n"),
    ],
)
def test_the_console_script_answers(
    words: str, code: int, said: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["harness", *words.split()])
    assert main() == code
    assert said in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("script", "typed", "words"),
    [
        ("/x/harness/tune.py", "py3 -m harness.tune a.yaml", "py3 -m harness report"),
        ("/x/harness/tune.py", "v/bin/python -m harness.tune", "v/bin/python -m harness report"),
        ("/x/harness/__main__.py", "py3 -X dev -m harness tune", "py3 -m harness report"),
        ("v/bin/harness", "/x/v/bin/python v/bin/harness tune", "v/bin/harness report"),
        ("my_script.py", "python3 my_script.py", "python -m harness report"),
        ("/x/pytest/__main__.py", "python3 -m pytest", "python -m harness report"),
    ],
)
def test_a_printed_command_starts_as_the_user_started_this_one(
    script: str, typed: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [script])
    monkeypatch.setattr(sys, "orig_argv", typed.split())
    monkeypatch.setenv("PATH", "")
    assert command_words("report") == tuple(words.split())


def test_a_program_on_path_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "harness").touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "harness")])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command_words("report") == ("harness", "report")


def test_help_loads_no_slow_libraries() -> None:
    code = (
        "import sys; from harness.__main__ import COMMANDS, main\n"
        "for name in COMMANDS:\n"
        "    try: main([name, '--help'])\n"
        "    except SystemExit: pass\n"
        "print('loaded:', *{'jinja2', 'matplotlib', 'opentuner', 'pandas', 'pydantic', "
        "'rich', 'scipy', 'sklearn', 'sqlalchemy', 'yaml'} & set(sys.modules))"
    )
    done = python("-c", code)
    assert done.stdout.count("usage: ") == len(COMMANDS)
    assert done.stdout.endswith("\nloaded:\n")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_end_commands_like_ctrl_c(sent: signal.Signals, code: int, capsys: Capture) -> None:
    def command() -> int:
        os.kill(os.getpid(), sent)
        return 0

    before = signal.signal(sent, signal.SIG_DFL)  # it may be ignored where the tests run
    try:
        assert guarded(command, when_interrupted="; all is kept") == code
        assert signal.getsignal(sent) is signal.SIG_DFL
    finally:
        signal.signal(sent, before)
    assert capsys.readouterr().err == "interrupted; all is kept\n"


def test_a_reader_that_has_gone_ends_a_command_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

        def fileno(self) -> int:
            raise OSError

    monkeypatch.setattr("sys.stdout", Gone())
    assert guarded(lambda: make_console().print("a table") or 0) == EXIT_ERROR


def test_memory_that_runs_out_is_one_clear_error(capsys: Capture) -> None:
    def command() -> int:
        raise MemoryError

    assert guarded(command) == EXIT_ERROR
    assert capsys.readouterr().err.startswith("error: memory ran out; ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device without room")
def test_output_without_room_is_one_clear_error() -> None:
    program = (
        "import sys\n"
        "from harness.commands.run import guarded\n"
        "sys.exit(guarded(lambda: print('a result') or 0))\n"
    )
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-c", program]
        done = subprocess.run(
            words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT
        )
    assert done.returncode == 2
    assert done.stderr == "error: standard output or a file: No space left on device\n"


def test_faults_of_a_space_are_printed_before_slow_libraries_are_loaded(tmp_path: Path) -> None:
    space = tmp_path / "bad.yaml"
    space.write_text("kernel: {}\n")
    code = (
        "import sys; from harness.commands.run import run\n"
        "run('tune', ['none.yaml'])\n"
        "print(*{'pydantic', 'rich', 'sqlalchemy'} & set(sys.modules))\n"
        f"run('tune', [{str(space)!r}])\n"
        "print('loaded:', *{'opentuner', 'pandas', 'scipy', 'sklearn', 'sqlalchemy'} "
        "& set(sys.modules))"
    )
    done = python("-c", code)
    assert "none.yaml does not exist" in done.stderr
    assert "fault" in done.stderr
    assert done.stdout == f"\n{space}: reading the space\nloaded:\n"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_written_once_and_loads(name: str, tmp_path: Path, capsys: Capture) -> None:
    words = ["example", name, "--output", str(tmp_path)]
    assert main(words) == 0
    line = capsys.readouterr().out
    space = tmp_path / EXAMPLES[name][0]
    assert line == f"to tune it: {' '.join(command_words('tune', str(space)))}\n"
    assert load_spec(space).inputs
    assert main(words) == 2
    assert f"{space} already exists; name another folder" in capsys.readouterr().err


def test_the_wheel_has_the_files_of_the_examples() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    patterns = setup["options.package_data"]["harness"].split()
    for files in EXAMPLES.values():
        for file in files:
            assert (ROOT / "harness/examples" / file).is_file()
            assert any(fnmatch(f"examples/{file}", pattern) for pattern in patterns)


def test_the_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == harness.__version__
