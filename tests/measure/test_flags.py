"""Flags that a space names from a catalogue: what the space then holds, and what a compiler that
is asked leaves of it."""

import json
import os
import shutil
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from harness.core.errors import BuildFailed, SpecError, UsageError
from harness.core.program import Binary
from harness.core.records import Build, Config, Measurement, Outcome, Timing
from harness.dispatch.choice import Choice, DispatchProgram
from harness.dispatch.package import dispatcher_of, write_dispatcher
from harness.measure.cuda.nvcc import Nvcc
from harness.measure.flags import fitted_to_backend, fitted_to_program
from harness.measure.kernels.trial import BIT_EXACT
from harness.models.columns import TunedRange
from harness.results.notes import Notes, file_lines, files_of_flags
from harness.space import ConstrainedSpace
from harness.space.constrained import make_program
from harness.space_file import flags as space_flags
from harness.space_file import load_spec
from tests import DATA
from tests.helpers.compilers import fake_nvcc
from tests.helpers.dispatch_examples import PROVENANCE
from tests.helpers.fake_kernels import write_fake
from tests.helpers.fakes import FAKE_SPACE, read_journal

FILES = DATA / "bad_specs/files"
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


@pytest.fixture
def load(tmp_path):
    """Loads a space beside its sources with these flags."""
    for name in ("scale.cl", "scale.py", "blur.c"):
        shutil.copy(FILES / name, tmp_path)
    source, path = tmp_path / "scale.cl", tmp_path / "space.yaml"
    source.write_text(source.read_text().replace("UNROLL", "1"))

    def loaded(space, flags):
        path.write_text(space.replace("FLAGS", flags))
        return load_spec(path)

    return loaded


def space_with(spec, compiler="nvcc"):
    """Return the space of the first input."""
    return ConstrainedSpace.of(spec, spec.inputs[0], None, compiler)


def is_legal(spec, **changes):
    """Say whether nvcc's default with these values is legal."""
    space = space_with(spec)
    return space.is_legal({**space.default, **changes})


def flags_of(spec, compiler):
    return {p.name: p for p in spec.tuned_for(compiler) if p.role == "flag"}


def test_named_flags_are_those_of_the_catalogue_with_its_constraints(load):
    spec = load(KERNEL, "flags: {nvcc: [use_fast_math, ftz, {maxrregcount: {max: 32}}]}")
    flags = flags_of(spec, "nvcc")
    assert flags["use_fast_math"].options(True) == ("--use_fast_math",)
    assert flags["ftz"].values == (None, "true", "false")
    assert flags["maxrregcount"].values == (None, 24, 32)
    assert is_legal(spec, ftz="true")
    assert not is_legal(spec, ftz="true", use_fast_math=True), "which includes it"
    assert {c.line for c in spec.constraints} == {5}


def test_named_flags_are_the_space_that_declares_them(load):
    named = load(KERNEL, "flags: {nvcc: [fmad, restrict, def_store_cache]}")
    cache = '{values: [wb, cg, cs, wt], option: "-Xptxas --def-store-cache={value}"}'
    restrict = "{type: boolean, option: --restrict}"
    fmad = '{values: ["false"]}'
    flags = f"{{fmad: {fmad}, restrict: {restrict}, def_store_cache: {cache}}}"
    declared = load(KERNEL, f"flags: {{nvcc: {flags}}}")
    assert named.parameters == declared.parameters
    assert named.space_sha256 == declared.space_sha256


def test_flag_of_its_own_stands_beside_those_of_the_catalogue(load):
    own = 'mine: {values: [1, 2], option: "-DMINE={value}"}'
    spec = load(KERNEL, f"flags:\n  nvcc:\n    - restrict\n    - {own}")
    assert flags_of(spec, "nvcc")["mine"].options(2) == ("-DMINE=2",)
    assert spec.selected_flags["nvcc"].changes_values, "nothing is known of a flag of one's own"


