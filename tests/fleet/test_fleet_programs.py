"""Measure programs on other machines: what travels, and a worker that builds, runs and verifies."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness.fleet.remote_programs import ProgramOpener, RemotePrograms

from harness.core.errors import BackendUnavailable, UsageError
from harness.core.records import Config, Input, Outcome
from harness.fleet import worker
from harness.fleet.agent import Agent
from harness.fleet.bundle import Bundle, pack_program
from harness.fleet.cluster import FleetDevice
from harness.fleet.measurers import FleetRequest, fleet_measurers
from harness.measure.choose import fitted_to
from harness.measure.programs.measurer import ProgramMeasurer
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec, make_spec
from tests.helpers.dask_workers import two_workers
from tests.helpers.fake_kernels import measure_programs_here

SPACE = """\
name: script
program:
  sources: [../source/script.sh]
  build: [../source/make.sh, "{source}", "{output}", "{MODE}"]
  run: ["{output}", "{n}"]
  files: ["data_{n}.txt"]
  time: {pattern: 'took (\\d+) us', unit: us}
parameters:
  MODE: {values: [right, wrong, fails, broken], default: right}
inputs: {features: [n], values: [{n: 3}, {n: 4}]}
verify: {against: {host: check.py}}
measure: {repeats: 3, min_repeats: 2, warmup: 1, precision: 0}
"""
MAKE = """\
#!/bin/sh
test $3 = broken && { echo "no such mode" >&2; exit 1; }
{ echo "#!/bin/sh"; echo "mode=$3"; cat "$1"; } > "$2"
"""
SCRIPT = """\
test $mode = fails && kill -SEGV $$
test $mode = wrong || cat data_$1.txt
echo "took 1000 us"
"""
CHECK = """\
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import sums_of_fleet as helper

def check(run):
    found, expected = run.stdout.split()[0], helper.expected(run.features["n"])
    return None if found == expected else f"it is {found}, not {expected}"
"""


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Programs are measured by this process, with a cache that no other test fills."""
    measure_programs_here(monkeypatch)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("HARNESS_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    files = {
        "spaces/space.yaml": SPACE,
        "spaces/check.py": CHECK,
        "spaces/sums_of_fleet.py": "def expected(n):\n    return f'sum{n}'\n",
        "spaces/data_3.txt": "sum3\n",
        "spaces/data_4.txt": "sum4\n",
        "source/make.sh": MAKE,
        "source/script.sh": SCRIPT,
        "source/unused.sh": "",
    }
    for name, text in files.items():
        path = tmp_path / "user" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "user" / "source" / "make.sh").chmod(0o755)
    return load_spec(tmp_path / "user" / "spaces" / "space.yaml")


class Loopback:
    """Carries requests to an agent of this process."""

    def __init__(self, agent: Agent) -> None:
        self.measure, self.program, self.store = agent.measure, agent.program, agent.store


@pytest.fixture
def agent() -> Iterator[Agent]:
    with contextlib.closing(Agent([worker.this_machine()], 0)) as made:
        yield made


def _opened(spec: Spec, agent: Agent, driver: str = "this") -> RemotePrograms:
    device = FleetDevice(agent.offer().devices[0], "here", Loopback(agent))
    return ProgramOpener(spec, driver).open(device)


def _mode(name: str) -> Config:
    return Config({"MODE": name})


def test_all_files_that_a_space_names_travel(spec: Spec) -> None:
    bundle = pack_program(spec).bundle
    names = {name.partition("/")[2] for name in bundle.files}
    assert names == {
        *("space.yaml", "check.py", "sums_of_fleet.py", "data_3.txt", "data_4.txt"),
        *("script.sh", "make.sh"),
    }
    assert bundle.executables == ("source/make.sh",)
    assert Bundle(bundle.files).digest != bundle.digest


def test_files_of_the_inputs_of_a_workload_travel_with_those_of_the_space(spec: Spec) -> None:
    other = dataclasses.replace(spec, inputs=(Input({"n": 5}),))
    with pytest.raises(UsageError, match=r"data_5.txt: no such file, and \S+space.yaml names it"):
        pack_program(other)
    (spec.path.parent / "data_5.txt").write_text("sum5\n")
    names = {Path(name).name for name in pack_program(other).bundle.files}
    assert {f"data_{n}.txt" for n in (3, 4, 5)} <= names


