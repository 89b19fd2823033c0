"""Flags whose values are files: what they match, how they are named, and what a compiler that
does anything with them is measured as."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from harness import open_results
from harness.commands.report import main as report
from harness.commands.tune import main as tune
from harness.core.errors import BuildFailed, SpecError, UsageError
from harness.core.program import Program
from harness.core.records import Config, Measurement, Outcome
from harness.dispatch.choice import Choice, DispatchProgram
from harness.dispatch.package import write_dispatcher
from harness.measure.cuda.nvcc import Nvcc
from harness.measure.flags import ProbedCommand, fitted_to_backend
from harness.models.encoding.columns import TunedRange
from harness.results.notes import Notes, file_lines, files_of_flags
from harness.space import ConstrainedSpace
from harness.space.launches import make_program
from harness.space_file import Parameter, Spec, flag_files
from harness.space_file.flag_files import file_name, with_values_of_files
from harness.space_file.flags.model import ANY_FILE, Setting
from tests.helpers.compilers import needs_gcc, needs_nvcc
from tests.helpers.dispatch_examples import PROVENANCE
from tests.helpers.fake_kernels import measure_programs_here
from tests.measure.test_flags_spaces import KERNEL, loading

CONTROLS = "flags: {nvcc: {controls: {files: packs/*.acf}}}"


pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def packs(tmp_path: Path) -> Path:
    """A folder with two files of controls."""
    folder = tmp_path / "packs"
    folder.mkdir()
    (folder / "slow.acf").write_text("slow")
    (folder / "fast.acf").write_text("fast")
    return folder


@pytest.fixture
def load(tmp_path: Path, packs: Path) -> Callable[..., Spec]:
    """Loads the space of a kernel with these flags."""
    loaded = loading(tmp_path)
    return lambda flags=CONTROLS: loaded(KERNEL, flags)


def flag_of(spec: Spec, name: str = "controls") -> Parameter:
    return next(p for p in spec.parameters if p.name == name)


def names_of(spec: Spec, name: str = "controls") -> list[str | None]:
    return [file_name(value) for value in flag_of(spec, name).values]


def program_of(spec: Spec, value: object) -> Program:
    """What nvcc compiles with a value of `controls`."""
    space = ConstrainedSpace.of(spec, spec.inputs[0], None, "nvcc")
    return make_program(spec, space, Config({**space.default, "controls": value}), "cuda")


# --------------------------------------------------------------------------------- the values


def test_values_are_absent_and_the_files_by_name_and_content(load) -> None:
    flag = flag_of(load())
    assert flag.values == (None, "fast.acf@115dc3606fbf", "slow.acf@5e0cf7bd1dfa")
    assert flag.default is None
    assert flag.role == "flag"


@pytest.mark.parametrize(
    ("flags", "option"),
    [
        ("{controls: {files: packs/*.acf}}", "--apply-controls={value}"),
        ("{ptxas-controls: {files: packs/*.acf}}", "-Xptxas --apply-controls={value}"),
        ("{apply-controls: {files: packs/*.acf}}", "--apply-controls={value}"),
        ("[restrict, {controls: {files: packs/*.acf}}]", "--apply-controls={value}"),
        ('[{mine: {files: packs/*.acf, option: "-X {value}"}}]', "-X {value}"),
    ],
)
def test_option_is_the_catalogue_s_or_that_of_the_name_or_the_space_s_own(
    load, flags: str, option: str
) -> None:
    spec = load(f"flags: {{nvcc: {flags}}}")
    flag = next(p for p in spec.parameters if p.role == "flag" and None in p.values)
    assert (flag.option, len(flag.values)) == (option, 3)


def test_files_of_a_catalogue_exclude_each_other(load) -> None:
    files = "{files: packs/*.acf}"
    spec = load(f"flags: {{nvcc: [{{controls: {files}}}, {{ptxas_controls: {files}}}]}}")
    space = ConstrainedSpace.of(spec, spec.inputs[0], None, "nvcc")
    _, fast, slow = flag_of(spec).values
    assert space.is_legal({**space.default, "controls": fast})
    assert not space.is_legal({**space.default, "controls": fast, "ptxas_controls": slow})
    assert spec.named_flags[0].changes_values


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        ("packs/fast.acf", ["fast.acf"]),
        ("[packs/s*.acf, packs/*.acf]", ["fast.acf", "slow.acf"]),
        ("'**/*.acf'", ["fast.acf", "slow.acf"]),
        ("packs/*", ["fast.acf", "link", "slow.acf"]),
    ],
)
def test_each_file_that_matches_is_there_once(
    load, packs: Path, tmp_path: Path, patterns, names
) -> None:
    (packs / "folder").mkdir()
    (tmp_path / "away").write_text("elsewhere")
    (packs / "link").symlink_to(tmp_path / "away")  # followed out of the tree
    assert names_of(load(f"flags: {{nvcc: {{controls: {{files: {patterns}}}}}}}"))[1:] == names


def test_files_of_one_content_are_one_value_with_a_notice(load, packs: Path) -> None:
    shutil.copy(packs / "fast.acf", packs / "z.acf")
    spec = load()
    assert names_of(spec) == [None, "fast.acf", "slow.acf"]
    text = f"{packs}/z.acf is left out: its content is that of {packs}/fast.acf"
    assert [notice.text for notice in spec.notices] == [text]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            "controls: {files: nowhere/*.acf}",
            r"`nowhere/\*.acf` matches no file; patterns are relative",
        ),
        ("controls: {files: packs/folde*}", r"`packs/folde\*` matches no file, only 1 folder"),
        ("controls: {files: packs/fats.acf}", r"fats.acf does not exist \(did you mean .*fast.acf"),
        ("controls: {files: packs/}", r"such as `packs/\*`"),
        ("controls: {files: packs}", r"packs is a folder; name its files, such as `packs/\*`"),
        ("controls: {files: packs/gone.lnk}", r"gone.lnk does not exist"),
        ("controls: {files: packs/*.lnk}", r"gone.lnk does not exist"),
        ("controls: {files: packs/pipe}", r"pipe is not a regular file"),
        ("controls: {files: packs/large}", r"large is too large: a flag's file has at most 0 MiB"),
        ("controls: {files: packs/odd*}", r"odd\\nname has a name that is not printable"),
        ('controls: {files: "a\\0b"}', r"is no pattern: it must be a text of one line"),
        ("controls: {files: '**/**/*.acf'}", r"has `\*\*` more than once"),
        ("controls: {files: 'packs/circle/**'}", r"matches more than 30 files; narrow it"),
        ("controls: {files: []}", r"files: must not be empty"),
        ("controls: {files: 3}", r"must be a pattern such as packs/\*.acf, or a list of"),
        ("controls: {files: [3]}", r"controls.files.0: must be a text"),
        ("controls: {file: packs/*.acf}", r"must be `boolean`, .* or `{files: ..}`, but got {\""),
        ("controls: {files: packs/*.acf, value: 3}", r"`value` is not a key here"),
        ("controls: {files: packs/*.acf, option: -x}", r"must contain {value}"),
    ],
)
def test_what_cannot_be_is_one_error_at_its_line(
    load, packs: Path, monkeypatch: pytest.MonkeyPatch, flags: str, message: str
) -> None:
    (packs / "folder").mkdir()
    (packs / "gone.lnk").symlink_to("nothing")
    os.mkfifo(packs / "pipe")
    (packs / "circle").mkdir()
    (packs / "circle" / "again").symlink_to(".")
    (packs / "large").write_bytes(b"0" * 101)
    (packs / "odd\nname").write_text("odd")
    monkeypatch.setattr(flag_files, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(flag_files, "_MOST_MATCHES", 30)
    with pytest.raises(SpecError, match=rf"^[^\n]*space.yaml:5: [^\n]*{message}[^\n]*$"):
        load(f"flags: {{nvcc: {{{flags}}}}}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every file")
def test_file_that_cannot_be_read_is_an_error(load, packs: Path) -> None:
    (packs / "fast.acf").chmod(0)
    with pytest.raises(SpecError, match=r"fast.acf cannot be read: Permission denied"):
        load()


def test_opencl_has_no_files(load) -> None:
    with pytest.raises(SpecError, match=r"flags.opencl.cl-x: OpenCL's compiler reads no files"):
        load("flags: {opencl: {cl-x: {files: packs/*.acf}}}")


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ("[controls]", "`controls` needs files; write `{controls: {files: PATTERN}}`"),
        ("[{fmad: {files: packs/*.acf}}]", "`fmad` takes no files"),
        ("[{contrls: {files: packs/*.acf}}]", "did you mean `controls`?"),
    ],
)
def test_selection_that_does_not_fit_files_says_why(load, selection: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        load(f"flags: {{nvcc: {selection}}}")
    assert message in str(error.value)


def test_expressions_baselines_and_seeds_name_a_file_alone(load, packs: Path) -> None:
    rest = """\
