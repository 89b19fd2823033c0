"""The benchmark of dispatchers: what it reads, what it holds out, and its figures."""

from __future__ import annotations

import itertools
import json
import math
import shutil

import numpy as np
import pandas as pd
import pytest

from benchmarks import dispatch, selection
from benchmarks.dispatch_data import read_data_sets
from benchmarks.dispatch_tables import Result, figures
from benchmarks.shortlists import judged_lists
from harness.core.records import Config
from harness.dispatch.matrix import make_matrix
from harness.dispatch.verdict import Slowdowns

HEADER = (
    "dir,dtype,layout,spatial,group,c,d,h,w,k,fd,fh,fw,od,oh,ow,n,pad_d,pad_h,pad_w,str_d,str_h,"
    "str_w,dil_d,dil_h,dil_w,bias,solver,algo,time_ms,workspace"
)


def row(c, n, solver, algo, time_ms, direction="F"):
    shape = f"{direction},FP32,NCHW,2,1,{c},1,8,8,16,1,3,3,1,8,8,{n}"
    return f"{shape},0,1,1,1,1,1,1,1,1,0,{solver},{algo},{time_ms},0"


def written(folder, rows):
    path = folder / "convolutions.csv"
    path.write_text("\n".join([HEADER, *rows]) + "\n")
    return path


def layers(count):
    """GEMM is twice as fast as Direct for more than 64 channels, and half as fast below."""
    rows = []
    for c, n in itertools.product(range(2, 128, 126 // count), (1, 2)):
        for algo, direction in itertools.product(("GEMM", "Direct"), "FB"):
            is_fast = (algo == "GEMM") == (c > 64)
            rows.append(row(c, n, algo, algo, 1.0 if is_fast else 2.0, direction))
    return rows


def test_convolutions_have_the_best_solver_of_each_algorithm_and_no_junk(tmp_path):
    path = written(
        tmp_path,
        [
            row(4, 1, "A1", "Direct", 2.0),
            row(4, 1, "A2", "Direct", 1.5),
            row(4, 1, "B", "GEMM", 0.0),
            row(4, 2, "A1", "Direct", 3.0),
            row(4, 2, "B", "GEMM", 1.0),
            row(8, 2, "A1", "Direct", 3.0, "B"),
            row(8, 2, "B", "GEMM", 2e5, "B"),
        ],
    )
    (data,) = read_data_sets(path)
    matrix = data.matrix
    assert [config["algo"] for config in matrix.candidates] == ["Direct", "GEMM"]
    by_input = dict(zip(data.cases.tolist(), matrix.time_s.tolist(), strict=True))
    assert by_input["convolutions B FP32"] == [3e-3, math.inf]
    forward = matrix.rows(np.flatnonzero(data.cases == "convolutions F FP32"))
    assert forward.time_s.tolist() == [[1.5e-3, math.inf], [3e-3, 1e-3]]
    assert forward.applies.tolist() == [[True, False], [True, True]]


def test_figures_are_over_cases(tmp_path):
    (data,) = read_data_sets(written(tmp_path, layers(6)))
    matrix = data.matrix
    always_gemm = np.full(len(matrix.features), 1)
    printed = {
        "best static": Slowdowns.of("best static", matrix, always_gemm),
        "tree": Slowdowns.of("tree", matrix, matrix.best),
    }
    result = Result(data, printed, {"tree": 1.5}, {})
    found = figures([result])
    assert found["cases"] == 2
    assert found["cases_beating_static_share"] == 0.0, "six layers show nothing"
    assert (found["dispatcher_geomean"], found["dispatcher_p99"]) == (1.0, 1.0)
    assert found["geomeans"]["best static"] == pytest.approx(math.sqrt(2), abs=1e-4)


@pytest.mark.slow
def test_the_last_line_tells_that_choosing_wins(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        dispatch, "in_processes", lambda run, jobs, *_: [(job, run(job)) for job in jobs]
    )
    path = written(tmp_path, layers(42))
    assert dispatch.main([str(path), "--only", "tree"]) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert printed["cases_beating_static_share"] == 1.0
    assert printed["dispatcher_geomean"] < 1.1 < 1.3 < printed["geomeans"]["best static"]


def test_a_shortlist_is_judged_by_the_best_that_it_lists_and_by_what_trying_costs():
    times = np.array([[1.0, 2.0, 4.0], [3.0, 1.0, 2.0], [1.0, 1.0, 2.0]])
    candidates = [Config({"BLOCK": block}) for block in (32, 64, 128)]
    matrix = make_matrix(pd.DataFrame({"n": [1, 2, 3]}), candidates, times)
    lists = np.array([[1, 2, 0], [0, 2, -1], [2, -1, -1]])
    (one, two, three), tries = judged_lists("ensemble", matrix, lists)
    assert (one.name, three.name) == ("ensemble", "ensemble, best of top 3")
    np.testing.assert_allclose(one.slowdown, [2.0, 3.0, 2.0])
    np.testing.assert_allclose(two.slowdown, [2.0, 2.0, 2.0])
    np.testing.assert_allclose(three.slowdown, [1.0, 2.0, 2.0])
    assert list(tries) == [two.name, three.name]
    assert tries[three.name].unsure.tolist() == [True, True, False]
    np.testing.assert_allclose(tries[three.name].excess_calls, [1.0 + 3.0, 2.0 + 1.0, 1.0])


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs cc")
@pytest.mark.slow
def test_a_choice_is_timed_as_it_was_learnt(tmp_path, capsys):
    assert selection.main([str(written(tmp_path, layers(12)))]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(found) == {"tree", "ensemble"}
    for one in found.values():
        assert 0 < one["c_s"] < one["python_s"] < 1
