"""benchmarks/measuring.py: the figures of its parts."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from benchmarks import measuring, measuring_cache
from benchmarks.measuring_host import figures
from benchmarks.measuring_loads import Logs, interleaved, scatter
from harness.measure.opencl import device as opencl_device


def logs(between: float, cases: int = 12) -> list[Logs]:
    """Cases of six loads with 100 launches of 1 %, in rounds of 2 %."""
    rng = np.random.default_rng(0)
    shape = 6, 100
    return [
        rng.normal(0, between, (6, 1)) + rng.normal(0, 0.02, (1, 100)) + rng.normal(0, 0.01, shape)
        for _ in range(cases)
    ]


def test_parts_of_the_scatter_are_found() -> None:
    found = scatter(logs(0.02))
    assert found.within == pytest.approx(0.01, rel=0.05)
    assert found.moments == pytest.approx(0.02, rel=0.1)
    assert found.between.low < 0.02 < found.between.high < 0.03


def test_loads_that_do_not_differ_have_no_scatter() -> None:
    found = scatter(logs(0.0))
    assert found.between.low == 0
    assert found.between.high < 0.002


def test_every_load_runs_once_a_round_in_random_order() -> None:
    order: list[int] = []

    def launches(number: int) -> float:
        order.append(number)
        return float(number + 1)

    runs = [lambda n=n: launches(n) for n in range(3)]
    found = interleaved(runs, 20, random.Random(0))
    assert np.exp(found).tolist() == [pytest.approx([n + 1.0] * 20) for n in range(3)]
    rounds = [tuple(order[n : n + 3]) for n in range(0, 60, 3)]
    assert all(sorted(one) == [0, 1, 2] for one in rounds)
    assert len(set(rounds)) == 6


def test_hosts_share_is_what_is_above_the_shortest_held_launch() -> None:
    times = {("idle", "one call"): np.array([3.0, 5.0, 9.0]), ("idle", "held"): np.full(3, 2.0)}
    found = figures(times)
    assert found["idle"]["one call"] == {"median": 3.0, "p99": 6.92, "max": 7.0}
    assert found["idle"]["held"] == {"median": 0.0, "p99": 0.0, "max": 0.0}


def test_the_last_line_has_the_figures_of_each_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyopencl")
    monkeypatch.setattr(opencl_device, "last_cache_bytes", lambda *_: 1 << 20)
    monkeypatch.setattr(measuring_cache, "SIZES_BYTES", (1 << 14, 1 << 16))
    times = iter([1.0, 1.0, 4.0, 4.0])  # warm caches come first
    monkeypatch.setattr(measuring_cache.statistics, "median", lambda _: next(times) * 1e-6)
    assert measuring.main(["caches", "--backend", "opencl", "--samples", "1"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(last) == {"caches": {"16384": 4.0, "65536": 4.0}}


def test_small_kernels_are_launched_often_where_the_tick_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert measuring.main(["ticks", "--trials", "2"]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[-1])["ticks"]
    assert found["in step, without the tick"]["launches"] == 1
    assert found["in step, with the tick"]["launches"] > 10
