"""Names of kernels in a space that are more than a word, with a template's arguments."""

import shutil

import pytest

from harness.core.errors import SpecError
from harness.core.kernel_name import check_kernel_name, plain_name
from harness.core.records import Config
from harness.space import ConstrainedSpace
from harness.space.constrained import make_program
from harness.space_file import load_spec
from tests import DATA


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "scale.cu").write_text("__global__ void scale(float *x) { x[0] = BLOCK; }")
    files = DATA / "bad_specs" / "files"
    shutil.copy(files / "scale.py", tmp_path)
    (tmp_path / "space.yaml").write_text("""\
name: scale
kernel:
  function: scale<UNROLL>
  source: scale.cu
  host: scale.py
parameters:
  BLOCK: {type: power_of_two, min: 16, max: 256, role: launch, default: 64}
  UNROLL: {values: [1, 2, 4], default: 1}
launch: {group: [BLOCK], grid: ["ceil_div(n, BLOCK * UNROLL)"]}
inputs: {features: [n], values: [{n: 1024}, {n: 4096}]}
""")
    return tmp_path


def test_parameter_may_stand_in_the_kernels_name_alone(folder):
    path = folder / "space.yaml"
    path.write_text(path.read_text().replace("BLOCK * UNROLL)", "BLOCK)"))
    assert load_spec(path).functions == ("scale<UNROLL>",)
    path.write_text(path.read_text().replace("scale<UNROLL>", "scale<2>"))
    with pytest.raises(SpecError, match=r"`UNROLL` .* scale\.cu"):
        load_spec(path)


def test_macro_named_as_a_template_parameter_needs_a_place_in_the_name(folder):
    path = folder / "space.yaml"
    (folder / "scale.cu").write_text("template <int UNROLL> __global__ void scale(float *x) {}")
    load_spec(path)
    path.write_text(path.read_text().replace("scale<UNROLL>", "scale<2>"))
    with pytest.raises(SpecError, match=r"UNROLL: .* `scale<UNROLL>`"):
        load_spec(path)


def test_text_that_names_no_kernel_is_refused():
    for text in ("", "a b", "f<1", "f<int>; x", "f(\nint)", "::f", "1f", "f<>"):
        with pytest.raises(ValueError, match="names no kernel"):
            check_kernel_name(text)


def test_opencl_takes_the_word_of_a_name():
    names = ("scale", "lib::deep::scale<A<4>, (2 > 1)>", "scale<4>(float *, int)", "scale(int)")
    assert {plain_name(check_kernel_name(name)) for name in names} == {"scale"}


def test_parameter_named_as_a_template_parameter_is_its_argument_alone(folder):
    (folder / "scale.cu").write_text(
        "// template <int BLOCK>\n#if BLOCK < 32\n#error small\n#endif\n"
        "template <typename T, int UNROLL = (3 > 2), template <int> class Q = Box>\n"
        "__global__ void scale(T *x) { x[0] = UNROLL; }"
    )
    path = folder / "space.yaml"
    path.write_text(path.read_text().replace("scale<UNROLL>", "scale<float, UNROLL * BLOCK>"))
    spec = load_spec(path)
    assert spec.sources["cuda"].template_names == {"T", "UNROLL", "Q"}
    space = ConstrainedSpace.of(spec, spec.inputs[0], None)
    lines = make_program(spec, space, Config({"BLOCK": 64, "UNROLL": 2}), "cuda").text.splitlines()
    assert lines[:2] == ["#define BLOCK 64", '#line 1 "scale.cu"']
    assert lines[-3:-1] == ["#define UNROLL 2", '#line 1 "kernel.function"']
    assert "&scale<float, UNROLL * BLOCK>" in lines[-1]
