"""Calls of written code: the first ones with an input may try a shortlist; all may be counted."""

import contextlib
import dataclasses
import math
import os
import random
import resource
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from harness.core.records import Input
from harness.dispatch.c_code import c_header
from harness.dispatch.choice import Choice, Leaf
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.loaders.trying import TryingKernel
from harness.dispatch.package import files_of
from harness.space_file import load_spec
from harness.space_file.workload import read_workload
from tests import ROOT
from tests.helpers.dispatch_examples import (
    PROVENANCE,
    SHAPES,
    STRICT,
    dispatcher_of,
    drawn_input,
    drawn_program,
    imported,
    memories_of,
    mvmul_features,
    mvmul_program,
    product,
    shaped_50_by_300,
    write_all,
    write_for_cuda,
    write_for_opencl,
)

MVMUL = ROOT / "spaces" / "mvmul.yaml"
CONFIGS = ({"A": 1}, {"A": 2}, {"A": 3})


def dispatcher(listed=(2, 0, 1), **others):
    """What a written module offers."""
    module = SimpleNamespace(
        NAME="mvmul",
        PORTFOLIO=CONFIGS,
        PROVENANCE={"kernel_sha256": "ab"},
        DATA={"choice": {"worth_a_try": 0.7}, "launch": {}},
        select_top=lambda most, m: listed[:most],
        applies=lambda index, m: True,
    )
    vars(module).update(others)
    return module


class Kernel(TryingKernel):
    """It launches nothing, and each configuration has a time; 2 is predicted."""

    def __init__(self, try_top, seconds=(), **others):
        super().__init__(dispatcher(**others), lambda m: 2, try_top)
        self.seconds, self.launched = seconds, []
        self.meanwhile = list

    def kernels(self, index):
        return ()

    def launch(self, index, *_):
        self.launched.append(index)

    def _timed(self, queue, launch):
        launch()
        time_s, meanwhile, self.meanwhile = self.seconds[self.launched[-1]], self.meanwhile, list
        meanwhile()
        return None, time_s


def launched(kernel, calls):
    """What so many calls launch."""
    for _ in range(calls):
        kernel(None, m=8)
    return kernel.launched[-calls:]


def test_inputs_of_which_the_choice_is_sure_and_calls_without_a_shortlist_try_nothing():
    for kernel in (Kernel(3, listed=(2,)), Kernel(0)):
        assert launched(kernel, 2) == [2, 2]


def test_calls_are_interleaved_and_the_least_time_decides():
    kernel = Kernel(3, [2.0, 1.0, 3.0])
    assert launched(kernel, 10) == [2, 0, 1, 1, 0, 2, 2, 0, 1, 1]
    assert (kernel.index(m=np.int32(8)), kernel.index(m=9)) == (1, 2)


def test_a_time_that_comes_after_another_threads_decision_changes_nothing():
    kernel = Kernel(2, [2.0, 9.0, 1.0])
    kernel.meanwhile = lambda: launched(kernel, 6)
    assert launched(kernel, 1) == [0], "the last of the other thread"
    assert kernel.launched == [2, 2, 0, 0, 2, 2, 0]
    assert kernel.index(m=8) == 2


def test_what_would_run_without_trying_heads_the_list():
    """On another device that is the best configuration for all inputs."""
    kernel = Kernel(2, [1.0, 1.0, 1.0], listed=(0, 1))
    assert launched(kernel, 7) == [2, 0, 0, 2, 2, 0, 2], "of equal ones the first"


def test_what_cannot_be_tried_is_refused():
    for try_top, worth, launch, message in (
        (-2, 0.7, {}, "try_top"),
        (2.5, 0.7, {}, "try_top"),
        ("three", 0.7, {}, "try_top"),
        (3, None, {}, "--choice ensemble"),
        (3, 0.7, None, "host module"),
    ):
        with pytest.raises(ValueError, match=message):
            Kernel(try_top, DATA={"choice": {"worth_a_try": worth}, "launch": launch})


# ------------------------------------------------------------------------------- the loaders


@pytest.fixture(scope="module")
def spec():
    return load_spec(MVMUL)


IN_TURN = [1, 2, 0, 0, 2, 1, 1, 2, 0]


def unsure_program():
    """Three configurations of mvmul that are predicted to take nearly the same time."""
    choice = Choice.of_trees([Leaf((0.2, 0.0, 0.1))], predicts_times=True)
    return dataclasses.replace(mvmul_program(), columns=(), choice=choice)


