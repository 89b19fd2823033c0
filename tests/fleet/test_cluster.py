"""The workers of a real Dask cluster: who is there, and what happens when one is lost."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from harness.fleet.messages import Offer

from harness.core.errors import BackendUnavailable, UsageError
from harness.fleet import wire, worker
from tests.helpers.dask_workers import two_workers
from tests.helpers.planted import until

pytest.importorskip("distributed")

from harness.fleet.exchange import Exchange

from harness.fleet.cluster import BUILD, Cluster, SchedulerLost, WorkerLost

ROOT = Path(__file__).parents[2]


class EchoAgent:
    """An agent that answers with its request; `waits` holds it up."""

    version = "0.1.0"

    def __init__(self) -> None:
        self.waits = threading.Event()
        self.asked = threading.Event()

    def offer(self) -> Offer:
        """Offer nothing."""
        return Offer(self.version, "here", (), 1)

    def store(self, text: bytes) -> bytes:
        """Echo."""
        return text

    def build(self, text: bytes) -> bytes:
        """Echo."""
        return b"built " + text

    def program(self, text: bytes) -> bytes:
        """Echo."""
        return text

    def measure(self, text: bytes) -> bytes:
        """Echo once nothing waits."""
        self.asked.set()
        if text == b"wait":
            self.waits.wait(60)
        return text

    def close(self) -> None:
        """Let go."""
        self.waits.set()


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> Iterator[EchoAgent]:
    with contextlib.closing(EchoAgent()) as made:
        monkeypatch.setattr(worker, "_agents", [made])
        yield made


@pytest.fixture
def two(agent: EchoAgent) -> Iterator[tuple[Any, Cluster]]:
    """A scheduler with two workers in this process, and a driver's view of them."""
    del agent
    with (
        two_workers(builds=1) as local,
        contextlib.closing(Cluster.connect(local.scheduler_address)) as cluster,
    ):
        yield local, cluster


def test_workers_answer_by_address_and_builds_run_anywhere(two: tuple[Any, Cluster]) -> None:
    local, cluster = two
    assert not any("profile" in one.periodic_callbacks for one in local.workers.values())
    members = cluster.wait_for_members(60, 2)
    assert [member.builders for member in members] == [1, 1]
    assert len({member.address for member in members}) == 2
    assert [cluster.call(m.address, "measure", b"x") for m in members] == [b"x", b"x"]
    with cluster.builder() as first, cluster.builder() as second:
        assert {first, second} == {member.address for member in members}
        assert cluster.call(first, "build", b"x") == b"built x"
    with (
        pytest.raises(BackendUnavailable, match="no worker that compiles"),
        cluster.builder([first, second]),
    ):
        pass


async def _no(_: object) -> bool:
    return False


@pytest.mark.parametrize("reaches", [True, False])
def test_calls_of_many_threads_are_each_answered(
    two: tuple[Any, Cluster], agent: EchoAgent, monkeypatch: pytest.MonkeyPatch, reaches: bool
) -> None:
    if not reaches:  # the scheduler does
        monkeypatch.setattr(Exchange, "is_reachable", _no)
    _, cluster = two
    (member, _) = cluster.wait_for_members(60, 2)
    messages = [str(number).encode() for number in range(100)]
    with ThreadPoolExecutor(9) as threads:
        waiting = threads.submit(cluster.call, member.address, "measure", b"wait")
        called = threads.map(lambda m: cluster.call(member.address, "store", m), messages)
        assert list(called) == messages
        assert not waiting.done()
        agent.waits.set()
        assert waiting.result(60) == b"wait"


