"""Catalogues of compiler flags: what they hold, what a selection comes to, what compilers say."""

import csv
import re
import shutil
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from harness.core.errors import BackendUnavailable, UsageError
from harness.measure.builds.messages import conflicts
from harness.measure.cuda.nvcc import find_nvcc
from harness.measure.flags import ProbedCommand, Setting, answers
from harness.space_file import flags
from harness.space_file.flags.catalogue import COMPILERS, Catalogue, catalogue_of
from harness.space_file.tuned import Selection
from tests import ROOT
from tests.helpers.compilers import needs_gcc, needs_nvcc
from tests.helpers.pages import read_page

FILES = sorted(set(COMPILERS.values()))

SMALL = """\
flags:
  fast: {type: boolean, option: --fast, changes_values: true}
  width: {type: enum, option: "--width={value}", values: [1, 2, 4], changes_values: [4]}
  limit: {type: integer, option: "-X --limit={value}", min: 8, max: 64, step: 8, changes_values: false}
  unroll: {type: onoff, option: "-f[no-]unroll-loops", changes_values: false}
  link: {type: boolean, option: -flink, changes_values: false, needs: linking}
sets:
  default: [fast, width, {limit: {min: 16, max: 48}}, unroll, link]
constraints:
  - not fast or width != 4
  - limit == absent or unroll != absent
"""  # noqa: E501


class Pretended:
    """A compiler that refuses what it is told to, and notes what it is asked."""

    at_once = 2

    def __init__(self, identity, refused=()):
        self.identity = identity
        self.asked = []
        self._refused = refused

    def try_out(self, setting):
        self.asked.append(setting)
        return next((f"unknown option {w}" for w in setting.words if w in self._refused), None)


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def small(tmp_path):
    return Catalogue.read(written(tmp_path, SMALL))


def written(folder, text):
    path = folder / "flags.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def resolve(catalogue, selection, *, linked=False):
    """Resolve a selection as it stands in a space file."""
    listed = [selection] if isinstance(selection, str) else selection
    chosen = TypeAdapter(Selection).validate_python(listed)
    return flags.resolve(catalogue, chosen, linked=linked)


# ------------------------------------------------------------------------- what is shipped


def selected(catalogue, names):
    """A selection of these flags; those that pass files pass any."""
    filed = {name for name in names if catalogue.flags[name].type == "files"}
    return [{name: {"files": "*"}} if name in filed else name for name in names]


@pytest.mark.parametrize("name", FILES)
def test_every_flag_of_a_shipped_catalogue_can_be_selected(name):
    catalogue = catalogue_of(name)
    resolved = resolve(catalogue, selected(catalogue, catalogue.flags), linked=True)
    for flag_name, flag in catalogue.flags.items():
        assert (flag_name in resolved.values) is (flag.type != "files")
        if flag.type == "integer":
            assert flag.min == flag.values[0] <= flag.values[-1] <= flag.max


@pytest.mark.parametrize("name", FILES)
def test_exact_flags_change_no_values_and_the_fast_math_family_does(name):
    exact = resolve(catalogue_of(name), "exact")
    fast = resolve(catalogue_of(name), "fast_math")
    assert not exact.changes_values
    assert fast.changes_values
    assert not exact.values.keys() & fast.values.keys()


NOT = re.compile(r"(^|[-_f])(no|dont|disable)[-_]")


@pytest.mark.parametrize("name", FILES)
def test_boolean_flags_pass_what_their_names_say(name):
    """`math_errno: true` as the name of `-fno-math-errno` would say the opposite."""
    for flag_name, flag in catalogue_of(name).flags.items():
        if flag.type == "boolean":
            option = re.sub(r"-X\w+ |-mllvm ", "", flag.option).split()[0]
            assert bool(NOT.search(flag_name)) == bool(NOT.search(option)), flag.option


@pytest.mark.parametrize("name", FILES)
def test_constraints_are_such_that_any_flag_may_be_left_out(name):
    catalogue = catalogue_of(name)
    for written in catalogue.constraints:
        for left_out in written.names:
            rest = sorted(written.names - {left_out})
            printed = resolve(catalogue, selected(catalogue, rest), linked=True).constraints
            absent = {flag: catalogue.flags[flag].absent for flag in rest}
            assert all(constraint.holds(absent) for constraint in printed)


