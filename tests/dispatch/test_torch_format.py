"""Operators of PyTorch with a dispatcher inside, on the CPU. PyTorch reads the annotations."""

import importlib
import sys
from typing import Any

import numpy as np
import pytest

from harness.space_file import load_spec
from tests import ROOT
from tests.helpers.dispatch_examples import mvmul_program, write_for_opencl

torch = pytest.importorskip("torch", reason="PyTorch is not here: pip install torch")
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The module that makes operators, of mvmul on the OpenCL device that is here."""
    folder = tmp_path_factory.mktemp("torch") / "out"
    spec = load_spec(ROOT / "spaces" / "mvmul.yaml")
    write_for_opencl(folder, spec, mvmul_program())
    sys.path.insert(0, str(folder))
    yield importlib.import_module("mvmul.torch_op")
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == "mvmul"]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def product(written):
    """matrix product by a function of PyTorch; what is chosen shows in its result."""

    @written.operator(
        "harness_test::product",
        features=lambda matrix, vector: {"m": matrix.shape[0], "n": matrix.shape[1]},
    )
    def product(chosen: Any, matrix: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
        return (matrix @ vector) * chosen.config["LU"] * chosen.config["THRD"]

    product.register_fake(lambda matrix, vector: matrix.new_empty(matrix.shape[0]))
    return product


SHAPES = {(64, 32): 16, (128, 64): 64, (128, 512): 128, (8, 8): 64}
"""Shapes, each with the factor of the configuration that is chosen; the last is not tuned."""


def inputs(m, n):
    return torch.ones(m, n), torch.ones(n)


def test_compiled_code_has_the_operator_and_chooses_at_run_time(product):
    @torch.compile(backend="aot_eager", fullgraph=True, dynamic=True)
    def compiled(matrix, vector):
        return product(matrix + 1, vector) - 1

    with torch._dynamo.config.patch(error_on_recompile=True):
        for (m, n), factor in SHAPES.items():
            assert compiled(*inputs(m, n)).tolist() == [2 * n * factor - 1] * m


def test_operators_follow_the_rules_of_pytorch(written, product):
    torch.library.opcheck(product, inputs(64, 32))

    @written.operator("harness_test::scaled", mutates_args=("y",))
    def scaled(chosen: Any, y: torch.Tensor, m: int, n: int = 32) -> None:
        y.mul_(chosen.config["THRD"])

    torch.library.opcheck(scaled, (torch.ones(4), 64))
    with torch._subclasses.FakeTensorMode():
        assert product(*inputs(64, 32)).shape == (64,)


def test_kernel_of_the_dispatcher_runs_on_tensors(written):
    @written.operator("harness_test::mvmul", mutates_args=("y",))
    def mvmul(
        chosen: Any, matrix: torch.Tensor, vector: torch.Tensor, y: torch.Tensor, m: int, n: int
    ) -> None:
        chosen.launch(matrix, vector, y, np.int32(m), np.int32(n))

    @torch.compile(backend="aot_eager", fullgraph=True)
    def compiled(matrix, vector):
        y = torch.full((matrix.shape[0],), torch.nan)
        mvmul(matrix, vector, y, matrix.shape[0], matrix.shape[1])
        return y + 1

    for m, n in ((64, 32), (128, 512)):
        matrix, vector = torch.randint(1, 4, (m, n)).float(), torch.randint(1, 4, (n,)).float()
        assert torch.equal(compiled(matrix, vector), matrix @ vector + 1)
    matrix, vector = torch.ones(64, 64), torch.ones(32)
    with pytest.raises(ValueError, match=r"mvmul needs contiguous tensors, but got one of shape"):
        mvmul(matrix[:, ::2], vector, torch.ones(64), 64, 32)


def test_each_call_of_an_operator_is_counted_once(written, tmp_path):
    @written.operator("harness_test::counted", mutates_args=("y",))
    def counted(
        chosen: Any, matrix: torch.Tensor, x: torch.Tensor, y: torch.Tensor, m: int, n: int
    ) -> None:
        if n != 32:
            assert chosen.config["LU"]
        chosen.launch(matrix, x, y, np.int32(m), np.int32(n))
        assert chosen.config["THRD"] == SHAPES[m, n]

    dispatcher = sys.modules["mvmul"]
    dispatcher.count_calls(tmp_path / "mvmul.csv")
    for m, n in ((64, 32), (8, 8)):
        counted(*inputs(m, n), torch.empty(m), m, n)
    dispatcher.count_calls(None)
    lines = (tmp_path / "mvmul.csv").read_text().splitlines()[2:]
    assert [line.split(",")[:3] for line in lines] == [["64", "32", "1"], ["8", "8", "1"]]


def test_features_that_no_argument_names_must_be_computed(written):
    with pytest.raises(TypeError, match="mvmul chooses by m, n, but a::b has no argument n; comp"):

        @written.operator("a::b")
        def b(chosen, m): ...
