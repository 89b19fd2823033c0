"""The digest of an input's data, by which a stored measurement is known to be of other data."""

import numpy as np
import pytest

from harness.core.records import Input
from harness.measure.devices import Backend
from harness.measure.kernels.data import argument_digests, make_kernel_data, sha256_of
from harness.measure.kernels.process import DeviceWorker

PAIR = np.dtype([("x", "<f4"), ("y", "<i4")])
DATA = {
    "x": np.arange(6, dtype=np.float32),
    "half": np.ones(3, np.float16),
    "pairs": np.zeros(2, PAIR),
    "n": np.int32(6),
    "pair": np.zeros((), PAIR)[()],
    "point": np.array(2.0),
}
HOST = """import numpy as np
SCRATCH, INOUT = ("t",), ("z",)
def arguments(features, rng):
    x, y = rng.random(2), np.full(2, UNSET)
    return {"x": x, "y": y, "z": np.ones(2), "t": np.ones(2)}
def reference(arguments):
    return {"y": arguments["x"], "z": arguments["x"]}
"""
THREE = Input({"n": 3})


def digest(**changes):
    return sha256_of(argument_digests({**DATA, **changes}), ())


def test_other_arguments_have_another_digest():
    cases = [
        {"x": DATA["x"].astype(np.int32)},
        {"x": DATA["x"].reshape(2, 3)},
        {"x": DATA["x"][::-1].copy()},
        {"pairs": np.array([(0, 0), (0, 1)], PAIR)},
        {"n": np.int32(7)},
        {"n": np.int64(6)},
        {"n": np.array(6, np.int32)},
        {"pair": np.array((0, 1), PAIR)[()]},
        {"more": np.int32(6)},
    ]
    assert digest() == digest(x=DATA["x"].copy())
    for changes in cases:
        assert digest(**changes) != digest()


def test_order_counts():
    assert sha256_of(argument_digests(dict(reversed(DATA.items()))), ()) != digest()


def test_of_what_no_run_sees_only_the_type_and_the_shape_count():
    def without_x(x):
        arguments = {**DATA, "x": x}
        without = sha256_of(argument_digests(arguments), {"x"})
        assert sha256_of(argument_digests(arguments, unread={"x"}), {"x"}) == without
        return without

    assert without_x(DATA["x"]) == without_x(DATA["x"] + 1) != digest()
    assert without_x(DATA["x"]) != without_x(DATA["x"][1:])


@pytest.fixture
def worker():
    """A worker that opens no device."""
    return DeviceWorker(Backend("opencl", "opencl", "it was requested"))


def write(path, text):
    path.write_text(text)
    return path


def test_outputs_and_scratch_are_no_data_and_inout_is(tmp_path):
    data = make_kernel_data(write(tmp_path / "a.py", HOST.replace("UNSET", "1")), THREE)
    assert data.unread == {"y", "t"}


def test_a_worker_says_what_the_data_are_now(worker, tmp_path):
    host = write(tmp_path / "a.py", HOST.replace("UNSET", "np.random.default_rng().random()"))
    first = worker.data_sha256(host, THREE, [])
    assert worker.data_sha256(host, THREE, []) == first, "what fills an output is no data"
    assert worker.data_sha256(host, Input({"n": 4}), [first]) not in (first, None)
    write(host, HOST.replace("UNSET", "1").replace("rng.random(2)", "rng.random(2) + 1"))
    assert worker.data_sha256(host, THREE, [first]) not in (first, None)
    write(host, HOST.replace("UNSET", "1").replace("= rng", "= np.random.default_rng()"))
    assert worker.data_sha256(host, THREE, [first]) is None


def test_data_like_the_stored_ones_are_made_once(worker, tmp_path):
    text = HOST.replace("UNSET", "1").replace("def ref", "    #\ndef ref")
    log = tmp_path / "log"
    text = text.replace('    return {"x"', f'    open(r"{log}", "a").write("a")\n    return {{"x"')
    host = write(tmp_path / "a.py", text)
    stored = [str(worker.data_sha256(host, Input({"n": n}), [])) for n in (3, 4)]
    log.unlink()
    for n in (3, 4):
        assert worker.data_sha256(host, Input({"n": n}), stored) in stored
    assert log.read_text() == "aa"