def test_compiler_without_a_catalogue_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r"'nvc'.*`nvcc`"):
        catalogue_of("nvc")


# ------------------------------------------------------------------------- selections


def test_set_and_names_are_joined_narrowed_and_taken_out(small):
    chosen = resolve(small, ["default", "-fast", {"width": {"values": [2]}}], linked=True)
    assert {name: list(values) for name, values in chosen.values.items()} == {
        "width": [2],
        "limit": [16, 24, 32, 40, 48],
        "unroll": ["unroll-loops", "no-unroll-loops"],
        "link": [True],
    }
    assert not chosen.changes_values


def test_exact_leaves_the_values_that_change_results(small):
    assert resolve(small, "exact").values["width"] == (1, 2)


def test_selection_that_does_not_fit_says_why(small):
    cases = (
        ("defaults", "`defaults` .* `default`"),
        ([{"default": {"values": [1]}}], "`default` is a set"),
        (["fast", "-width"], "`-width` .* there is fast"),
        (["-width"], "`-width` .* no flag"),
        (["--width"], "`--width` .* `width`"),
        ([{"limit": {"max": 100}}], "`limit`: .* 8 to 64 by 8"),
        ([{"width": {"values": [3]}}], "`width`: 3 .* 1, 2, 4"),
        ([{"width": {"min": 2}}], "`width`: has no range"),
    )
    for selection, fact in cases:
        with pytest.raises(UsageError, match=fact):
            resolve(small, selection)


def test_constraints_speak_of_the_selected_flags_alone(small):
    assert resolve(small, ["fast", "unroll"]).constraints == ()
    # A limit needs `unroll`, which is not selected: then it has to be absent as well.
    for other, text in {
        "width": "not fast or width != 4",
        "limit": "limit == absent or absent != absent",
    }.items():
        (constraint,) = resolve(small, ["fast", other]).constraints
        assert constraint.text == text
    assert constraint.names == {"limit"}
    assert "unroll != absent` is false with limit=8" in (constraint.why_false({"limit": 8}) or "")


# ------------------------------------------------------------------------- asking a compiler


def test_flag_that_acts_on_linked_programs_is_left_out_of_kernels(small):
    resolved = resolve(small, "default")
    assert list(resolved.values) == ["fast", "width", "limit", "unroll"]
    assert "`link`" in " ".join(resolved.notices)


def test_each_compiler_is_asked_once():
    fast = Setting(("--fast",))
    first, again, other = Pretended("one", ["--fast"]), Pretended("one"), Pretended("other")
    assert answers(first, [fast]) == answers(again, [fast]) != answers(other, [fast])
    assert not again.asked
    assert len(other.asked) == len(first.asked) > 0


def test_compiler_that_refuses_an_empty_program_is_not_asked_for_flags():
    broken = Pretended("broken")
    broken.try_out = lambda setting: "no such target"
    with pytest.raises(BackendUnavailable, match=r"empty program.*no such target"):
        answers(broken, [Setting(("--fast",))])


@needs_gcc
def test_gcc_is_asked_and_its_warnings_of_conflict_count():
    gcc = ProbedCommand("gcc", Path(shutil.which("gcc") or ""))
    usual, missing, overruled = (
        Setting((word,)) for word in ("-funroll-loops", "-fno-such-option", "-fassociative-math")
    )
    said = answers(gcc, [usual, missing, overruled])
    assert said[usual] is None
    assert "-fno-such-option" in (said[missing] or "")
    assert "disabled" in (said[overruled] or "")


@needs_nvcc
def test_nvcc_is_asked_and_its_warnings_of_conflict_count():
    nvcc = ProbedCommand("nvcc", find_nvcc(), "sm_90")
    usual, missing, overruled = (
        Setting(words)
        for words in (("--ftz=true",), ("-Xptxas", "--no-such-option"), ("--maxrregcount=16",))
    )
    said = answers(nvcc, [usual, missing, overruled])
    assert said[usual] is None
    assert "Unknown option" in (said[missing] or "")
    assert "adjusting per thread register count" in (said[overruled] or "")


# ------------------------------------------------------------------------- warnings of conflict

