"""Generated code counts its calls by their inputs into a file, where that is asked for."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from harness.core.records import Input, Value
from harness.dispatch.package import files_of
from harness.space_file import load_spec
from harness.space_file.workload import Workload, read_workload
from tests.helpers.dispatch_examples import (
    FEATURES,
    SHAPES,
    STRICT,
    c_arguments,
    dispatcher_of,
    drawn_input,
    drawn_program,
)

ROOT = Path(__file__).parents[2]

CALLS: list[dict[str, Value]] = [
    {"m": 20, "n": 7, "s": 0.1, "t": "half"},
    {"m": 20, "n": 7, "s": 0.1, "t": "half"},
    {"m": -5, "n": 9, "s": 1e300, "t": "float"},
    {"m": 2**62, "n": 9, "s": 2.0, "t": "other"},
    {"m": 1, "n": 1, "s": float("inf"), "t": "half"},
]

MAIN = """\
#include "p.h"
#include <pthread.h>
static const struct { int64_t m, n; double s; enum p_t t; } inputs[] = {INPUTS};
enum { COUNT = sizeof inputs / sizeof inputs[0] };
static void *call(void *nothing) {
    for (int k = 0; k < 1000 * COUNT; k++) {
        const int i = k % COUNT;
        p_select(inputs[i].m, inputs[i].n, inputs[i].s, inputs[i].t);
    }
    return nothing;
}
int main(int count, char **words) {
    pthread_t other;
    if (count > 1 && p_count_calls(words[1]) != 0) return 3;
    if (pthread_create(&other, NULL, call, NULL) != 0) return 4;
    call(NULL);
    pthread_join(other, NULL);
    if (fork() == 0) return 0; /* its parent's counts are not written twice */
    p_fallback(20, 7, 0.1, (enum p_t)0);
    return 0;
}
"""

DISPATCHER = dispatcher_of(
    drawn_program(random.Random(3), [drawn_input(random.Random(4)) for _ in range(20)], *SHAPES[0]),
    "p",
)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dispatcher's folder."""
    folder = tmp_path_factory.mktemp("counting") / "out"
    for name, content in files_of(DISPATCHER).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@pytest.fixture(scope="module")
def program(out: Path) -> Path:
    """A program of two threads that calls with each of CALLS, over and over."""
    inputs = ", ".join(
        f"{{{m}, {n}, {'1.0 / 0.0' if s == float('inf') else s}, (enum p_t){t}}}"
        for m, n, s, t in (c_arguments(DISPATCHER, call) for call in CALLS)
    )
    (out / "main.c").write_text(
        "#define _POSIX_C_SOURCE 200809L\n" + MAIN.replace("INPUTS", inputs)
    )
    command = ["cc", "-std=c99", "-O1", *STRICT, "-pthread", "main.c", "-o", "main"]
    subprocess.run(command, cwd=out, check=True)
    return out / "main"