@pytest.mark.parametrize("answer", ["a text", None])
def test_a_worker_that_fails_or_answers_garbage_counts_as_lost(
    two: tuple[Any, Cluster], agent: EchoAgent, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    def fail(text: bytes) -> object:
        if answer is None:
            raise ValueError("no room")
        return answer

    monkeypatch.setattr(agent, "store", fail)
    _, cluster = two
    (member, _) = cluster.wait_for_members(60, 2)
    with pytest.raises(WorkerLost, match="no room" if answer is None else "with a str"):
        cluster.call(member.address, "store", b"x")
    assert cluster.call(member.address, "measure", b"x") == b"x"


@pytest.mark.filterwarnings("error")
def test_a_large_bundle_arrives_without_a_warning_of_dask(two: tuple[Any, Cluster]) -> None:
    _, cluster = two
    (member, _) = cluster.wait_for_members(60, 2)
    assert len(cluster.call(member.address, "store", bytes(20_000_000))) == 20_000_000


def test_a_call_of_a_worker_that_leaves_ends(two: tuple[Any, Cluster], agent: EchoAgent) -> None:
    _, cluster = two
    gone, left = (member.address for member in cluster.wait_for_members(60, 2))
    errors: list[BaseException] = []

    def call() -> None:
        try:
            cluster.call(gone, "measure", b"wait")
        except WorkerLost as error:
            errors.append(error)

    waiting = threading.Thread(target=call)
    waiting.start()
    assert agent.asked.wait(60)
    cluster._client.retire_workers([gone], close_workers=True, remove=True)
    agent.waits.set()
    waiting.join(60)
    assert until(lambda: cluster.alive() == {left})
    with pytest.raises(WorkerLost, match="was lost"):
        cluster.call(gone, "measure", b"x")
    assert cluster.call(left, "measure", b"x") == b"x"
    with cluster.builder() as builder:
        assert builder == left


class SilentScheduler:
    """A client whose scheduler has heard of its workers at these times."""

    status = "running"

    def __init__(self, **last_seen: float) -> None:
        self.last_seen = last_seen

    @property
    def scheduler(self) -> SilentScheduler:
        """The scheduler's end of calls."""
        return self

    def sync(self, call: Any, n_workers: int, callback_timeout: float) -> Any:
        """Call the scheduler."""
        assert callback_timeout == 30
        return call(n_workers)

    def identity(self, n_workers: int) -> dict[str, Any]:
        """Return all workers."""
        assert n_workers == -1
        workers = {
            name: {"last_seen": at_s, "resources": {BUILD: 1}}
            for name, at_s in self.last_seen.items()
        }
        return {"workers": workers}


def test_workers_that_are_silent_are_lost_even_if_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 1000.0
    monkeypatch.setattr("harness.fleet.cluster.time.monotonic", lambda: now_s)
    scheduler = SilentScheduler(one=5e9, two=5e9)  # its clock is another one
    cluster = Cluster(scheduler, "tcp://127.0.0.1:9")
    assert cluster.alive() == {"one", "two"}
    now_s += 29
    scheduler.last_seen["two"] += 29
    assert cluster.alive() == {"one", "two"}
    now_s += 2
    assert cluster.alive() == {"two"}
    now_s += 30
    assert cluster.alive() == frozenset()
    scheduler.last_seen["one"] += 60
    now_s += 1
    assert cluster.alive() == {"one"}, "its network was mended"


class StoppedScheduler(SilentScheduler):
    """A scheduler that is connected and does not answer."""

    asked = 0

    def sync(self, call: Any, n_workers: int, callback_timeout: float) -> Any:
        """Take longer than that."""
        self.asked += 1
        raise asyncio.TimeoutError

    def close(self, timeout: float) -> None:
        """Take longer than that."""
        raise asyncio.TimeoutError


def test_a_scheduler_that_hangs_is_lost() -> None:
    stopped = StoppedScheduler(one=5e9)
    cluster = Cluster(stopped, "tcp://127.0.0.1:9")
    for _ in range(2):
        with pytest.raises(SchedulerLost, match="does not answer any more"):
            cluster.alive()
    assert stopped.asked == 1, "the others do not wait as well"
    cluster.close()


def test_a_worker_of_another_version_is_refused(
    two: tuple[Any, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EchoAgent, "version", "0.0.1")
    with pytest.raises(UsageError, match=r"has harness 0\.0\.1.*install the same version"):
        two[1].members()


def test_too_few_workers_are_an_error(two: tuple[Any, Cluster]) -> None:
    with pytest.raises(BackendUnavailable, match="3 must be there"):
        two[1].wait_for_members(0.1, 3)


def test_no_scheduler_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.fleet.cluster._CONNECT_S", 0.2)
    with pytest.raises(BackendUnavailable, match="no scheduler answers at tcp"):
        Cluster.connect("tcp://127.0.0.1:9")


def test_an_encrypted_scheduler_needs_a_certificate() -> None:
    with pytest.raises(UsageError, match=r"tls\.ca-file` of Dask's settings is not set"):
        Cluster.connect("tls://127.0.0.1:9")


def test_a_worker_under_a_nanny_says_how_to_start_it(
    two: tuple[Any, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    with pytest.raises(BackendUnavailable, match=r"start it with `harness\.worker ADDRESS`"):
        two[1].wait_for_members(60, 1)


def test_an_offer_of_this_machine_can_be_sent() -> None:
    offer = Offer("0.1.0", "here", worker.find_devices(["0:0"]), 1)
    assert wire.decode(Offer, wire.encode(Offer, offer)) == offer


def test_a_tuning_ends_though_one_of_its_workers_is_killed(tmp_path: Path) -> None:
    database = tmp_path / "found.db"
    command = [
        *(sys.executable, "-m", "harness.tune", "spaces/mvmul.yaml", "--cluster", "local:2"),
        *("--inputs", "m * n <= 48000", "--test-limit", "2", "--repeats", "2"),
        *("--database", str(database), "--no-cross"),
    ]
    environment = {**os.environ, "HARNESS_CPU_PARTS": "2"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        hung = threading.Timer(240, process.terminate)  # it fails then, and waits no longer
        hung.start()
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line.decode())
            if "test 2 of 2" in lines[-1]:
                workers = _workers_of(process.pid)
                os.kill(workers[0], signal.SIGKILL)
                break
        lines += [line.decode() for line in process.stdout]
        hung.cancel()
    text = "".join(lines)
    assert process.returncode == 0, text
    ends = ("default is best", "within noise", "x [")
    assert sum(map(text.count, ends)) >= 2, text
    assert "distributed." not in text, "its log"
    assert re.search(
        r"device 0:\d.* failed 3 times in a row .* the worker tcp://\S+ was lost", text
    )


def _workers_of(parent: int) -> list[int]:
    """Return the workers that a process started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"harness.worker" in status.read_bytes():
                stat = (status.parent / "stat").read_text()
                if int(stat.rpartition(")")[2].split()[1]) == parent:
                    found.append(int(status.parent.name))
    return found