def test_a_space_of_python_is_refused() -> None:
    program = {"run": ["true", "{A}", "{n}"], "time": "wall"}
    parameters = {"A": {"values": [1, 2], "default": 1}}
    inputs = {"features": ["n"], "values": [{"n": 1}]}
    keys = {"name": "one", "program": program, "parameters": parameters, "inputs": inputs}
    spec = make_spec(keys, Path())
    with pytest.raises(UsageError, match="write it to a YAML file for --cluster"):
        pack_program(spec)


def test_a_worker_builds_runs_and_verifies_without_the_users_files(
    spec: Spec, agent: Agent, tmp_path: Path
) -> None:
    opener = ProgramOpener(spec, "this")
    (tmp_path / "user").rename(tmp_path / "elsewhere")
    device = FleetDevice(agent.offer().devices[0], "here", Loopback(agent))
    with contextlib.closing(opener.open(device)) as remote:
        space = ConstrainedSpace.of(spec, Input({"n": 3}), remote.limits, remote.compiler)
        remote.recall(Input({"n": 3}), [])
        remote.expect(space, [_mode("right"), _mode("broken")])
        found = {
            mode: remote.measure(space, Input({"n": 3}), _mode(mode), None)
            for mode in ("right", "wrong", "fails", "broken")
        }
        outcomes = [each.outcome.value for each in found.values()]
        assert outcomes == ["ok", "wrong_result", "crashed", "build_failed"]
        assert "not sum3" in found["wrong"].message
        assert "no such mode" in found["broken"].message
        pair = remote.measure_interleaved(
            space, Input({"n": 4}), [_mode("right"), _mode("wrong")], 2
        )
        assert [each.outcome for each in pair] == [Outcome.OK, Outcome.WRONG_RESULT]
        (tmp_path / "elsewhere").rename(tmp_path / "user")
        with contextlib.closing(ProgramMeasurer(spec)) as local:
            assert local.environment.fingerprint == remote.environment.fingerprint
            assert fitted_to(spec, local) == fitted_to(spec, remote)


def test_a_machine_has_one_driver_at_a_time(spec: Spec, agent: Agent) -> None:
    first = _opened(spec, agent)
    with pytest.raises(BackendUnavailable, match="used by another driver"):
        _opened(spec, agent, "another")
    again = _opened(spec, agent)
    first.close()  # late: it has lost the machine
    with pytest.raises(BackendUnavailable, match="used by another driver"):
        _opened(spec, agent, "another")
    again.close()
    _opened(spec, agent, "another").close()


def test_other_files_on_the_worker_are_noticed(spec: Spec, agent: Agent) -> None:
    opener = ProgramOpener(spec, "this")
    opener._session = dataclasses.replace(opener._session, sha256="0" * 64)
    device = FleetDevice(agent.offer().devices[0], "here", Loopback(agent))
    with pytest.raises(BackendUnavailable, match="finds other files than this machine"):
        opener.open(device)


def test_a_machine_without_a_device_offers_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> None:
        raise BackendUnavailable("no OpenCL here")

    monkeypatch.setattr(worker, "find_devices", nothing)
    offer = worker._made((), 1).offer()
    assert [device.backend for device in offer.devices] == [None]
    assert "no OpenCL here" in offer.unavailable[0]
    with pytest.raises(BackendUnavailable, match="no OpenCL here"):
        worker._made(("H200",), 1)


def test_a_cluster_on_this_machine_is_refused(spec: Spec) -> None:
    request = FleetRequest("local:2", (), 1, False, "this", print)
    with pytest.raises(UsageError, match="one program at a time"), fleet_measurers(spec, request):
        pass


def test_a_fleet_measures_a_program_over_dask(
    spec: Spec, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SPACE.replace("{against: {host: check.py}}", "{}")  # check() needs a main thread
    spec.path.write_text(text)
    spec = load_spec(spec.path)
    monkeypatch.setattr(worker, "_agents", [agent])
    with two_workers(builds=0) as local:
        request = FleetRequest(local.scheduler_address, (), 2, False, "this", print)
        with fleet_measurers(spec, request) as fleet:
            (measurer,) = fleet.opened.measurers.values()  # two workers of one machine
            space = ConstrainedSpace.of(spec, Input({"n": 3}), None)
            found = measurer.measure(space, Input({"n": 3}), _mode("right"), None)
            assert found.outcome is Outcome.OK, found.message
            assert measurer.environment.device.endswith("cores")
            measurer.close()
