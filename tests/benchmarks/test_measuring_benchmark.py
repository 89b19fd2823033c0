"""benchmarks/measuring.py tells the scatter between loads from that of launches and moments;
benchmarks/measuring_host.py finds the host's share of a sample; benchmarks/measuring_cache.py, what
cold caches cost."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from benchmarks import measuring_cache
from benchmarks.measuring import Logs, interleaved, scatter
from benchmarks.measuring_host import figures
from harness.measure.backends import opencl_device


def logs(between: float, disturbed: float = 0.0, cases: int = 12) -> list[Logs]:
    """Cases of six loads with 100 launches of 1 %, in rounds of 2 %."""
    rng = np.random.default_rng(0)
    shape = 6, 100
    return [
        rng.normal(0, between, (6, 1))
        + rng.normal(0, 0.02, (1, 100))
        + rng.normal(0, 0.01, shape)
        + disturbed * (rng.random(shape) < 0.3)
        for _ in range(cases)
    ]


def test_parts_of_the_scatter_are_found() -> None:
    found = scatter(logs(0.02))
    assert found.within == pytest.approx(0.01, rel=0.05)
    assert found.moments == pytest.approx(0.02, rel=0.1)
    assert found.between.low < 0.02 < found.between.high < 0.03
    assert found.undisturbed.low < 0.02 < found.undisturbed.high < 0.03


def test_loads_that_do_not_differ_have_no_scatter() -> None:
    found = scatter(logs(0.0))
    assert found.between.low == found.undisturbed.low == 0
    assert found.between.high < 0.002
    assert found.undisturbed.high < 0.004


def test_other_work_hides_a_difference_from_all_launches_but_not_from_the_fastest() -> None:
    found = scatter(logs(0.02, disturbed=0.7))
    assert found.between.high - found.between.low > 0.025
    assert 0.01 < found.undisturbed.low < 0.02 < found.undisturbed.high < 0.03


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


def test_the_last_line_has_cold_over_warm_for_each_size(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyopencl")
    monkeypatch.setattr(opencl_device, "last_cache_bytes", lambda *_: 1 << 20)
    monkeypatch.setattr(measuring_cache, "SIZES_BYTES", (1 << 14, 1 << 16))
    times = iter([1.0, 1.0, 4.0, 4.0])  # warm caches come first
    monkeypatch.setattr(measuring_cache.statistics, "median", lambda _: next(times) * 1e-6)
    assert measuring_cache.main(["--backend", "opencl", "--samples", "1"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert json.loads(last) == {"cold_over_warm": {"16384": 4.0, "65536": 4.0}}