def test_constraints_of_the_space_may_name_the_catalogue_s_flags(load):
    limit = "constraints: [maxrregcount == absent or maxrregcount * BLOCK <= 4096]"
    spec = load(KERNEL, f"flags: {{nvcc: exact}}\n{limit}")
    assert not spec.selected_flags["nvcc"].changes_values
    assert is_legal(spec, maxrregcount=64)
    assert not is_legal(spec, maxrregcount=72)


def test_levels_that_a_catalogue_names_are_baselines(load):
    cases = [
        ("nvcc", "default", [f"-Xptxas --opt-level={level}" for level in (0, 1, 2)]),
        ("nvcc", "exact", [f"-Xptxas --opt-level={level}" for level in (1, 2)]),
        ("nvcc", "[default, -opt_level]", []),
        ("opencl", "[cl_nv_opt_level]", [f"-cl-nv-opt-level {level}" for level in range(4)]),
        ("gcc", "[exact, {opt_level: {values: [2, s]}}]", ["-O2"]),
        ("clang++", "levels", [f"-O{level}" for level in range(4)]),
    ]
    for compiler, flags, levels in cases:
        text = KERNEL if compiler in ("nvcc", "opencl") else PROGRAM.replace("gcc", compiler)
        spec = load(text, f"flags: {{{compiler}: {flags}}}")
        found = spec.baselines_for(compiler)
        assert list(found) == levels
        space = space_with(spec, compiler)
        for config in found.values():
            assert space.is_legal(space.canonical(config))


def test_level_that_the_compiler_refuses_is_no_baseline(load):
    spec = load(KERNEL, "flags: {opencl: [cl_nv_opt_level, cl_opt_disable]}")
    left = fitted_to_backend(spec, "opencl", None, "fake", building(["-cl-nv-opt-level"]))
    assert list(left.baselines_for("opencl")) == ["-cl-opt-disable"]


def building(refused):
    """A compiler that refuses these words."""

    def build(program):
        for word in refused:
            if f" {word} " in f" {' '.join(program.options)} ":
                raise BuildFailed(f"nvcc ended with status 1\nunknown option {word}")
        return Binary(Build("key", "", "fake", 0.1), b"")

    return build


def test_what_the_compiler_does_not_know_is_absent_and_not_tuned(load):
    fast = "cl_fast_relaxed_math"
    limit = f"constraints: [not {fast} or cl_mad_enable]"
    spec = load(KERNEL, f"flags: {{opencl: [{fast}, cl_mad_enable]}}\n{limit}")
    refused = building(["-cl-mad-enable"])
    left = fitted_to_backend(spec, "opencl", None, "fake", refused)
    assert list(flags_of(left, "opencl")) == [fast]
    (notice,) = left.notices
    assert "unknown option -cl-mad-enable" in notice.text
    assert space_with(left, "opencl").count == 5, "the constraint sees that it is absent"
    assert left.program_sha256 == spec.program_sha256, "what is measured is the same"
    assert fitted_to_backend(spec, "nvcc", "sm_90", "", refused) is spec


def test_refused_value_is_left_out_and_a_refused_end_takes_its_whole_range(load):
    spec = load(KERNEL, "flags: {opencl: [cl_nv_opt_level, cl_nv_maxrregcount]}")
    refused = building(["-cl-nv-opt-level 2", "-cl-nv-maxrregcount 248"])
    left = fitted_to_backend(spec, "opencl", None, "fake", refused)
    found = {name: p.values for name, p in flags_of(left, "opencl").items()}
    assert found == {"cl_nv_opt_level": (None, 0, 1, 3)}
    ranged, one_less = left.notices
    assert "-cl-nv-maxrregcount 248" in ranged.text
    assert "`cl_nv_opt_level` is left without 2" in one_less.text
    everything = building(["-cl-nv-opt-level", "-cl-nv-maxrregcount"])
    left = fitted_to_backend(spec, "opencl", None, "all refused", everything)
    assert flags_of(left, "opencl") == {}
    assert "no flag to tune" in left.notices[-1].text


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not on PATH")
def test_the_compiler_of_a_program_is_asked(load):
    spec = load(PROGRAM, "flags: {gcc: levels}")
    assert len(spec.notices) == 1
    left = fitted_to_program(spec)
    assert flags_of(left, "gcc") == flags_of(spec, "gcc")
    assert left.notices == ()


