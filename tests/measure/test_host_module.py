"""Host modules: their data, their reference, and whatever can be wrong with them."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from harness.core.errors import HostModuleError, LaunchFailed
from harness.core.program import Fill, Program
from harness.core.records import Config, Input, Outcome
from harness.host import Launch
from harness.measure.device.host_module import TrackedConfig
from harness.measure.device.verify import NAN
from harness.measure.kernels.data import make_kernel_data
from harness.measure.kernels.trial import measure_alone
from harness.stats.timing import Sampling
from tests.helpers.fake_kernels import fake_job, interleaved
from tests.helpers.fakes import FakeCompiler, FakeDevice, nothing
from tests.helpers.planted import assert_ok

GIVEN = Input({"n": 4})
GOOD = """\
import numpy as np

def arguments(features, rng):
    n = features["n"]
    return {"x": rng.random(n), "y": np.zeros(n), "n": np.int32(n)}

def reference(arguments):
    return {"y": 2 * arguments["x"]}
"""


@pytest.fixture
def write(tmp_path):
    """Writes a host module."""

    def written(text):
        path = tmp_path / "host.py"
        path.write_text(text)
        return path

    return written


def replaced(old, new):
    assert old in GOOD
    return GOOD.replace(old, new)


def test_equal_inputs_and_seeds_give_equal_data_and_others_other(write):
    path = write(GOOD)
    x = make_kernel_data(path, GIVEN).arguments["x"]
    np.testing.assert_array_equal(x, make_kernel_data(path, Input({"n": 4})).arguments["x"])
    assert not np.array_equal(x, make_kernel_data(path, GIVEN, seed=1).arguments["x"])
    assert not np.array_equal(x, make_kernel_data(path, Input({"n": 5})).arguments["x"][:4])


def test_outputs_hold_the_fill_and_read_arrays_their_content(write):
    fill = Fill(0x7B)
    assert make_kernel_data(write(GOOD), GIVEN).fresh({}, fill) == {"y": fill}
    case = make_kernel_data(write(GOOD + 'INOUT = ("y",)\n'), GIVEN)
    assert list(case.fresh({}, fill)) == ["y"]
    np.testing.assert_array_equal(case.fresh({}, fill)["y"], np.zeros(4))


def test_arrays_that_no_run_may_write_are_neither_outputs_nor_named(write):
    assert list(make_kernel_data(write(GOOD), GIVEN).read_only()) == ["x"]
    for kind in ("INOUT", "SCRATCH"):
        assert make_kernel_data(write(GOOD + f'{kind} = ("x",)\n'), GIVEN).read_only() == {}


def test_scratch_arrays_hold_no_numbers_before_a_run(write):
    case = make_kernel_data(write(GOOD + 'SCRATCH = ["x"]\n'), GIVEN)
    assert case.fresh({}, Fill(0x7B)) == {"x": NAN, "y": Fill(0x7B)}


def test_dataclass_in_a_host_module_works(write):
    head = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    make_kernel_data(write(head + "@dataclass\nclass A:\n    n: int\n" + GOOD), GIVEN)


def test_what_is_wrong_with_a_module_is_reported(write):
    cases = [
        ("arguments = 1 +\n", "SyntaxError"),
        ("import not_there\n", ":1: ModuleNotFoundError"),
        ("raise SystemExit(3)\n", ":1: SystemExit: 3"),
        ("def arguments(features, rng): ...\n", "`reference`"),
        (replaced('features["n"]', 'features["m"]'), r":4: .*KeyError: 'm'"),
        (replaced('{"y": 2 *', '{"y": 0 / 0 *'), ":8: .*ZeroDivision"),
        (replaced('return {"y": 2', 'exit(); return {"y": 2'), "raised SystemExit"),
        (replaced('{"y": 2 * arguments["x"]}', "None"), "NoneType"),
        (replaced('{"y": 2 * arguments["x"]}', "{}"), "must return a dict"),
        (replaced("np.int32(n)", "n"), "`n` with the type int"),
        (replaced("rng.random(n)", "rng.random(n).astype('>f8')"), "byte order"),
        (replaced("rng.random(n)", "np.array([None])"), "`x` with the dtype object"),
        (replaced("rng.random(n)", "rng.random(2 * n)[::2]"), "`x`.* not contiguous"),
        (replaced("rng.random(n)", "np.zeros(0)"), "`x`.* is empty"),
        (replaced('{"y":', '{"n":'), "`n`.* x, y"),
        (replaced('arguments["x"]}', 'arguments["x"][:3]}'), r"\(3,\).* \(4,\)"),
        (replaced('2 * arguments["x"]', '["a"] * 4'), "`y` has the dtype <U1"),
        (GOOD + 'INOUT = ("n",)\n', "INOUT names `n`"),
        (GOOD + 'INOUT = "y"\n', "INOUT must be a tuple"),
        (GOOD + 'SCRATCH = ("y",)\n', "SCRATCH names `y`, .*reference"),
        (GOOD + 'INOUT = SCRATCH = ("x",)\n', "SCRATCH names `x`, .*INOUT"),
        (GOOD + 'CONSTANT = ("y",)\n', "CONSTANT names `y`, which a run may write"),
        (GOOD + 'CONSTANT = ("n",)\n', "CONSTANT names `n`"),
        (GOOD + 'SCRATCH = ("z",)\n', "SCRATCH names `z`"),
        (replaced("rng.random(n)", "np.ones(1 << 50)"), ":5: .*MemoryError"),
    ]
    for text, reason in cases:
        path = write(text)
        with pytest.raises(HostModuleError, match=reason) as caught:
            make_kernel_data(path, GIVEN)
        assert str(path) in str(caught.value)


def test_reference_cannot_change_the_arguments(write):
    text = replaced('    return {"y"', '    arguments["x"] *= 2\n    return {"y"')
    with pytest.raises(HostModuleError, match=r":8: .* read-only"):
        make_kernel_data(write(text), GIVEN)


def test_missing_module_is_reported(tmp_path):
    for name, word in (("not_there.py", "FileNotFoundError"), ("host.txt", "Python file")):
        with pytest.raises(HostModuleError, match=word):
            make_kernel_data(tmp_path / name, GIVEN)


# ---------------------------------------------------------------------- several launches


HOST = """\
import numpy as np
from harness.host import Launch, Read