def noted_launches(kernel):
    """Which configurations a kernel launches from now on."""
    launch, launched = kernel.launch, []

    def noted(index, *arguments, **options):
        launched.append(index)
        return launch(index, *arguments, **options)

    kernel.launch = noted
    return launched


def test_opencl_kernel_tries_its_shortlist_where_that_is_asked_for(spec, tmp_path):
    cl = pytest.importorskip("pyopencl")
    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    write_for_opencl(tmp_path / "out", spec, unsure_program())
    module = imported(tmp_path / "out")
    for try_top, wanted in ((0, [1]), (3, IN_TURN)):
        kernel = module.load(queue.context, try_top=try_top)
        launched = noted_launches(kernel)
        for _ in wanted:
            assert kernel.index(m=50, n=300) == 1
            assert (product(queue, kernel, 50, 300) == 300).all()
        assert launched == wanted
    product(queue, kernel, 50, 300)
    assert launched[9:] == [kernel.index(m=50, n=300)]


@pytest.mark.gpu
def test_cuda_kernel_tries_its_shortlist(spec, tmp_path, stub):
    write_for_cuda(tmp_path / "out", spec, unsure_program())
    arrays = shaped_50_by_300()
    with memories_of(*arrays) as memories:
        kernel = imported(tmp_path / "out").load(try_top=3)
        launched = noted_launches(kernel)
        stub.calls()
        for _ in IN_TURN:
            kernel(None, *memories, np.int32(50), np.int32(300), m=50, n=300)
        timed = [call for call in stub.calls() if call.startswith("cuEventSynchronize")]
    assert (arrays[2] == 600).all()
    assert launched == IN_TURN
    assert len(timed) == 9


# ---------- code counts its calls by their inputs into a file, where that is asked for


NAMES = ("m", "n", "s", "t")
FIRST = (20, 7, 0.1, "half")
LOW, HIGH = (-5, 9, 1e300, "float"), (2**62, 9, 2.0, "a, b")

DISPATCHER = dispatcher_of(
    drawn_program(random.Random(3), [drawn_input(random.Random(4)) for _ in range(20)], *SHAPES[0]),
    "p",
)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A dispatcher's folder."""
    return write_all(tmp_path_factory.mktemp("counting"), files_of(DISPATCHER))


@pytest.fixture
def module(out):
    """The dispatcher's package."""
    made = imported(out, "p")
    yield made
    made.count_calls(None)


def given(call):
    return Input(dict(zip(NAMES, call, strict=True)))


def workload(path):
    """Read what a dispatcher counted."""
    return read_workload(path, "p", NAMES, (given(FIRST), given(LOW)))


def test_calls_of_threads_are_counted(tmp_path, module):
    def call_many():
        for call in [FIRST, FIRST, LOW, HIGH, (1, 1, math.inf, "half")] * 1000:
            with contextlib.suppress(LookupError):
                module.select_index(*call)

    module.count_calls(tmp_path / "p.csv")
    threads = [threading.Thread(target=call_many) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    module.fallback_index(*FIRST)
    module.count_calls(None)
    module.fallback_index(*FIRST)
    counted = workload(tmp_path / "p.csv")
    assert counted.calls == {given(FIRST): 4001, given(LOW): 2000, given(HIGH): 2000}
    assert (counted.unnamed, len(counted.notes)) == (2000, 1)
    title, header, *lines = (tmp_path / "p.csv").read_text().splitlines()
    assert (title, header) == ("# workload of p", "m,n,s,t,calls,choice")
    choices = {int(line.rpartition(",")[2]) for line in lines}
    assert choices <= {-1, *range(len(module.PORTFOLIO))}


def started(out, folder, code, **more):
    """A program that calls the dispatcher and counts into a folder."""
    environment = {**os.environ, "HARNESS_WORKLOAD": str(folder), "PYTHONPATH": str(out)}
    words = [sys.executable, "-B", "-c", code]
    return subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True, **more)