constraints:
  - controls != 'slow.acf' or BLOCK in [64, 128]
  - "'fast.acf' != 'slow.acf'"
baselines: {nvidia: {controls: fast.acf}}
"""
    spec = load(f"{CONTROLS}\n{rest}")
    space = ConstrainedSpace.of(spec, spec.inputs[0], None, "nvcc")
    _, fast, slow = flag_of(spec).values
    assert not space.is_legal({**space.default, "controls": slow, "BLOCK": 32})
    assert space.is_legal({**space.default, "controls": fast, "BLOCK": 32})
    assert spec.constraints[1].expression.text == "'fast.acf' != 'slow.acf'"
    assert spec.baselines_for("nvcc")["nvidia"]["controls"] == fast
    seed = {"controls": "slow.acf", "BLOCK": 64}
    assert with_values_of_files(seed, spec.parameters) == {"controls": slow, "BLOCK": 64}
    (packs / "more").mkdir()
    (packs / "more" / "slow.acf").write_text("slower")
    spec = load("flags: {nvcc: {controls: {files: 'packs/**/*.acf'}}}")
    assert names_of(spec) == [None, "fast.acf", "slow.acf", "slow.acf"]
    assert with_values_of_files(seed, spec.parameters) == seed, "two contents have the name"


# ------------------------------------------------------------------------------- the identity


def test_edited_file_is_another_value_of_the_same_program(load, packs: Path) -> None:
    before = load()
    (packs / "fast.acf").write_text("faster")
    after = load()
    assert names_of(before) == names_of(after)
    old, new = flag_of(before).values[1], flag_of(after).values[1]
    assert not flag_of(after).allows(old)
    assert before.program_sha256 == after.program_sha256, "other measurements remain"
    assert before.space_sha256 != after.space_sha256
    assert program_of(before, old).key("nvcc") != program_of(after, new).key("nvcc")
    assert program_of(before, None).key("nvcc") == program_of(after, None).key("nvcc")


def test_digest_of_the_whole_content_is_in_the_key_of_a_build(load) -> None:
    spec = load()
    program = program_of(spec, flag_of(spec).values[1])
    (file,) = program.files
    assert program.options == ("--apply-controls=fast.acf@115dc3606fbf",)
    assert program.words == (f"--apply-controls={file.copy}",)
    assert file.copy.name.removesuffix(".acf") == file.sha256
    other = f"{file.sha256[:-1]}x"
    assert program_of(spec, None).files == ()
    changed = type(file)(file.value, file.path, other, file.copy)
    assert type(program)(program.text, program.options, (), (), None, (changed,)).key(
        ""
    ) != program.key("")


def test_edit_does_not_reach_a_run_under_way_and_a_damaged_copy_is_mended(load, packs) -> None:
    copy = load().flag_files["fast.acf@115dc3606fbf"].copy
    (packs / "fast.acf").write_text("faster")
    assert copy.read_text() == "fast"
    (packs / "fast.acf").write_text("fast")
    copy.write_text("fats")
    assert load().flag_files["fast.acf@115dc3606fbf"].copy.read_text() == "fast"


def test_copy_is_made_again_where_the_cache_was_emptied_unless_the_file_changed(
    load, packs: Path
) -> None:
    spec = load()
    config = Config({"controls": "fast.acf@115dc3606fbf"})
    (file,) = spec.files_of(config)
    shutil.rmtree(file.copy.parent)
    assert spec.files_of(config)[0].copy.read_text() == "fast"
    shutil.rmtree(file.copy.parent)
    (packs / "fast.acf").write_text("faster")
    with pytest.raises(UsageError, match=r"fast.acf has changed since harness read it, and its"):
        spec.files_of(config)


def test_runs_note_the_files_and_a_person_reads_how_to_pass_them(load, packs: Path) -> None:
    before = load()
    note: Notes = {"flag_files": files_of_flags(before)}
    assert TypeAdapter(Notes).validate_python(note) == note
    (packs / "fast.acf").write_text("faster")
    both: Notes = {"flag_files": files_of_flags(load(), note)}
    old = Config({"controls": "fast.acf@115dc3606fbf"})
    (line,) = file_lines([both], [old, old, Config({"controls": None})])
    sha256 = before.flag_files["fast.acf@115dc3606fbf"].sha256
    option = f"--apply-controls={packs}/fast.acf"
    assert line == f"controls=fast.acf@115dc3606fbf is {option}; the file's SHA-256 is {sha256}."


@pytest.mark.parametrize("damage", [[], {"controls": []}, {"controls": {"x": {"option": "x"}}}])
def test_damaged_note_of_files_is_refused(damage: object) -> None:
    with pytest.raises(ValueError, match="flag_files"):
        TypeAdapter(Notes).validate_python({"flag_files": damage})


def test_dispatcher_has_the_files_of_its_configurations(load, tmp_path: Path) -> None:
    spec = load()
    portfolio = tuple(
        Config({"BLOCK": 64, "controls": value}) for value in flag_of(spec).values[:2]
    )
    tuned = (TunedRange("n", 1, 4096),)
    program = DispatchProgram((), tuned, portfolio, Choice.in_order(2), ((), ()))
    write_dispatcher(tmp_path / "out", program, spec, PROVENANCE)
    file = spec.flag_files["fast.acf@115dc3606fbf"]
    assert [path.name for path in (tmp_path / "out/scale/flag_files").iterdir()] == [file.value]
    assert (tmp_path / "out/scale/flag_files" / file.value).read_text() == "fast"
    assert f"{file.value}: {file.sha256}" in (tmp_path / "out/scale.h").read_text()
    digests = json.loads((tmp_path / "out/dispatch.json").read_text())["dispatcher_files_sha256"]
    assert digests[f"scale/flag_files/{file.value}"] == file.sha256


# ------------------------------------------------------------------------------ the compilers


@needs_nvcc
def test_nvcc_that_does_not_know_controls_leaves_them_out_with_a_notice(load) -> None:
    spec = load()
    left = fitted_to_backend(spec, "nvcc", "sm_90", "", _unused)
    assert flag_of(left).values == (None,)
    assert [p.name for p in left.tuned_for("nvcc")] == ["BLOCK"]
    (notice,) = left.notices
    assert str(notice) == (
        "flags of nvcc: `controls` is left out: the compiler refuses --apply-controls=FILE: "
        "nvcc fatal   : Unknown option '--apply-controls=FILE'"
    )


def _unused(program: object) -> object:
    raise AssertionError(program)


@needs_gcc
def test_compiler_that_reads_a_file_knows_the_option_whatever_it_says_of_the_file() -> None:
    gcc = ProbedCommand("gcc", Path(shutil.which("gcc") or ""))
    for option in ("-fplugin=", "-fprofile-use=", "@", "-include "):
        words = tuple(f"{option}{ANY_FILE}".split())
        assert gcc.try_out(Setting(words)) is None, option
    refused = gcc.try_out(Setting((f"-fno-such-files={ANY_FILE}",))) or ""
    assert "-fno-such-files=FILE" in refused


@pytest.mark.parametrize(
    ("said", "is_refused"),
    [
        ("fatal: Unknown option '--controls=$file'", True),
        ("-controls is not supported on this target", True),
        ("invalid file $file", False),
        ("$file: $(cat $file) is not valid", False),
    ],
)
def test_compiler_refuses_an_option_that_it_names_before_it_reads_a_file(
    tmp_path: Path, said: str, is_refused: bool
) -> None:
    """The first three are what nvcc 13.0, nvcc 13.5 for sm_90 and nvcc 13.5 say."""
    text = f'case $1 in --controls=*) file=${{1#*=}}; echo "{said}"; exit 1;; esac'
    compiler = ProbedCommand("gcc", script(tmp_path / "gcc", text))
    refusal = compiler.try_out(Setting((f"--controls={ANY_FILE}",)))
    assert refusal == (said.replace("$file", "FILE") if is_refused else None)


def test_nvcc_gets_the_copy_and_messages_name_the_file(load, tmp_path: Path) -> None:
    spec = load()
    program = program_of(spec, flag_of(spec).values[1])
    executable = script(
        tmp_path / "nvcc",
        """
        case "$1" in
        --version) echo "Cuda compilation tools, release 13.3, V13.3.1";;
        --list-gpu-code) echo sm_90;;
        *) echo "invalid compiler controls file ${1#--apply-controls=}: $(cat ${1#*=})"; exit 1;;
        esac
        """,
    )
    with pytest.raises(BuildFailed) as failed:
        Nvcc("sm_90", executable).compile(program)
    assert str(failed.value) == (
        "nvcc ended with status 1\ninvalid compiler controls file fast.acf@115dc3606fbf: fast"
    )


def script(path: Path, text: str) -> Path:
    lines = [line.strip() for line in text.strip().splitlines()]
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


# -------------------------------------------------------------------------------- a campaign

PACK = {
    "hang1": "hang",
    "hang2": "hang in another way",
    "crash": "crash",
    "wrong": "wrong",
    "equal1": "ms=60",
    "equal2": "ms=60, by other means",
    "fast": "ms=40",
    "slow": "ms=200",
    "slower": "ms=300",
    "slowest": "ms=400",
}
# A compiler of shell scripts, which reads files of controls.
NVCC = r"""
control= output= sum=55 ms=100
while [ $# -gt 0 ]; do
case $1 in
--version) echo "Cuda compilation tools, release 13.3, V13.3.1"; exit;;
--list-gpu-code) echo sm_100; exit;;
--apply-controls=*) read -r control < "${1#*=}" || exit 1;;
-o) output=$2; shift;;
esac
shift
done
case $control in
hang*) exec sleep 600;;
crash) echo "nvcc error   : 'cicc' died due to signal 11"; exit 139;;
wrong) sum=56;;
ms=*) ms=${control#ms=}; ms=${ms%%,*};;
esac
printf '#!/bin/sh\nsleep 0.%03d\necho sum %s\necho elapsed %s ms >&2\n' $ms $sum $ms > "$output"
chmod +x "$output"
"""
SUM = """\
name: sum
program:
  build: [./nvcc, "{flags}", -o, "{output}"]
  run: ["{output}", "{n}"]
  time: {pattern: 'elapsed ([0-9]+) ms', unit: ms, read: stderr}
  limits: {build_timeout_s: 1.5}
flags:
  nvcc:
    controls: {files: packs/*.acf}
    g: boolean
constraints: ["not g or controls == absent or controls == 'fast.acf'"]
inputs: {features: [n], values: [{n: 10}]}
measure: {repeats: 3, min_repeats: 2}
search: {test_limit: 30}
"""


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a space that tunes ten files of controls, and its database."""
    measure_programs_here(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "packs").mkdir()
    for name, controls in PACK.items():
        (tmp_path / "packs" / f"{name}.acf").write_text(f"{controls}\n")
    (tmp_path / "sum.yaml").write_text(SUM)
    script(tmp_path / "nvcc", NVCC)
    return tmp_path


def test_files_that_hang_crash_and_miscompile_are_a_safe_search(
    campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune(["sum.yaml"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert re.search(r"Use controls=fast.acf@\w{12}, g=true: 2.50x", printed)
    assert re.search(r"controls=fast.acf@\w{12} is --apply-controls=packs/fast.acf; the", printed)
    assert "1 of 2 settings is needed: controls=fast.acf@" in printed, "g is not"
    measured = by_file("results/sum.db")
    for name in ("hang1", "hang2"):
        assert measured[name].outcome is Outcome.BUILD_FAILED
        assert measured[name].message.startswith("the build did not finish within 1.5 s and was")
    assert measured["crash"].outcome is Outcome.BUILD_FAILED
    assert measured["crash"].message.endswith("nvcc error   : 'cicc' died due to signal 11")
    assert measured["wrong"].outcome is Outcome.WRONG_RESULT
    assert measured["wrong"].message.startswith("line 1, word 2 of stdout is 56, expected 55")
    one, other = measured["equal1"], measured["equal2"]
    assert [one.shared_with, other.shared_with].count(None) == 1, "equal code is measured once"
    works = {name for name in measured if measured[name].outcome is Outcome.OK}
    assert works == {"", "equal1", "equal2", "fast", "slow", "slower", "slowest"}
    for name in ("crash.acf", r"hang\d.acf", "wrong.acf"):
        assert re.search(f"for example controls={name}@", printed)

    (campaign / "packs" / "fast.acf").write_text("ms=90\n")
    assert tune(["sum.yaml"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    old = measured["fast"].config["controls"]
    assert " in results/sum.db are kept but not used, with values that sum.yaml no" in printed
    assert f"no longer has: controls={old} note: packs/fast.acf has changed since" in printed
    assert re.search(r"Use controls=equal\d.acf@\w{12}(, g=true)?: 1.67x", printed)
    (found,) = open_results("results/sum.db")
    files = {file["value"]: file["option"] for file in found.to_dict()["flag_files"]}
    assert files[old] == "--apply-controls=packs/fast.acf", "that of the old content is there"
    assert len(files) == len(PACK) + 1
    values = {config["controls"] for config in found.stored.measured[found.inputs[0].problem]}
    assert old not in values
    assert any(old in warning for warning in found.to_dict()["warnings"])
    report(["results/sum.db", "-o", "sum.html"])
    page = (campaign / "sum.html").read_text()
    assert re.search(r"controls=equal\d.acf@\w{12} is --apply-controls=packs/equal\d.acf", page)


def by_file(database: str) -> dict[str, Measurement]:
    """What the search measured, by the name of the file; without g."""
    (found,) = open_results(database)
    (measured,) = found.stored.measured.values()
    return {
        (file_name(config["controls"]) or "").removesuffix(".acf"): measurement
        for config, measurement in measured.items()
        if not config["g"]
    }


# nvcc, with the words that a file of controls holds.