def test_program_that_is_built_by_something_else_cannot_be_asked(load):
    spec = load(PROGRAM.replace("[gcc,", "[ccache, gcc,"), "flags: {gcc: levels}")
    assert fitted_to_program(spec) == spec


def test_flags_that_change_no_values_must_give_the_same_bits(load):
    cases = [
        ("exact", "{}", True),
        ("default", "{}", False),
        ("exact", "{against: reference}", False),
        ("default", "{against: baseline}", True),
    ]
    for flags, verify, is_exact in cases:
        spec = load(KERNEL, f"flags: {{nvcc: {flags}}}\nverify: {verify}")
        assert spec.is_bit_exact("nvcc") is is_exact
        assert spec.must_be_bit_exact is (verify == "{against: baseline}")


def test_verification_bit_for_bit_is_another_measurement(load):
    flags = "flags: {nvcc: exact}"
    loose, exact = load(KERNEL, f"{flags}\nverify: {{against: reference}}"), load(KERNEL, flags)
    assert loose.program_sha256 != exact.program_sha256


def test_flags_are_verified_and_too_fast_ones_repeated(tmp_path, fake_here):
    flags = "flags: {opencl: {cl-mad-enable: boolean}}\nverify: {against: baseline}\n"
    spec = write_fake(tmp_path, space=FAKE_SPACE + flags)
    given = spec.inputs[0]
    measurer, space = fake_here(spec)
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
    assert "it is 1,000 times as fast as the default" in found.message
    # The data of the measurements are there again; what does not win is believed.
    assert not measurer.measure(space, given, flagged, 1e-4).message
    happened = [what for what, _, _ in read_journal(tmp_path / "journal")]
    assert happened.count("compile") == 4, (
        "V=3, V=2 with the flag and without, and the default beside which V=3 is measured again"
    )


# --------------------------------------------------------------------- flags whose values are files


CONTROLS = "flags: {nvcc: {controls: {files: packs/*.acf}}}"


@pytest.fixture
def packs(tmp_path):
    """A folder with two files of controls."""
    folder = tmp_path / "packs"
    folder.mkdir()
    (folder / "slow.acf").write_text("slow")
    (folder / "fast.acf").write_text("fast")
    return folder


@pytest.fixture
def loaded(load, packs):
    """Loads the space of a kernel with these flags."""
    return lambda flags=CONTROLS: load(KERNEL, flags)


def flag_of(spec):
    return flags_of(spec, "nvcc")["controls"]


def program_of(spec, value):
    """What nvcc compiles with a value of `controls`."""
    space = space_with(spec)
    return make_program(spec, space, Config({**space.default, "controls": value}), "cuda")


# --------------------------------------------------------------------------------- the values


def test_option_is_that_of_the_catalogue_name_or_space(loaded):
    cases = [
        ("{controls: {files: packs/*.acf}}", "--apply-controls={value}"),
        ("{ptxas-controls: {files: packs/*.acf}}", "-Xptxas --apply-controls={value}"),
        ("{apply-controls: {files: packs/*.acf}}", "--apply-controls={value}"),
        ("[restrict, {controls: {files: packs/*.acf}}]", "--apply-controls={value}"),
        ('[{mine: {files: packs/*.acf, option: "-X {value}"}}]', "-X {value}"),
    ]
    for flags, option in cases:
        spec = loaded(f"flags: {{nvcc: {flags}}}")
        flag = list(flags_of(spec, "nvcc").values())[-1]
        assert (flag.option, flag.default) == (option, None)
        assert flag.values == (None, "fast.acf", "slow.acf")


def test_files_of_a_catalogue_exclude_each_other(loaded):
    files = "{files: packs/*.acf}"
    spec = loaded(f"flags: {{nvcc: [{{controls: {files}}}, {{ptxas_controls: {files}}}]}}")
    assert is_legal(spec, controls="fast.acf")
    assert not is_legal(spec, controls="fast.acf", ptxas_controls="slow.acf")
    assert spec.selected_flags["nvcc"].changes_values


