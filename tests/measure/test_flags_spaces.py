"""Flags that a space names from a catalogue: what the space then holds, and what a compiler that
is asked leaves of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from harness.core.errors import BuildFailed
from harness.core.program import Binary, Program
from harness.core.records import Build, Config, Measurement, Outcome, Timing
from harness.measure.flags import fitted_to_backend, fitted_to_program
from harness.measure.kernels.measurer import KernelMeasurer
from harness.measure.kernels.runner import BIT_EXACT
from harness.space import ConstrainedSpace
from harness.space_file import Parameter, Spec, load_spec
from tests.helpers.fake_kernels import write_fake
from tests.helpers.fakes import FAKE_SPACE, FakeBackend, read_journal

FILES = Path(__file__).parents[1] / "data" / "bad_specs" / "files"
KERNEL = """\
name: scale
kernel: {function: scale, source: scale.cl, host: scale.py}
parameters:
  BLOCK: {type: power_of_two, min: 16, max: 256, role: launch, default: 64}
FLAGS
launch: {group: [BLOCK], grid: ["ceil_div(n, BLOCK)"]}
inputs: {features: [n], values: [{n: 1024}]}
"""
PROGRAM = """\
name: blur
program:
  sources: [blur.c]
  build: [gcc, "{flags}", -o, "{output}", "{source}"]
  run: ["{output}", "{n}"]
  time: {pattern: 'elapsed ([0-9.]+) s', unit: s}
