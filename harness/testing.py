"""Contract tests, with pytest, for those who write a backend: what its compiler and device must do.

A test module inherits them, after `pytest.register_assert_rewrite("harness.testing")`:

class TestMine(CompilerContract, DeviceContract):
    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> ExampleBackend:
        return ExampleBackend(MyCompiler(), MyDevice, SOURCE_OF_TWICE)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from harness.core.errors import BuildFailed, LaunchFailed
from harness.core.program import Binary, Fill, Launch, Program
from harness.measure.device.arguments import OutsideWrite
from harness.measure.device.launcher import Compiler, Device
from harness.measure.device.verify import NAN

X: npt.NDArray[Any] = np.arange(1, 65, dtype=np.float32)
LAUNCH = Launch("twice", (32,), (2,), ("x", "y"))
ARRAYS: tuple[npt.NDArray[Any], ...] = (
    np.arange(12, dtype=np.float32).reshape(3, 4),
    np.array([-(2**62), 2**62], np.int64),
    np.array([1.5, np.nan, np.inf], np.float16),
    np.array([True, False]),
    np.array([1 + 2j], np.complex64),
    np.array(3.5),
    np.arange(6.0).reshape(2, 3).T,
    np.arange(5, dtype=np.uint8),
)
WRONG = {
    "a group beyond the device": replace(LAUNCH, group=(1 << 20,)),
    "a group beyond the device in one dimension": Launch("twice", (1, 1, 1 << 20), (1, 1, 1), ()),
    "a grid of nothing": replace(LAUNCH, grid=(0,)),
    "a kernel that is not there": replace(LAUNCH, function="thrice"),
    "an argument that is not bound": replace(LAUNCH, arguments=("x", "z")),
}


@dataclass(frozen=True)
class ExampleBackend:
    """A compiler, a function that opens its device, and the source of a kernel for them.

    The kernel is `twice`: the work-item i writes y[i] = 2 * x[i], arrays of float32. The first line
    of the kernel follows `#line 1 "kernel"`.
    """

    compiler: Compiler
    open_device: Callable[[], Device]
    text: str

    def build(self) -> Binary:
        """Compile the kernel."""
        return self.compiler.compile(Program(self.text, (), ()))


class CompilerContract:
    """Tests of a compiler: a subclass, or its module, has the fixture `backend`."""

    def test_build_goes_by_the_programs_key_under_the_compiler(
        self, backend: ExampleBackend
    ) -> None:
        program = Program(backend.text, (), ())
        build = backend.compiler.compile(program).build
        assert build.key == program.key(backend.compiler.identity)
        assert build.compiler == backend.compiler.identity
        assert build.compile_s > 0
        assert not build.cached

    def test_identity_stays_the_same(self, backend: ExampleBackend) -> None:
        first = backend.compiler.identity
        backend.build()
        assert backend.compiler.identity == first
        assert len(first) > 8

    def test_equal_programs_give_equal_binaries(self, backend: ExampleBackend) -> None:
        one, other = backend.build(), backend.build()
        assert one.data == other.data
        assert one.build.binary_sha256 == other.build.binary_sha256

    def test_refused_program_fails_with_the_compilers_log(self, backend: ExampleBackend) -> None:
        text = f"{backend.text.rstrip()}\n#error no such thing\n"
        line = text.split('"kernel"\n')[-1].splitlines().index("#error no such thing") + 1
        with pytest.raises(BuildFailed, match="no such thing") as caught:
            backend.compiler.compile(Program(text, (), ()))
        assert f"kernel:{line}:" in str(caught.value).replace("(", ":").replace(")", ":")


class DeviceContract:
    """Tests of a device: a subclass, or its module, has the fixture `backend`."""

    @pytest.fixture(scope="class")
    @classmethod
    def opened(cls, backend: ExampleBackend) -> Device:
        """The device."""
        return backend.open_device()

    @pytest.fixture(scope="class")
    @classmethod
    def binary(cls, backend: ExampleBackend) -> Binary:
        """The kernel `twice`."""
        return backend.build()

    @pytest.fixture
    def device(self, opened: Device) -> Device:
        """The device, with the arguments of `twice` bound."""
        opened.bind({"x": X, "y": np.zeros(64, np.float32)})
        return opened

    @pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
    def test_bound_array_is_read_as_it_was(self, opened: Device, array: npt.NDArray[Any]) -> None:
        array.flags.writeable = False
        opened.bind({"a": array, "n": np.int32(1)})
        found = opened.arguments.read("a")
        assert (found.shape, found.dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(found, array)

    def test_device_keeps_copies(self, opened: Device) -> None:
        array = np.ones(4, np.float32)
        opened.bind({"a": array})
        array[:] = 5
        found = opened.arguments.read("a")
        np.testing.assert_array_equal(found, np.ones(4))
        found[:] = 7
        np.testing.assert_array_equal(opened.arguments.read("a"), np.ones(4))

    def test_written_array_replaces_the_bound_one(self, device: Device) -> None:
        device.arguments.write("y", X)
        np.testing.assert_array_equal(device.arguments.read("y"), X)
        device.arguments.write("y", np.repeat(X, 2)[::2] + 1)
        np.testing.assert_array_equal(device.arguments.read("y"), X + 1)

    def test_part_of_an_array_is_read_flat(self, opened: Device) -> None:
        opened.bind({"a": np.arange(12, dtype=np.int64).reshape(3, 4)})
        assert opened.arguments.read("a", slice(3, 6)).tolist() == [3, 4, 5]

    @pytest.mark.parametrize("shape", [(63, "f4"), (64, "f8"), ((8, 8), "f4")], ids=str)
    def test_writing_another_shape_or_dtype_is_refused(self, device: Device, shape: Any) -> None:
        with pytest.raises(ValueError, match=r"y is bound as float32\[64\]"):
            device.arguments.write("y", np.zeros(*shape))

    def test_restored_array_holds_its_content_as_often_as_it_is_restored(
        self, device: Device
    ) -> None:
        first, second = X + 1, X + 2
        for content in (first, first, second, first):
            device.arguments.write("y", X)
            device.arguments.restore({"y": content})
            np.testing.assert_array_equal(device.arguments.read("y"), content)
        device.arguments.restore({"y": NAN, "x": Fill(0)})
        assert np.isnan(device.arguments.read("y")).all()
        assert not device.arguments.read("x").any()
        device.bind({"x": X, "y": np.zeros_like(X)})
        np.testing.assert_array_equal(device.arguments.read("y"), np.zeros(64))
        with pytest.raises(ValueError, match="y is bound as float32"):
            device.arguments.restore({"y": X[1:]})

    def test_writes_around_an_array_are_found_and_mended(
        self, device: Device, binary: Binary
    ) -> None:
        assert device.arguments.outside_writes() == []
        module = device.load(binary)
        device.launch(module, [replace(LAUNCH, group=(1,), grid=(127,))])
        assert device.arguments.outside_writes() == [OutsideWrite("y", 63, behind=True)]
        assert device.arguments.outside_writes() == []
        np.testing.assert_array_equal(device.arguments.read("y"), 2 * X)
        np.testing.assert_array_equal(device.arguments.read("x"), X)

    def test_reads_around_an_array_spoil_the_result(self, device: Device, binary: Binary) -> None:
        device.bind({"x": X[:32], "y": X})
        device.launch(device.load(binary), [LAUNCH])
        found = device.arguments.read("y")[32:]
        assert np.isnan(found[::2]).all()
        assert (found[1::2] > 1000).all()

    def test_binding_again_forgets_what_was_bound(self, device: Device) -> None:
        device.bind({"z": X})
        for name in ("x", "y"):
            with pytest.raises(ValueError, match=f"{name} is not a bound array"):
                device.arguments.read(name)

    def test_launch_computes_and_takes_time(self, device: Device, binary: Binary) -> None:
        elapsed_s = device.launch(device.load(binary), [LAUNCH])
        assert 0 < elapsed_s < 10
        np.testing.assert_array_equal(device.arguments.read("y"), 2 * X)
        np.testing.assert_array_equal(device.arguments.read("x"), X)

    def test_launches_run_in_order_and_their_times_add_up(
        self, device: Device, binary: Binary
    ) -> None:
        onwards = replace(LAUNCH, arguments=("y", "x"))
        assert device.launch(device.load(binary), [LAUNCH, onwards]) > 0
        np.testing.assert_array_equal(device.arguments.read("x"), 4 * X)

    def test_module_outlives_a_new_binding(self, device: Device, binary: Binary) -> None:
        module = device.load(binary)
        device.launch(module, [LAUNCH])
        device.bind({"x": X + 1, "y": np.zeros_like(X)})
        device.launch(module, [LAUNCH])
        np.testing.assert_array_equal(device.arguments.read("y"), 2 * (X + 1))

    @pytest.mark.parametrize("launch", WRONG.values(), ids=WRONG)
    def test_wrong_launch_fails_and_the_device_knows_whether_it_still_works(
        self, device: Device, binary: Binary, launch: Launch
    ) -> None:
        with pytest.raises(LaunchFailed) as caught:
            device.launch(device.load(binary), [launch])
        assert len(str(caught.value)) > 10
        assert device.is_lost != _still_works(device, binary)

    @pytest.mark.parametrize("data", [b"", b"junk", b"S{", b"\x7fELF\x02\x01\x01"])
    def test_broken_binary_fails_to_load(self, device: Device, binary: Binary, data: bytes) -> None:
        with pytest.raises(LaunchFailed):
            device.load(replace(binary, data=data))
        assert not device.is_lost
        assert _still_works(device, binary)

    def test_limits_are_plausible(self, opened: Device) -> None:
        limits = opened.limits
        assert 64 <= limits.max_group_size <= 1 << 20
        assert all(1 <= extent <= limits.max_group_size for extent in limits.max_group_dims)
        assert all(extent >= 65_535 for extent in limits.max_grid_dims)
        assert 1 << 14 <= limits.max_local_bytes <= 1 << 30
        assert 1 <= limits.compute_units <= 100_000
        assert limits.warp_size in (1, 8, 16, 32, 64)

    def test_environment_and_limits_stay_the_same_when_opened_again(
        self, opened: Device, backend: ExampleBackend
    ) -> None:
        again = backend.open_device()
        found = opened.environment("a compiler")
        assert all((found.backend, found.device, found.platform, found.driver, found.compiler))
        assert again.environment("a compiler") == found
        assert again.environment("a compiler").fingerprint == found.fingerprint
        assert again.limits == opened.limits
        assert again.shares_cpu == opened.shares_cpu


def _still_works(device: Device, binary: Binary) -> bool:
    """Whether the device still computes after a failure."""
    device.launch(device.load(binary), [LAUNCH])
    return np.array_equal(device.arguments.read("y"), 2 * X)