INOUT = ("x",)
SCRATCH = ("most",)

def arguments(features, rng):
    x = np.arange(1, 5, dtype=np.float32)
    return {"x": x, "y": np.zeros(4, np.float32), "most": np.zeros(1, np.float32)}

def reference(arguments):
    return {"y": arguments["x"] * 16}

def launches(arguments, config):
    reached = 0
    while reached < 16:
        yield Launch("double", (4,), (1,), ("x", "most"))
        if config["STEPS"] == 2:
            yield Launch("double", (4,), (1,), ("x", "most"))
        reached = (yield Read("most"))[0] / 4
    yield Launch("copy", (4,), (1,), ("x", "y"))
"""


def double(x, most):
    """x *= 2; most is the largest there is."""
    x *= 2
    most[0] = x.max()


def copy(x, y):
    """y = x"""
    y[...] = x


KERNELS = {"double": double, "copy": copy}
FUNCTIONS = ("double", "copy", "firsts", "firsts_packed")
BINARY = FakeCompiler().compile(Program("kernel double\nkernel copy", (), ()))


def job_of(**values):
    sampling = Sampling(repeats=3, min_repeats=2, precision=0.0)
    return fake_job(
        config=Config(values), binary=BINARY, sampling=sampling, launches=(), functions=FUNCTIONS
    )


def case_of(folder, text=HOST):
    path = folder / "host.py"
    path.write_text(text)
    return make_kernel_data(path, Input({"n": 4}))


def device_of(case, **kernels):
    """A device with these kernels in place of double and copy, and the arguments bound."""
    device = FakeDevice((), kernels or KERNELS)
    device.bind(case.arguments)
    return device


def test_host_module_decides_from_what_it_reads_what_is_launched_next(tmp_path):
    case = case_of(tmp_path)
    device = device_of(case)
    measured = measure_alone(device, case, job_of(STEPS=1))
    assert_ok(measured)
    # Four doublings and a copy, for each run: a verified one and the samples.
    assert len(device.launched) == 5 * (1 + measured.timing.count)
    both = interleaved(device, [case], [job_of(STEPS=1), job_of(STEPS=2)], rounds=2)
    assert_ok(*both)


@pytest.mark.parametrize(
    "arch, passed, constants",
    [("sm_90", [("x",), ("x", "y")], ("most",)), (None, [("x", "most"), ("x", "y")], ())],
)
def test_constants_are_passed_in_opencl_and_fill_variables_in_cuda(
    tmp_path, arch, passed, constants
):
    case = case_of(tmp_path, HOST.replace('SCRATCH = ("most",)', 'CONSTANT = ("most",)'))
    device = device_of(case, double=nothing, copy=nothing)
    launches = Launch("double", (4,), (1,), ("x", "most")), Launch("copy", (4,), (1,), ("x", "y"))
    job = replace(job_of(STEPS=1), arch=arch, launches=launches)
    measure_alone(device, case, job)
    launched = device.launches[:2]
    assert [launch.arguments for launch in launched] == passed
    assert {launch.constants for launch in launched} == {constants}


def test_occupancy_is_that_of_the_launches_that_are_yielded(tmp_path):
    case, job = case_of(tmp_path), job_of(STEPS=1)
    build = replace(job.binary.build, registers=32)
    binary = replace(job.binary, build=build)
    measured = measure_alone(device_of(case), case, replace(job, arch="sm_90", binary=binary))
    assert measured.observed["active_warps"] == 32, "of one warp each"


def test_time_of_a_run_is_the_sum_of_its_launches_and_its_clock_the_lowest(tmp_path):
    case = case_of(tmp_path)
    clocks_mhz = itertools.cycle((990, 970, 980))
    device = FakeDevice((1.0, 2.0, 4.0, 8.0, 16.0) * 9, KERNELS, clocks_mhz=clocks_mhz)
    device.bind(case.arguments)
    measured = measure_alone(device, case, job_of(STEPS=1))
    assert set(measured.timing.samples_s) == {31.0}
    assert measured.observed["sm_clock_mhz"] == 970


ALL_READ = {"STEPS", "FAST"}


def test_reads_of_a_host_module_are_recorded(tmp_path):
    cases = [
        ('config["STEPS"]', {"STEPS"}),
        ('config.get("MISSING", 2)', {"MISSING"}),
        ('"FAST" in config', {"FAST"}),
        ("len({**config})", ALL_READ),
        ("len(config)", ALL_READ),
        ("config | {}", ALL_READ),
        ("{} | config", ALL_READ),
        ("config.copy()", ALL_READ),
        ("config == {}", ALL_READ),
        ('f"{config}"', ALL_READ),
        ("list(config.values())", ALL_READ),
    ]
    for reads, read in cases:
        text = HOST.replace('config["STEPS"] == 2', f"({reads}) is None")
        config = TrackedConfig(Config({"STEPS": 2, "FAST": True}))
        steps = case_of(tmp_path, text).launches(config, FUNCTIONS)
        next(steps)
        assert config.read == set()
        steps.send(None)
        assert config.read == read


def test_a_configuration_cannot_be_read_without_a_record(tmp_path):
    for bypass in ["eval('STEPS', config)", "dict.get(config, 'STEPS')"]:
        case = case_of(tmp_path, HOST.replace('config["STEPS"] == 2', bypass))
        with pytest.raises(LaunchFailed, match="TypeError"):
            list(case.launches(TrackedConfig(Config({"STEPS": 2})), FUNCTIONS))


def test_a_measurement_records_what_launches_and_arrange_read(tmp_path):
    case = case_of(tmp_path)
    assert measure_alone(device_of(case), case, job_of(STEPS=1, V=1)).host_read == ("STEPS",)
    text = ARRANGED.replace('"firsts_packed" if config["PACKED"] else "firsts"', '"firsts_packed"')
    case = case_of(tmp_path, text)
    measured = measure_alone(arranged_device(case), case, arranged_job(1))
    assert (measured.outcome, measured.host_read) == (Outcome.OK, ("PACKED",))


def test_a_failure_records_what_was_read_before_it(tmp_path):
    case = case_of(tmp_path, HOST.replace('yield Launch("copy"', 'yield ("copy"'))
    measured = measure_alone(device_of(case), case, job_of(STEPS=1))
    assert (measured.outcome, measured.host_read) == (Outcome.LAUNCH_FAILED, ("STEPS",))


def test_scalar_of_a_launch_needs_no_name(tmp_path):
    text = ARRANGED.replace('("pairs", "y"))', '(np.int32(3), "y"))')
    (launch,) = case_of(tmp_path, text).launches(TrackedConfig(Config({"PACKED": 1})), FUNCTIONS)
    assert launch.arguments == (np.int32(3), "y")


def test_faults_of_launches_are_reported(tmp_path):
    cases = [
        ('Read("most")', 'Read("moss")', "`moss`.* x, y, most"),
        ('("x", "y"))', '("x", "z"))', "names `z`"),
        ('yield Launch("copy"', 'yield ("copy"', "must yield"),
        ("reached = 0\n", "reached = 1 / 0\n", r":15: .*ZeroDivisionError.* \(STEPS=1\)"),
        ("while reached < 16:", "return\n    while True:", "yielded no Launch"),
        ("def launches", "def lunches", "`launches`"),
        ('yield Launch("copy"', 'yield Launch("coyp"', "`coyp`"),
        ('("x", "y"))', '("x", 3))', r"np.int32\(3\)"),
        ('("x", "y"))', '"xy")', "'xy'"),
        ('("x", "y"))', '("x", np.zeros(2)))', "tuple of names"),
        ('"copy", (4,)', '"copy", (4.0,)', "4.0"),
        ('"copy", (4,)', '"copy", (0,)', r"\(0, 1, 1\) of copy"),
    ]
    for old, new, reason in cases:
        assert old in HOST
        case = case_of(tmp_path, HOST.replace(old, new))
        measured = measure_alone(device_of(case), case, job_of(STEPS=1))
        assert measured.outcome is Outcome.LAUNCH_FAILED
        assert re.search(reason, measured.message)


# ------------------------------------------------------------------------------- arrange

ARRANGED = """\
import numpy as np
from harness.host import Launch