def test_processes_count_into_one_file_and_a_child_only_its_own(tmp_path, out):
    code = "import os, p; p.fallback_index(20, 7, 0.1, 'half'); os.fork()"
    children = [started(out, tmp_path, code) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert workload(tmp_path / "p.csv").calls == {given(FIRST): 3}


def test_numbers_of_numpy_are_counted_and_what_is_no_input_stops_nothing(tmp_path, module):
    same = [(20, n, np.float64(0.1)) for n in (np.int64(7), np.array(7), 7)]
    others = [(2**63, 7, 0.1), (10**400, 7, 0.1), (20, 7, math.nan), (20, 7, math.inf)]
    module.count_calls(tmp_path / "p.csv")
    for call in [*same, (20.0, 7, 0.1), *others]:
        with contextlib.suppress(LookupError):
            module.fallback_index(*call, "half")
    module.count_calls(None)
    counted = workload(tmp_path / "p.csv")
    assert (counted.calls, counted.unnamed) == ({given(FIRST): 4}, 4)


def test_a_full_disk_ends_the_counting_and_not_the_program(tmp_path, out):
    code = "import p\nfor n in range(100): p.fallback_index(20, n, 0.1, 'half')"
    file = tmp_path / "p.csv"
    done = started(out, tmp_path, code, preexec_fn=_limit_files)
    _, printed = done.communicate()
    assert (done.returncode, len(file.read_bytes())) == (0, 80)
    assert printed.startswith(f"p: {file}")
    assert started(out, tmp_path, code).wait() == 0  # there is room again
    counted = workload(file)
    assert counted.total >= 100
    assert "1 line cut off" in counted.notes[0]


def _limit_files():
    """Files end after so many bytes, as on a full disk, and not with a signal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (80, 80))


@pytest.mark.parametrize("text", ["m,n,calls\n1,2,3\n", "# workload of q\n", "x"])
def test_a_file_of_something_else_stays_as_it_is(tmp_path, module, text, capsys):
    file = tmp_path / "p.csv"
    file.write_text(text)
    module.count_calls(file)
    module.fallback_index(*FIRST)
    module.count_calls(None)
    assert "is no workload of p" in capsys.readouterr().err
    assert file.read_text() == text


def test_many_inputs_are_written_before_the_end(tmp_path, module):
    module.count_calls(tmp_path / "p.csv")
    for n in range(4000):
        module.fallback_index(20, n, 0.1, "half")
    assert len(workload(tmp_path / "p.csv").calls) == 3072
    module.flush_calls()
    assert workload(tmp_path / "p.csv").total == 4000


# ------------------------------------------------------------------------------- a macro in C


def test_macro_sees_each_choice_and_fallback_in_c_and_cpp(tmp_path):
    (tmp_path / "p.h").write_text(c_header(DISPATCHER))
    (tmp_path / "main.c").write_text("""\
#include <stdio.h>
#define HARNESS_ON_SELECT(name, chosen, m, n, s, t) \\
    printf("%s %d %d %d %g %d\\n", #name, chosen, (int)(m), (int)(n), s, t == P_T_IS_FLOAT)
#include "p.h"
int main(void) {
    const int chosen = p_select(20, 7, 0.5, P_T_IS_FLOAT);
    const int pinned = p_fallback(1, 2, 0.25, P_T_OTHER);
    printf("%d %d\\n", chosen, pinned);
    return 0;
}
""")
    for compiler in (["cc", "-std=c99"], ["c++", "-std=c++11", "-x", "c++"]):
        command = [*compiler, *STRICT, "main.c", "-o", "main"]
        subprocess.run(command, cwd=tmp_path, check=True)
        printed = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=True)
        first, second, last = printed.stdout.splitlines()
        chosen, pinned = last.split()
        assert first == f"p {chosen} 20 7 0.5 1"
        assert second == f"p {pinned} 1 2 0.25 0"


def test_example_records_a_workload(tmp_path):
    program = mvmul_program()
    written = Dispatcher("mvmul", "", ("f",), mvmul_features(program), program, PROVENANCE)
    (tmp_path / "mvmul.h").write_text(c_header(written))
    source = MVMUL.parents[1] / "examples" / "record_mvmul.c"
    command = ["cc", "-std=c99", *STRICT, "-I.", source, "-o", "record_mvmul"]
    subprocess.run(command, cwd=tmp_path, check=True)
    sizes = ["64", "4096", "512", "16", "64", "4096"]
    subprocess.run([tmp_path / "record_mvmul", "calls.csv", *sizes], cwd=tmp_path, check=True)
    one, other = Input({"m": 64, "n": 4096}), Input({"m": 512, "n": 16})
    counted = read_workload(tmp_path / "calls.csv", "mvmul", ("m", "n"), (one, other))
    assert counted.calls == {one: 2, other: 1}