def test_matching_files_are_values(loaded, packs, tmp_path):
    (packs / "folder").mkdir()
    (tmp_path / "away").write_text("elsewhere")
    (packs / "link").symlink_to(tmp_path / "away")  # followed out of the tree
    for patterns, names in {
        "packs/fast.acf": ["fast.acf"],
        "[packs/s*.acf, packs/*.acf]": ["fast.acf", "slow.acf"],
        "'**/*.acf'": ["fast.acf", "slow.acf"],
        "packs/*": ["fast.acf", "link", "slow.acf"],
    }.items():
        flag = flag_of(loaded(f"flags: {{nvcc: {{controls: {{files: {patterns}}}}}}}"))
        assert flag.values == (None, *names)


def test_what_cannot_be_is_one_error_at_its_line(loaded, packs, monkeypatch):
    cases = [
        ("{controls: {files: nowhere/*.acf}}", r"`nowhere/\*.acf` matches no file; patterns"),
        ("{controls: {files: packs/folde*}}", r"`packs/folde\*` matches no file, only 1 folder"),
        ("{controls: {files: packs/fats.acf}}", r"fats.acf does not exist \(did you mean .*fast."),
        ("{controls: {files: packs/}}", r"such as `packs/\*`"),
        ("{controls: {files: packs/*.lnk}}", r"gone.lnk does not exist"),
        ("{controls: {files: packs/pipe}}", r"pipe is not a regular file"),
        ("{controls: {files: packs/large}}", r"large is longer than 100 bytes"),
        ("{controls: {files: packs/odd*}}", r"odd\\nname has a name that is not printable"),
        ('{controls: {files: "a\\0b"}}', r"must be a text of one line, but got"),
        ("{controls: {files: []}}", r"files: must not be empty"),
        ("{controls: {files: 3}}", r"must be a pattern such as packs/\*.acf, or a list of"),
        ("{controls: {file: packs/*.acf}}", r"must be `boolean`, .* or `{files: ..}`, but got {\""),
        ("{controls: {files: packs/*.acf, option: -x}}", r"must contain {value}"),
        ("{controls: {files: 'packs/**/*.txt'}}", r"same\.txt and .*same\.txt have one name and"),
        ("[controls]", r"`controls` needs files; write `{controls: {files: PATTERN}}`"),
        ("[{fmad: {files: packs/*.acf}}]", "`fmad` takes no files"),
        ("[{contrls: {files: packs/*.acf}}]", r"did you mean `controls`\?"),
    ]
    (packs / "folder").mkdir()
    (packs / "gone.lnk").symlink_to("nothing")
    os.mkfifo(packs / "pipe")
    (packs / "large").write_bytes(b"0" * 101)
    (packs / "odd\nname").write_text("odd")
    (packs / "same.txt").write_text("one content")
    (packs / "folder" / "same.txt").write_text("another")
    monkeypatch.setattr(space_flags, "MAX_FILE_BYTES", 100)
    for flags, message in cases:
        with pytest.raises(SpecError, match=rf"^[^\n]*space.yaml:5: [^\n]*{message}[^\n]*$"):
            loaded(f"flags: {{nvcc: {flags}}}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_file_that_cannot_be_read_is_an_error(loaded, packs):
    (packs / "fast.acf").chmod(0)
    with pytest.raises(SpecError, match=r"fast.acf cannot be read: Permission denied"):
        loaded()


def test_opencl_has_no_files(loaded):
    with pytest.raises(SpecError, match=r"flags.opencl.cl-x: OpenCL's compiler reads no files"):
        loaded("flags: {opencl: {cl-x: {files: packs/*.acf}}}")


def test_expressions_and_baselines_name_a_file(loaded, packs):
    rest = """\
constraints: ["controls != 'slow.acf' or BLOCK in [64, 128]"]
baselines: {nvidia: {controls: fast.acf}}
"""
    spec = loaded(f"{CONTROLS}\n{rest}")
    assert not is_legal(spec, controls="slow.acf", BLOCK=32)
    assert is_legal(spec, controls="fast.acf", BLOCK=32)
    assert spec.baselines_for("nvcc")["nvidia"]["controls"] == "fast.acf"


# ------------------------------------------------------------------------------- the identity


def test_content_of_the_files_counts_in_the_digest_of_the_program(loaded, packs):
    before = loaded()
    key = program_of(before, "fast.acf").key("nvcc")
    (packs / "fast.acf").write_text("faster")
    after = loaded()
    assert flag_of(before).values == flag_of(after).values
    assert before.program_sha256 != after.program_sha256
    assert program_of(after, "fast.acf").key("nvcc") != key
    assert program_of(before, None).key("nvcc") == program_of(after, None).key("nvcc")


def test_digest_of_the_whole_content_is_in_the_key_of_a_build(loaded):
    spec = loaded()
    program = program_of(spec, "fast.acf")
    (file,) = program.files
    assert program.options == ("--apply-controls=fast.acf@115dc3606fbf",)
    other = replace(file, sha256=f"{file.sha256[:-1]}x")
    assert program_of(spec, None).files == ()
    assert replace(program, files=(other,)).key("") != program.key("")


def test_file_that_changes_in_a_run_ends_it(loaded, packs):
    spec = loaded()
    program = program_of(spec, "fast.acf")
    assert program.words == (f"--apply-controls={packs / 'fast.acf'}",)
    (packs / "fast.acf").write_text("faster")
    with pytest.raises(UsageError, match=r"fast.acf has changed since harness read it; start the"):
        program_of(spec, "fast.acf")


def test_runs_note_the_files_and_a_person_reads_how_to_pass_them(loaded, packs):
    before = loaded()
    note = {"flag_files": files_of_flags(before)}
    assert TypeAdapter(Notes).validate_python(note) == note
    old = Config({"controls": "fast.acf"})
    (line,) = file_lines([note], [old, old, Config({"controls": None})])
    assert f"controls=fast.acf is --apply-controls={packs}/fast.acf" in line
    assert flag_of(before).files["fast.acf"].sha256 in line


def test_damaged_note_of_files_is_refused():
    for damage in [[], {"controls": []}, {"controls": {"x": {"option": "x"}}}]:
        with pytest.raises(ValueError, match="flag_files"):
            TypeAdapter(Notes).validate_python({"flag_files": damage})


def test_dispatcher_has_the_files_of_its_configurations(loaded, tmp_path):
    spec = loaded()
    values = flag_of(spec).values[:2]
    portfolio = tuple(Config({"BLOCK": 64, "controls": value}) for value in values)
    tuned = (TunedRange("n", 1, 4096),)
    program = DispatchProgram((), tuned, portfolio, Choice.in_order(2), ((), ()))
    write_dispatcher(tmp_path / "out", dispatcher_of(program, spec, PROVENANCE))
    file = flag_of(spec).files["fast.acf"]
    assert [path.name for path in (tmp_path / "out/scale/flag_files").iterdir()] == [file.mark]
    assert (tmp_path / "out/scale/flag_files" / file.mark).read_text() == "fast"
    assert f"{file.mark}: {file.sha256}" in (tmp_path / "out/scale.h").read_text()
    digests = json.loads((tmp_path / "out/dispatch.json").read_text())["dispatcher_files_sha256"]
    assert digests[f"scale/flag_files/{file.mark}"] == file.sha256


# ------------------------------------------------------------------------------ the compilers


def test_nvcc_gets_the_file_and_messages_name_it(loaded, tmp_path):
    spec = loaded()
    says = 'echo "invalid file ${1#--apply-controls=}: $(cat ${1#*=})"; exit 1'
    executable = fake_nvcc(tmp_path, says)
    with pytest.raises(BuildFailed, match=r"invalid file fast\.acf@115dc3606fbf: fast$"):
        Nvcc("sm_90", executable).compile(program_of(spec, "fast.acf"))