def arguments(features, rng):
    return {"pairs": np.arange(8, dtype=np.float32).reshape(4, 2), "y": np.zeros(4, np.float32)}

def reference(arguments):
    return {"y": arguments["pairs"][:, 0]}

def launches(arguments, config):
    function = "firsts_packed" if config["PACKED"] else "firsts"
    yield Launch(function, (4,), (1,), ("pairs", "y"))

def arrange(arguments, config):
    return {} if config["PACKED"] else {"pairs": np.ascontiguousarray(arguments["pairs"].T)}
"""


def firsts_packed(pairs, y):
    """The first of each pair, pairs packed."""
    y[...] = pairs.reshape(4, 2)[:, 0]


def firsts(pairs, y):
    """The first of each pair, firsts before seconds."""
    y[...] = pairs.reshape(2, 4)[0]


def arranged_device(case):
    return device_of(case, firsts=firsts, firsts_packed=firsts_packed)


def arranged_job(packed):
    binary = FakeCompiler().compile(Program("kernel firsts\nkernel firsts_packed", (), ()))
    return replace(job_of(PACKED=packed), binary=binary)


def test_each_configuration_finds_the_data_as_it_arranges_them(tmp_path):
    case = case_of(tmp_path, ARRANGED)
    device = arranged_device(case)
    measured = [measure_alone(device, case, arranged_job(packed)) for packed in (1, 0, 1, 0, 0, 1)]
    measured += interleaved(device, [case], [arranged_job(1), arranged_job(0)], rounds=3)
    assert_ok(*measured)


def test_interleaved_configurations_all_write_what_one_arranges(tmp_path):
    case = case_of(tmp_path, ARRANGED)
    arranged = case.arranged(TrackedConfig(Config({"PACKED": 0})))
    for together, written in ((False, ["pairs"]), (False, []), (True, ["pairs"])):
        assert [*case.to_write(arranged, together)] == written
    case.bound_again()
    assert case.to_write(arranged, interleaved=False)


def test_array_that_is_arranged_and_overwritten_is_restored_as_arranged(tmp_path):
    case = case_of(tmp_path, "INOUT = ('pairs',)\n" + ARRANGED)

    def spoiling(kernel):
        def spoils(pairs, y):
            kernel(pairs, y)
            pairs[...] = -1

        return spoils

    device = device_of(case, firsts=spoiling(firsts), firsts_packed=spoiling(firsts_packed))
    jobs = [arranged_job(1), arranged_job(0)]
    measured = [measure_alone(device, case, job) for job in jobs]
    measured += interleaved(device, [case], jobs, rounds=3)
    assert_ok(*measured)


def test_faults_of_arrange_are_reported(tmp_path):
    cases = [
        ("{'y': arguments['y']}", "`y`"),
        ("{'z': arguments['y']}", "`z`"),
        ("{'pairs': arguments['y']}", "size or dtype"),
        ("None", "NoneType"),
        ("{'pairs': arguments['pairs'].T}", "not contiguous"),
    ]
    for returned, reason in cases:
        case = case_of(tmp_path, ARRANGED.replace("{} if", f"{returned} if"))
        with pytest.raises(LaunchFailed, match=reason):
            case.arranged(TrackedConfig(Config({"PACKED": 1})))