FLAGS
inputs: {features: [n], values: [{n: 64}]}
"""


pytestmark = pytest.mark.usefixtures("own_cache")


def loading(folder: Path) -> Callable[[str, str], Spec]:
    """Copy sources to a folder; return what loads a space there with these flags."""
    for name in ("scale.cl", "scale.py", "blur.c"):
        shutil.copy(FILES / name, folder)
    text = (folder / "scale.cl").read_text()
    (folder / "scale.cl").write_text(text.replace("UNROLL", "1"))

    def loaded(space: str, flags: str) -> Spec:
        path = folder / "space.yaml"
        path.write_text(space.replace("FLAGS", flags))
        return load_spec(path)

    return loaded


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str, str], Spec]:
    return loading(tmp_path)


def flags_of(spec: Spec, compiler: str) -> dict[str, Parameter]:
    return {p.name: p for p in spec.tuned_for(compiler) if p.role == "flag"}


def test_named_flags_are_those_of_the_catalogue_with_its_constraints(load) -> None:
    spec = load(KERNEL, "flags: {nvcc: [use_fast_math, ftz, {maxrregcount: {max: 32}}]}")
    flags = flags_of(spec, "nvcc")
    assert flags["use_fast_math"].options(True) == ("--use_fast_math",)
    assert flags["ftz"].values == (None, "true", "false")
    assert flags["maxrregcount"].values == (None, 24, 32)
    space = ConstrainedSpace.of(spec, spec.inputs[0], None, "nvcc")
    assert space.is_legal({**space.default, "ftz": "true"})
    # The catalogue knows that use_fast_math includes it.
    printed = space.why_illegal({**space.default, "ftz": "true", "use_fast_math": True}) or ""
    assert "ftz" in printed
    assert {c.line for c in spec.constraints} == {5}


def test_named_flags_are_the_space_that_declares_them(load) -> None:
    named = load(KERNEL, "flags: {nvcc: [fmad, restrict, def_store_cache]}")
    cache = '{values: [wb, cg, cs, wt], option: "-Xptxas --def-store-cache={value}"}'
    restrict = "{type: boolean, option: --restrict}"
    fmad = '{values: ["false"]}'
    flags = f"{{fmad: {fmad}, restrict: {restrict}, def_store_cache: {cache}}}"
    declared = load(KERNEL, f"flags: {{nvcc: {flags}}}")
    assert named.parameters == declared.parameters
    assert named.space_sha256 == declared.space_sha256


def test_flag_of_its_own_stands_beside_those_of_the_catalogue(load) -> None:
    own = 'mine: {values: [1, 2], option: "-DMINE={value}"}'
    spec = load(KERNEL, f"flags:\n  nvcc:\n    - restrict\n    - {own}")
    assert flags_of(spec, "nvcc")["mine"].options(2) == ("-DMINE=2",)
    assert spec.named_flags[0].changes_values, "nothing is known of a flag of one's own"


def test_constraints_of_the_space_may_name_the_catalogue_s_flags(load) -> None:
    limit = "constraints: [maxrregcount == absent or maxrregcount * BLOCK <= 4096]"
    spec = load(KERNEL, f"flags: {{nvcc: exact}}\n{limit}")
    assert not spec.named_flags[0].changes_values
    space = ConstrainedSpace.of(spec, spec.inputs[0], None, "nvcc")
    assert space.is_legal({**space.default, "maxrregcount": 64})
    assert not space.is_legal({**space.default, "maxrregcount": 72})


@pytest.mark.parametrize(
    ("compiler", "flags", "levels"),
    [
        ("nvcc", "default", [f"-Xptxas --opt-level={level}" for level in (0, 1, 2)]),
        ("nvcc", "bruel2015", [f"-Xptxas --opt-level={level}" for level in (0, 1, 2)]),
        ("nvcc", "exact", [f"-Xptxas --opt-level={level}" for level in (1, 2)]),
        ("nvcc", "[default, -opt_level]", []),
        ("opencl", "standard", ["-cl-opt-disable"]),
        ("opencl", "[cl_nv_opt_level]", [f"-cl-nv-opt-level {level}" for level in range(4)]),
        ("gcc", "default", [f"-O{level}" for level in range(4)]),
        ("gcc", "[exact, {opt_level: {values: [2, s]}}]", ["-O2"]),
        ("clang++", "levels", [f"-O{level}" for level in range(4)]),
    ],
)
def test_levels_that_a_catalogue_names_are_baselines(load, compiler, flags, levels) -> None:
    kernel = compiler in ("nvcc", "opencl")
    space = KERNEL if kernel else PROGRAM.replace("gcc", compiler)
    spec = load(space, f"flags: {{{compiler}: {flags}}}")
    found = spec.baselines_for(compiler)
    assert list(found) == levels
    there = ConstrainedSpace.of(spec, spec.inputs[0], None, compiler)
    assert all(there.is_legal(there.canonical(config)) for config in found.values())


def test_level_that_the_compiler_refuses_is_no_baseline(load) -> None:
    spec = load(KERNEL, "flags: {opencl: [cl_nv_opt_level, cl_opt_disable]}")
    left = fitted_to_backend(spec, "opencl", None, "fake", building(["-cl-nv-opt-level"]))
    assert list(left.baselines_for("opencl")) == ["-cl-opt-disable"]


def building(refused: Sequence[str]) -> Callable[[Program], Binary]:
    """A compiler that refuses these words."""

    def build(program: Program) -> Binary:
        for word in refused:
            if word in program.options:
                raise BuildFailed(f"nvcc ended with status 1\nunknown option {word}")
        return Binary(Build("key", "", "fake", 0.1), b"")

    return build


def test_what_the_compiler_does_not_know_is_absent_and_not_tuned(load) -> None:
    fast = "cl_fast_relaxed_math"
    limit = f"constraints: [not {fast} or cl_mad_enable]"
    spec = load(KERNEL, f"flags: {{opencl: [{fast}, cl_mad_enable]}}\n{limit}")
    refused = building(["-cl-mad-enable"])
    left = fitted_to_backend(spec, "opencl", None, "fake", refused)
    assert list(flags_of(left, "opencl")) == [fast]
    assert [str(notice) for notice in left.notices] == [
        "flags of opencl: `cl_mad_enable` is left out: the compiler refuses -cl-mad-enable: "
        "unknown option -cl-mad-enable"
    ]
    space = ConstrainedSpace.of(left, left.inputs[0], None, "opencl")
    assert space.count == 5, "the constraint sees that it is absent"
    assert left.program_sha256 == spec.program_sha256, "what is measured is the same"
    assert fitted_to_backend(spec, "nvcc", "sm_90", "", refused) is spec


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not on PATH")
def test_the_compiler_of_a_program_is_asked(load) -> None:
    spec = load(PROGRAM, "flags: {gcc: levels}")
    assert [n.text for n in spec.notices] == ["no compiler was asked which of these flags it knows"]
    left = fitted_to_program(spec)
    assert flags_of(left, "gcc") == flags_of(spec, "gcc")
    assert left.notices == ()


def test_program_that_is_built_by_something_else_cannot_be_asked(load) -> None:
    spec = load(PROGRAM.replace("[gcc,", "[ccache, gcc,"), "flags: {gcc: levels}")
    assert fitted_to_program(spec) == spec


@pytest.mark.parametrize(
    ("flags", "verify", "is_exact"),
    [
        ("exact", "{}", True),
        ("default", "{}", False),
        ("exact", "{against: reference}", False),
        ("default", "{against: baseline}", True),
    ],
)
def test_flags_that_change_no_values_must_give_the_same_bits(load, flags, verify, is_exact) -> None:
    spec = load(KERNEL, f"flags: {{nvcc: {flags}}}\nverify: {verify}")
    assert spec.is_bit_exact("nvcc") is is_exact
    assert spec.must_be_bit_exact is (verify == "{against: baseline}")


def test_verification_bit_for_bit_is_another_measurement(load) -> None:
    flags = "flags: {nvcc: exact}"
    loose, exact = load(KERNEL, f"{flags}\nverify: {{against: reference}}"), load(KERNEL, flags)
    assert loose.program_sha256 != exact.program_sha256


def test_flags_are_held_against_none_and_what_is_too_fast_is_measured_again(
    tmp_path: Path,
) -> None:
    flags = "flags: {opencl: {cl-mad-enable: boolean}}\nverify: {against: baseline}\n"
    spec = write_fake(tmp_path, space=FAKE_SPACE + flags)
    given = spec.inputs[0]
    backend = FakeBackend("opencl", "opencl", "a fake", journal=tmp_path / "journal")
    with closing(KernelMeasurer(spec, backend)) as measurer:
        space = ConstrainedSpace.of(spec, given, measurer.limits, measurer.compiler)
        without = Config({**space.default, "V": 2})
        flagged = Config({**without, "cl_mad_enable": True})
        assert BIT_EXACT not in measurer.measure(space, given, without, None).observed
        found = measurer.measure(space, given, flagged, None)
        assert found.observed[BIT_EXACT] == 1
        assert not found.message
        # As if the default had been measured before, and taken a second.
        slow = Measurement(space.default, given, Outcome.OK, timing=Timing((1.0,)))
        measurer.recall(given, [slow])
        found = measurer.measure(space, given, Config({**space.default, "V": 3}), None)
        assert "it is 1e+03 times as fast as the default" in found.message
        # The data of the measurements are there again; what does not win is believed.
        assert not measurer.measure(space, given, flagged, 1e-4).message
    happened = [what for what, _, _ in read_journal(tmp_path / "journal")]
    assert happened.count("compile") == 4, (
        "V=3, V=2 with the flag and without, and the default beside which V=3 is measured again"
    )