CONFLICTS = {
    "nvcc": """\
nvcc warning : incompatible redefinition for option 'ftz', the last value of this option was used
ptxas warning : Conflicting options -maxrregcount and -maxntid specified, ignoring -maxntid option
ptxas warning : For profile sm_90 adjusting per thread register count of 16 to lower bound of 24
ptxas warning : Too big maxrregcount value specified 256, will be ignored
ptxas warning : Value of RegUsageLevel (11) is out of valid range {0..10}, option will be ignored
ptxas warning : Command line option 'device-function-maxrregcount' not supported for 'whole program compilation', will be ignored
ptxas warning : Value of threads per SM for entry f is out of range. .minnctapersm will be ignored
ptxas warning : '--preserve-relocs' option is not fully implemented for 'sm_90' and may not work as expected
ptxas warning : Option suppress-debug-info requires option device-debug or lineinfo; ignoring since latter is not specified
""",  # noqa: E501
    "gcc": """\
cc1: warning: '-fassociative-math' disabled; other options take precedence
cc1plus: warning: '-fprefetch-loop-arrays' is not supported with '-Os'
""",
    "clang": """\
clang: warning: optimization flag '-fgcse' is not supported [-Wignored-optimization-argument]
clang-16: warning: argument unused during compilation: '-fthreads' [-Wunused-command-line-argument]
warning: optimization level '-O5' is not supported; using '-O3' instead
""",
    "opencl": """\
warning: <invalid loc>: OpenCL C version 3.0 does not support the option '-cl-strict-aliasing'
This build option is not yet supported by clang: -cl-uniform-work-group-size
""",
}
NOISE = {
    "nvcc": """\
kernel.cu(5): warning #1444-D: function "f" was declared deprecated, option will be ignored
kernel.cu(7): warning #161-D: unrecognized #pragma will be ignored
ptxas info    : Overriding maximum register limit 256 for 'f' with  32 of maxrregcount option
ptxas warning : Stack size for entry function 'f' cannot be statically determined
ptxas warning : '--legacy-bar-warp-wide-behavior' is a deprecated option, It will be removed in future release and is not recommended
nvcc warning : Support for offline compilation for architectures prior to '<compute/sm/lto>_75' will be removed in a future release (Use -Wno-deprecated-gpu-targets to suppress warning).
""",  # noqa: E501
    "gcc": "main.c:3:5: warning: ignoring '#pragma omp parallel' [-Wunknown-pragmas]\n",
    "clang": "main.c:3:5: warning: loop not vectorized [-Wpass-failed]\n"
    "clang: warning: argument '-Ofast' is deprecated; use '-O3 -ffast-math' [-Wdeprecated-ofast]\n",
    "opencl": "input.cl:3:5: warning: unused variable 'x'\n",
}


@pytest.mark.parametrize("compiler", CONFLICTS)
def test_warnings_of_disobeyed_flags_differ_from_others(compiler):
    lines = CONFLICTS[compiler].splitlines()
    assert conflicts(compiler, NOISE[compiler] + CONFLICTS[compiler] * 2) == tuple(lines)


# ---- the record of what nvcc's flags do: the evidence of the catalogue's constraints, and the page

CATALOGUE = catalogue_of("nvcc")
RECORD = ROOT / "benchmarks" / "nvcc_flags.csv"


def _config(setting):
    """The values of a row's flags; None where the catalogue leaves one of the values out."""
    config = {name: flag.absent for name, flag in CATALOGUE.flags.items()}
    for part in setting.split():
        name, _, printed = part.partition("=")
        values = {str(value): value for value in CATALOGUE.flags[name].values}
        if printed not in values:
            return None
        config[name] = values[printed]
    return config


def test_constraints_rule_out_pairs_that_nvcc_refused_or_warned_of_and_each_some_pair():
    ruled_out = set()
    with RECORD.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            config = _config(row["setting"])
            if " " in row["setting"] and config is not None:
                broken = {c.text for c in CATALOGUE.constraints if not c.holds(config)}
                assert broken or row["came"] == "ok", row["setting"]
                ruled_out |= broken
    of_files = {name for name, flag in CATALOGUE.flags.items() if not flag.values}
    assert {c.text for c in CATALOGUE.constraints if not c.names <= of_files} <= ruled_out


def test_every_set_stands_on_the_page():
    page = read_page("docs/reference/flags.md")
    for name in CATALOGUE.sets:
        assert re.search(rf"^- .*`{name}`.*:", page, re.MULTILINE), name