@pytest.fixture
def module(out: Path) -> Iterator[ModuleType]:
    """The dispatcher's package."""
    spec = importlib.util.spec_from_file_location("counting_p", out / "p" / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["counting_p"] = made
    spec.loader.exec_module(made)
    yield made
    made.count_calls(None)


def workload(path: Path) -> Workload:
    """Read what a dispatcher counted."""
    space = load_spec(ROOT / "spaces" / "mvmul.yaml")
    names = tuple(feature.name for feature in FEATURES)
    inputs = tuple(Input(call) for call in CALLS[:3])
    return read_workload(path, replace(space, name="p", features=names, inputs=inputs))


def run(program: Path, *words: str, folder: Path | None = None, limit: int | None = None) -> str:
    """Run the program; return its standard error."""
    environment = {**os.environ, "HARNESS_WORKLOAD": "" if folder is None else str(folder)}
    return subprocess.run(
        [program, *words],
        env=environment,
        preexec_fn=None if limit is None else _limiting(limit),
        restore_signals=False,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    ).stderr


def _limiting(limit: int) -> Callable[[], None]:
    """Files end after so many bytes, as on a full disk, and not with a signal."""

    def limiting() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return limiting


def test_threads_and_processes_of_c_count_into_one_file(tmp_path: Path, program: Path) -> None:
    environment = {**os.environ, "HARNESS_WORKLOAD": str(tmp_path)}
    children = [subprocess.Popen([program], env=environment) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    found = workload(tmp_path / "p.csv")
    assert found.total == 3 * (2 * 1000 * len(CALLS) + 1)
    assert found.by_reason["device"] == 3
    assert found.calls[Input(CALLS[0])] == 3 * (4000 + 1)
    assert found.unnamed == 3 * 2 * 2000  # a word that was not tuned, and infinity
    assert len(found.notes) == 1


def test_python_counts_as_c_does_and_knows_every_word(
    tmp_path: Path, program: Path, module: ModuleType
) -> None:
    assert run(program, str(tmp_path / "c.csv")) == ""
    module.count_calls(tmp_path / "python.csv")
    threads = [threading.Thread(target=_calls, args=(module,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    module.fallback_index(**CALLS[0])
    module.count_calls(None)
    module.fallback_index(**CALLS[0])
    of_c, of_python = workload(tmp_path / "c.csv"), workload(tmp_path / "python.csv")
    assert of_python.calls == {**of_c.calls, Input(CALLS[3]): 2000}
    assert (of_c.unnamed, of_python.unnamed) == (4000, 2000)
    assert of_python.by_reason == of_c.by_reason
    choices = [set(re.findall(r'"?,(tuned|outside|device|none)$', p.read_text(), re.M))
               for p in tmp_path.iterdir()]  # fmt: skip
    assert choices[0] == choices[1]


def _calls(module: ModuleType) -> None:
    for call in CALLS * 1000:
        with contextlib.suppress(LookupError):
            module.select_index(*call.values())


def test_numbers_of_numpy_are_counted(tmp_path: Path, module: ModuleType) -> None:
    module.count_calls(tmp_path / "p.csv")
    for n in (np.int64(7), np.array(7), 7):
        module.fallback_index(m=20, n=n, s=np.float64(0.1), t="half")
    module.count_calls(None)
    assert workload(tmp_path / "p.csv").calls == {Input(CALLS[0]): 3}


def test_a_number_that_is_no_input_is_unnamed_and_stops_nothing(
    tmp_path: Path, module: ModuleType
) -> None:
    module.count_calls(tmp_path / "p.csv")
    for m in (20.0, 20.5, 2**63, 10**400, float("nan"), float("inf")):
        with contextlib.suppress(LookupError):
            module.fallback_index(m, 7, 0.1, "half")
    module.count_calls(None)
    found = workload(tmp_path / "p.csv")
    assert found.calls == {Input(CALLS[0]): 1}
    assert found.unnamed == 5


def test_a_variable_of_the_environment_names_the_folder(tmp_path: Path, out: Path) -> None:
    code = "import p; p.fallback_index(20, 7, 0.1, 'half')"
    for folder, message in ((tmp_path, ""), (tmp_path / "nowhere", "cannot be written: No such")):
        environment = {**os.environ, "HARNESS_WORKLOAD": str(folder), "PYTHONPATH": str(out)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True
        )
        assert done.returncode == 0
        assert message in done.stderr
    assert workload(tmp_path / "p.csv").calls == {Input(CALLS[0]): 1}


def test_a_full_disk_ends_the_counting_and_not_the_program(tmp_path: Path, program: Path) -> None:
    file = tmp_path / "p.csv"
    message = f"p: {file} cannot be written; calls are no longer counted\n"
    assert run(program, str(file), limit=80) == message
    assert len(file.read_bytes()) == 80
    assert run(program, str(file)) == ""  # there is room again
    found = workload(file)
    assert found.total == 2 * 1000 * len(CALLS) + 1
    assert "1 line cut off and left out" in found.notes[0]


@pytest.mark.parametrize("text", ["m,n,calls\n1,2,3\n", "# workload of q\n", "x"])
def test_a_file_of_something_else_stays_as_it_is(
    tmp_path: Path,
    program: Path,
    module: ModuleType,
    text: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "p.csv"
    file.write_text(text)
    assert "is no workload of p with these features" in run(program, str(file))
    module.count_calls(file)
    module.fallback_index(**CALLS[0])
    module.count_calls(None)
    assert "is no workload of p with these features" in capsys.readouterr().err
    assert file.read_text() == text


def test_a_pipe_holds_no_program_up(
    tmp_path: Path, program: Path, module: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a folder that several users share, anybody may have made it."""
    file = tmp_path / "p.csv"
    os.mkfifo(file)
    assert "is no workload of p with these features" in run(program, str(file))
    module.count_calls(file)
    module.fallback_index(**CALLS[0])
    module.count_calls(None)
    assert "cannot be written: it is no file" in capsys.readouterr().err


def test_many_inputs_are_written_before_the_end(tmp_path: Path, module: ModuleType) -> None:
    module.count_calls(tmp_path / "p.csv")
    for n in range(4000):
        module.fallback_index(20, n, 0.1, "half")
    assert len(workload(tmp_path / "p.csv").calls) == 3072
    module.flush_calls()
    assert workload(tmp_path / "p.csv").total == 4000
