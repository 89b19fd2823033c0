"""The commands as a person starts them: by module, by the console script, and the list of them."""

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
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
from tests import ROOT


def test_the_list_names_every_command():
    assert set(MODELS) == set(COMMANDS)


def python(*words, folder=ROOT):
    """Run Python with these words."""
    command = [sys.executable, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def test_tune_starts_as_a_module():
    done = python("-m", "harness.tune", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: {sys.executable} -m harness tune")


@pytest.mark.slow
def test_a_command_starts_beside_a_clone_that_is_called_harness(tmp_path):
    """Python's path begins with the folder; the clone has a folder results, without __init__.py."""
    (tmp_path / "harness").symlink_to(ROOT)
    done = python("-m", "harness", "merge", "all.db", "none.db", folder=tmp_path)
    assert done.returncode == 2, done.stderr


def test_no_text_installs_a_package_called_harness():
    """On an index, that name may be somebody else's."""
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT)
    texts = [ROOT / name for name in listed.stdout.split() if name.endswith((".py", ".md", ".cfg"))]
    wrong = re.compile(r"""pip install (?:-\S+ )*["'`]*harness\b""")
    assert [path for path in texts if wrong.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    "words, code, said",
    [
        ("", 0, "    merge "),
        ("--help", 0, "    merge "),
        ("--version", 0, f"harness {harness.__version__}\n"),
        ("check no_such_space.yaml", 2, "no_such_space.yaml"),
        ("tunes", 2, "unknown command `tunes`; did you mean `tune`?"),
        ("zzz", 2, "harness --help` lists the commands\n"),
    ],
)
def test_the_console_script_answers(words, code, said, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["harness", *words.split()])
    assert main() == code
    assert said in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    "script, typed, words",
    [
        ("/x/harness/tune.py", "py3 -m harness.tune a.yaml", "py3 -m harness report"),
        ("/x/harness/tune.py", "v/bin/python -m harness.tune", "v/bin/python -m harness report"),
        ("/x/harness/__main__.py", "py3 -X dev -m harness tune", "py3 -m harness report"),
        ("v/bin/harness", "/x/v/bin/python v/bin/harness tune", "v/bin/harness report"),
        ("my_script.py", "python3 my_script.py", "python -m harness report"),
        ("/x/pytest/__main__.py", "python3 -m pytest", "python -m harness report"),
    ],
)
def test_a_printed_command_starts_as_the_user_started_this_one(script, typed, words, monkeypatch):
    monkeypatch.setattr(sys, "argv", [script])
    monkeypatch.setattr(sys, "orig_argv", typed.split())
    monkeypatch.setenv("PATH", "")
    assert command_words("report") == tuple(words.split())


def test_a_program_on_path_is_named(tmp_path, monkeypatch):
    (tmp_path / "harness").touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "harness")])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command_words("report") == ("harness", "report")


@pytest.mark.slow
def test_help_and_faults_of_a_space_load_no_slow_libraries(tmp_path):
    space = tmp_path / "bad.yaml"
    space.write_text("kernel: {}\n")
    code = (
        "import sys; from harness.__main__ import COMMANDS, main\n"
        "def show(*slow): print('loaded:', *{*slow} & set(sys.modules))\n"
        "for name in COMMANDS:\n"
        "    try: main([name, '--help'])\n"
        "    except SystemExit: pass\n"
        "show('jinja2', 'matplotlib', 'scipy', 'yaml')\n"
        "main(['tune', 'none.yaml'])\n"
        "show('pydantic', 'rich', 'sqlalchemy')\n"
        f"main(['tune', {str(space)!r}])\n"
        "show('opentuner', 'pandas', 'scipy', 'sklearn', 'sqlalchemy')\n"
    )
    done = python("-c", code)
    assert done.stdout.count("usage: ") == len(COMMANDS)
    assert re.findall("loaded:.*", done.stdout) == ["loaded:"] * 3
    assert "none.yaml does not exist" in done.stderr
    assert "fault" in done.stderr


@pytest.mark.parametrize("sent, code", [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_end_commands_like_ctrl_c(sent, code, capsys):
    def command():
        os.kill(os.getpid(), sent)
        return 0

    before = signal.signal(sent, signal.SIG_DFL)  # it may be ignored where the tests run
    try:
        assert guarded(command, when_interrupted="; all is kept") == code
        assert signal.getsignal(sent) is signal.SIG_DFL
    finally:
        signal.signal(sent, before)
    assert capsys.readouterr().err == "interrupted; all is kept\n"


def test_a_reader_that_has_gone_ends_a_command_quietly(monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

        def fileno(self):
            raise OSError

    monkeypatch.setattr("sys.stdout", Gone())
    assert guarded(lambda: make_console().print("a table") or 0) == EXIT_ERROR


def test_memory_that_runs_out_is_one_clear_error(capsys):
    def command():
        raise MemoryError

    assert guarded(command) == EXIT_ERROR
    assert capsys.readouterr().err.startswith("error: memory ran out; ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device without room")
def test_output_without_room_is_one_clear_error(monkeypatch, capsys):
    with contextlib.suppress(OSError), open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert guarded(lambda: print("a result") or 0) == EXIT_ERROR
    assert capsys.readouterr().err.endswith("No space left on device\n")


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_written_once_and_loads(name, tmp_path, capsys):
    words = ["example", name, "--output", str(tmp_path)]
    assert main(words) == 0
    line = capsys.readouterr().out
    space = tmp_path / EXAMPLES[name][0]
    assert line == f"to tune it: {' '.join(command_words('tune', str(space)))}\n"
    assert load_spec(space).inputs
    assert main(words) == 2
    assert f"{space} already exists; name another folder" in capsys.readouterr().err


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == harness.__version__
