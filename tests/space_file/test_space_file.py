"""Space files: what loads, what is refused and with which words, and the page that teaches it."""

import os
import re
import time
from pathlib import Path

import pytest
import yaml

from harness.constraints.expression import FUNCTIONS, WORDS
from harness.core.errors import SpecError, UsageError
from harness.core.records import LIMIT_NAMES
from harness.space_file import (
    SpaceFile,
    load_spec,
    load_specs,
    read_document,
    space_schema,
)
from harness.space_file import document as document_module
from harness.space_file.model import KernelMeasure, PythonSpaceFile
from harness.space_file.program_model import ProgramSpaceFile
from tests import DATA, ROOT

BAD = DATA / "bad_specs"
PAGE = ROOT / "docs" / "reference" / "space.md"
BAD_SPECS = yaml.safe_load((BAD / "cases.yaml").read_text(encoding="utf-8"))

WHOLE = """\
name: scale
kernel: {function: scale, source: scale.cl, host: scale.py}
parameters:
  BLOCK: {type: power_of_two, min: 16, max: 256, role: launch, default: 64}
  UNROLL: {values: [1, 2, 4], default: 1}
launch: {group: [BLOCK], grid: ["ceil_div(n, BLOCK * UNROLL)"]}
inputs: {features: [n], values: [{n: 1024}, {n: 4096}]}
"""

SCRIPT = """\
name: script
program: {sources: [run.sh], run: [sh, '{source}', '{A}'], time: wall}
parameters: {A: {values: [1, 2], default: 1}}
inputs: {features: [n], values: [{n: 1}]}
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a kernel and its host module."""
    for name in ("scale.cl", "scale.py"):
        (tmp_path / name).write_text((BAD / "files" / name).read_text())
    return tmp_path


def load(folder, text):
    path = folder / "space.yaml"
    path.write_text(text)
    return load_spec(path)


def parameter(folder, text):
    """The parameter UNROLL, written like this."""
    without_use = WHOLE.replace(" * UNROLL", "")
    return load(folder, re.sub("UNROLL: .*", f"UNROLL: {text}", without_use)).parameters[1]


def flag(folder, compiler, text):
    return load(folder, f"{WHOLE}flags: {{{compiler}: {{{text}}}}}\n").parameters[-1]


# ------------------------------------------------------------------- what is refused


def patched(base, patch):
    """A base space with the sections of a patch; one that is REMOVED is left out."""
    sections = {key: text for text in (base, patch) for key, text in sections_of(text)}
    return "".join(text for text in sections.values() if not text.endswith(": REMOVED\n"))


def sections_of(text):
    return [(part.partition(":")[0], part) for part in re.split(r"(?m)^(?=\w)", text) if part]


def test_bad_spaces_are_refused_with_these_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("files").symlink_to(BAD / "files")
    printed, expected = {}, {}
    for name, case in BAD_SPECS["cases"].items():
        base = BAD_SPECS["bases"][case.get("base", "kernel")]
        text = case.get("text") or patched(base, case["patch"])
        with pytest.raises(SpecError) as caught:
            load(Path(), text)
        printed[name] = str(caught.value)
        expected[name] = case["says"].strip()
    assert printed == expected


def test_bytes_that_are_no_space_are_refused(folder):
    cases = (
        (b"", "is empty"),
        (b"# Latin-1\ntitle: caf\xe9\n", "line 2, byte 20"),
        (bytes(range(256)), "line 2, byte 128"),
        (b"scale\n", ":1: "),
        (b"a:\n  b: " + b"9" * 1000, ":2: a number of 1,000 digits"),
        (WHOLE.encode() + b"constraints: [" + b"1 + " * 250 + b"1]", ":8: .* 1,001"),
    )
    for content, says in cases:
        path = folder / "space.yaml"
        path.write_bytes(content)
        with pytest.raises(SpecError, match=says):
            load_spec(path)


def test_faults_of_a_space_in_json_have_lines(tmp_path):
    path = tmp_path / "space.json"
    path.write_text('{\n  "title": "x",\n  "kernal": {"function": "scale"}\n}\n')
    with pytest.raises(SpecError, match="json:3: `kernal`"):
        load_spec(path)


def test_folder_is_no_space(tmp_path):
    with pytest.raises(SpecError, match="is a folder"):
        load_spec(tmp_path)


def test_faults_of_several_files_come_together(folder):
    paths = [folder / name for name in ("b.yaml", "a.yaml")]
    for path in paths:
        path.write_text(WHOLE.replace("name: scale", "name: []"))
    with pytest.raises(SpecError) as caught:
        load_specs(paths)
    assert [fault.path for fault in caught.value.faults] == sorted(map(str, paths))


def test_missing_file_names_its_neighbours(folder):
    (folder / "other.yaml").touch()
    with pytest.raises(SpecError, match=r"space\.yaml: .* other\.yaml"):
        load_spec(folder / "space.yaml")


def test_pipe_is_read_neither_as_a_space_nor_as_a_source_or_host(folder):
    for name in ("pipe.yaml", "scale.cl", "scale.py"):
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)
    with pytest.raises(SpecError, match="is not a regular file"):
        load_spec(folder / "pipe.yaml")
    with pytest.raises(SpecError) as caught:
        load(folder, WHOLE)
    assert str(caught.value).count("not a regular file") == 2


def test_large_nonsense_is_refused_in_seconds(folder):
    for text in ("[" * 250_000, "- " * 120_000, "a: 1\n" * 9_999, "9" * 250_000, "'" * 99_999):
        began = time.process_time()
        with pytest.raises(SpecError):
            load(folder, text)
        assert time.process_time() - began < 10


def test_what_is_over_a_limit_is_unparsed(folder, monkeypatch):
    monkeypatch.setattr(document_module, "MAX_NODES", 1000)
    with pytest.raises(SpecError, match=r"space\.yaml:3: .*more than 1,000 values"):
        load(folder, f"a: [1,\n  2,\n  {'3, ' * 1000}]\n")
    lists = "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 10}]\n" for n in range(1, 9))
    with pytest.raises(SpecError, match=r"space\.yaml:1: .*counting what each alias"):
        load(folder, f"a0: &a0 [ha]\n{lists}")
    monkeypatch.setattr(document_module, "MAX_BYTES", 1000)
    with pytest.raises(SpecError, match="is longer than 1,000 bytes"):
        load(folder, "# " + "x" * 1000)


def test_constructors_never_run(tmp_path):
    with pytest.raises(SpecError, match="not allowed"):
        load(tmp_path, f"name: !!python/object/apply:os.mkdir ['{tmp_path}/made']\n")
    assert not (tmp_path / "made").exists()


def test_host_module_is_not_run(folder):
    with (folder / "scale.py").open("a") as host:
        host.write("raise SystemExit('it ran')\n")
    assert load(folder, WHOLE).name == "scale"


def test_host_function_may_come_from_elsewhere(folder):
    for definition in (
        "from other import reference",
        "from other import anything as reference",
        "reference = make()",
        "reference: object = make()",
    ):
        (folder / "scale.py").write_text(f"def arguments(features, rng): ...\n{definition}\n")
        assert load(folder, WHOLE).name == "scale"


def test_constraint_on_a_device_waits_for_it_but_not_with_its_types(folder):
    assert load(folder, WHOLE + "constraints: [BLOCK > max_group_size]\n").constraints
    text = WHOLE.replace("[1, 2, 4]", "[1, many]").replace(" * UNROLL", "")
    with pytest.raises(SpecError, match="no order"):
        load(folder, text + "constraints: [UNROLL <= warp_size]\n")


def test_space_too_large_to_count_is_judged_by_its_default(folder):
    wide = "{type: integer, min: 1, max: 9007199254740992, default: 1}"
    text = re.sub("UNROLL: .*", f"UNROLL: {wide}", WHOLE)
    assert load(folder, text + "constraints: [UNROLL % BLOCK == 1]\n").name == "scale"
    with pytest.raises(SpecError, match=r"default .* illegal"):
        load(folder, text + "constraints: [UNROLL % BLOCK == 2]\n")


def test_fault_on_many_inputs_is_reported_once(folder):
    inputs = ", ".join(f"{{n: {n}}}" for n in range(1, 400))
    text = re.sub("values: .{n.*", f"values: [{inputs}]}}", WHOLE)
    with pytest.raises(SpecError) as caught:
        load(folder, text + "constraints: [BLOCK <= n / 16]\n")
    assert len(caught.value.faults) == 1


# ----------------------------------------------------------------------- what loads


def test_every_committed_space_loads():
    for spec in load_specs((ROOT / "spaces").glob("*.yaml")):
        assert spec.inputs


def test_spec_has_what_the_file_says():
    spec = load_spec(ROOT / "spaces" / "mvmul.yaml")
    assert (spec.name, spec.functions, spec.features) == ("mvmul", ("mvmul",), ("m", "n"))
    assert {p.name: p.default for p in spec.parameters} == {"THRD": 256, "LU": 1, "X_CACHE": 1}
    assert spec.sources["cuda"] is spec.sources["opencl"]
    (constraint,) = spec.constraints
    assert constraint.expression.text == "LU <= sqrt(THRD) / 4"
    assert "LU <= sqrt" in spec.path.read_text().splitlines()[constraint.line - 1]
    assert [e.text for e in spec.launch.grid] == ["ceil_div(m, sqrt(THRD))", "1"]
    assert dict(spec.inputs[0]) == {"m": 16, "n": 65536}


def test_kinds_of_parameters(folder):
    cases = {
        "{values: [1, 2, 4], default: 1}": "ordered [1, 2, 4]",
        "{values: [0.5, 1, 1e2], default: 1}": "ordered [0.5, 1, 100.0]",
        "{values: [4, 1], default: 1}": "enum [4, 1]",
        "{values: [on, off], default: on}": "enum ['on', 'off']",
        "{values: [true, 2], default: true}": "enum [True, 2]",
        "{type: values, values: [1], default: 1}": "ordered [1]",
        "{type: integer, min: 1, max: 4, default: 2}": "integer [1, 2, 3, 4]",
        "{type: integer, min: 1, max: 8, step: 3, default: 4}": "ordered [1, 4, 7]",
        "{type: log_integer, min: 2, max: 4, default: 2}": "log_integer [2, 3, 4]",
        "{type: power_of_two, min: 2, max: 8, default: 4}": "power_of_two [2, 4, 8]",
        "{type: boolean, default: true}": "boolean [False, True]",
    }
    for text, kind in cases.items():
        tuned = parameter(folder, text)
        assert f"{tuned.kind} {list(tuned.values)}" == kind
        assert tuned.role == "source"


def test_range_is_not_spread_out(folder):
    wide = parameter(folder, "{type: integer, min: 1, max: 9007199254740992, default: 1}")
    assert isinstance(wide.values, range)


def test_flags_are_spelled_for_their_compiler(folder):
    cases = (
        ("nvcc", "use_fast_math: boolean", True, ("--use_fast_math",)),
        ("nvcc", "use_fast_math: boolean", False, ()),
        ("nvcc", "maxrregcount: {min: 16, max: 32}", 24, ("--maxrregcount=24",)),
        ("nvcc", "maxrregcount: {min: 16, max: 32}", None, ()),
        ("nvcc", "ftz: {values: [true, false]}", False, ("--ftz=false",)),
        ("nvcc", "O: {values: [1, 3], option: '-Xptxas -O{value}'}", 3, ("-Xptxas", "-O3")),
        ("nvcc", "x: {values: [a b], option: 'x={value}'}", "a b", ("x=a b",)),
        ("opencl", "cl-mad-enable: boolean", True, ("-cl-mad-enable",)),
        ("opencl", "cl-std: {values: [CL1.2, CL3.0]}", "CL3.0", ("-cl-std=CL3.0",)),
    )
    for compiler, text, value, options in cases:
        tuned = flag(folder, compiler, text)
        assert (tuned.role, tuned.compiler) == ("flag", compiler)
        assert tuned.options(value) == options
        assert tuned.options(tuned.default) == ()


def test_flags_meet_only_their_own_compiler(folder):
    flags = "flags: {nvcc: {fast-math: boolean}, opencl: {fast_math: {values: [1, 2]}}}\n"
    spec = load(folder, WHOLE + flags + "constraints: ['fast_math in [absent, false, 1]']\n")
    assert [p.kind for p in spec.tuned_for("nvcc")][2:] == ["boolean"]
    assert [p.kind for p in spec.tuned_for("opencl")][2:] == ["enum"]
    assert len(spec.tuned_for(None)) == 2


def test_numbers_are_read_as_yaml_1_2_reads_them(tmp_path):
    path = tmp_path / "numbers.yaml"
    path.write_text("a: [1e-4, 016, 0x10, 0o17, .inf, 1_000, 1:30, yes, True, ~, '1', 2020-01-01]")
    texts = ["1_000", "1:30", "yes", True, None, "1", "2020-01-01"]
    assert read_document(path).data == {"a": [1e-4, 16, 16, 15, float("inf"), *texts]}


def test_aliases_have_lines(tmp_path):
    path = tmp_path / "lines.yaml"
    path.write_text("a: &a\n  x: 1\nb:\n  - *a\n  - y: 2\n")
    document = read_document(path)
    assert document.data == {"a": {"x": 1}, "b": [{"x": 1}, {"y": 2}]}
    assert document.line_of(("a", "x")) == 2
    assert document.line_of(("b", 1, "y")) == 5
    assert document.line_of(("b", 1, "z", 3)) == 5


def test_programs_differ_where_what_is_measured_differs(folder):
    wider = WHOLE.replace("[1, 2, 4]", "[1, 2, 4, 8]")
    stricter = WHOLE + "constraints: [BLOCK > UNROLL]\n"
    conditional = WHOLE.replace("default: 1}", "default: 1, when: n > 2000}")
    searched = [load(folder, text) for text in (WHOLE, wider, stricter, conditional)]
    programs = {spec.program_sha256 for spec in searched}
    assert len(programs) == 1
    assert len({spec.space_sha256 for spec in searched}) == 4
    programs.add(load(folder, WHOLE + "verify: {rtol: 0.1}\n").program_sha256)
    for module in ("scale.py", "imported.py", "imported.py"):
        with (folder / module).open("a") as file:
            file.write("import imported\n")
        programs.add(load(folder, WHOLE).program_sha256)
    assert len(programs) == 5, "what a host module imports is measured too"


def test_bits_of_another_default_are_another_program(folder):
    other = WHOLE.replace("default: 64", "default: 32")
    bits = "verify: {bits: default}\n"
    programs = {load(folder, text).program_sha256 for text in (WHOLE, other)}
    assert len(programs) == 1
    for text in (WHOLE, other):
        programs.add(load(folder, text + bits).program_sha256)
    assert len(programs) == 3


def test_host_changed_after_loading_does_not_change_the_program(folder):
    spec, other = load(folder, WHOLE), load(folder, WHOLE)
    (folder / "scale.py").unlink()
    assert spec.program_sha256 == other.program_sha256


def test_measurement_options_may_be_changed_after_loading(folder):
    spec = load(folder, WHOLE + "measure: {warmup: 3}\n")
    assert spec.with_measure({"repeats": 2}).measure == KernelMeasure(warmup=3, repeats=2)
    with pytest.raises(UsageError, match=r"measure\.repeats: .* 0"):
        spec.with_measure({"repeats": 0})
    with pytest.raises(UsageError, match=r"`repeat` .* `repeats`"):
        spec.with_measure({"repeat": 3})


def test_options_that_programs_lack_are_described_by_their_own_model(tmp_path):
    (tmp_path / "run.sh").touch()
    with pytest.raises(UsageError, match=r"^(?!.*did you mean `cache`).*`cache`"):
        load(tmp_path, SCRIPT).with_measure({"cache": "cold"})


# ------------------------------------------------------------------------- extends


def extending(folder, text, base=WHOLE):
    """A space in a folder of its own that extends one beside the kernel."""
    (folder / "base.yaml").write_text(base)
    (folder / "inner").mkdir()
    path = folder / "inner" / "space.yaml"
    path.write_text(f"extends: ../base.yaml\nname: other\n{text}")
    return path


def test_keys_that_are_not_given_are_those_of_the_extended_file(folder):
    base, inputs = load(folder, WHOLE), "inputs: {features: [n], values: [{n: 7}]}\n"
    spec = load_spec(extending(folder, inputs))
    assert (spec.name, [dict(problem) for problem in spec.inputs]) == ("other", [{"n": 7}])
    assert spec.parameters == base.parameters
    assert spec.space_sha256 == base.space_sha256
    (folder / "base.yaml").write_text(WHOLE.replace("[1, 2, 4]", "[1, 2]"))
    assert load_spec(spec.path).space_sha256 != base.space_sha256


def test_program_and_its_expected_output_may_come_from_two_folders(tmp_path):
    for name in ("run.sh", "inner.txt"):
        (tmp_path / name).touch()
    path = extending(tmp_path, "verify: {against: {file: out.txt}}\n", SCRIPT)
    output = path.parent / "out.txt"
    output.touch()
    plan = load_spec(path).program
    assert plan is not None
    assert output.samefile(plan.expected_file({"n": 1}) or "")


def test_faults_name_the_file_and_line_that_they_stand_in(folder):
    base = WHOLE + "constraints: [BLOCK > m]\n"
    path = extending(folder, "measure:\n  warmup: 0\n", base)
    with pytest.raises(SpecError, match=r"inner/space\.yaml:4: measure\.warmup"):
        load_spec(path)
    path.write_text("extends: ../base.yaml\nname: other\n")
    with pytest.raises(SpecError, match=r"inner/\.\./base\.yaml:8: constraints\.0: `m`"):
        load_spec(path)
    path.write_text("extends: ../base.yaml\n")
    with pytest.raises(SpecError, match=r"inner/space\.yaml:1: .*`name`"):
        load_spec(path)


def test_program_that_extends_a_kernel_learns_where_the_kernel_is(folder):
    path = extending(folder, "program: {run: [sh, x.sh], time: wall}\n")
    with pytest.raises(SpecError, match=r"space\.yaml:3: .*base\.yaml, with its `kernel`"):
        load_spec(path)


def test_file_that_cannot_be_extended_is_refused(folder):
    for named, fact in {
        "none": "none .* space.yaml",
        "space.yaml": "circular",
        "[]": "text",
    }.items():
        with pytest.raises(SpecError, match=f":1: extends: .*{fact}"):
            load(folder, f"extends: {named}\n{WHOLE}")


# -------------------------------------------------------------------- Python callables

CALLABLE = """\
FRAMEWORK = "numba"
def arguments(features, rng): ...
def reference(arguments): ...
def build(config, features): return kernel(config["TILE"])
"""
IN_PYTHON = """\
name: k
kernel: {python: k.py}
parameters: {TILE: {values: [1, 2], default: 1}}
inputs: {features: [n], values: [{n: 1}]}
"""


def load_callable(folder, text, module):
    (folder / "k.py").write_text(module)
    return load(folder, text)


def test_callable_is_read_without_being_run(tmp_path):
    spec = load_callable(tmp_path, IN_PYTHON, CALLABLE)
    assert (spec.framework, spec.functions) == ("numba", ("build",))
    assert spec.host == tmp_path / "k.py"
    changed = load_callable(tmp_path, IN_PYTHON, CALLABLE.replace("kernel(", "other("))
    assert changed.program_sha256 != spec.program_sha256


def test_fault_of_a_callable_names_its_word(tmp_path):
    cases = (
        (IN_PYTHON, "def arguments(): ...\n", "`build`"),
        (IN_PYTHON, CALLABLE.replace("numba", "jax"), "jax"),
        (IN_PYTHON, CALLABLE.replace("TILE", "ROWS"), "`TILE`"),
        (IN_PYTHON, f"{CALLABLE}def launches(a, c): ...", "`launches`"),
        (f"{IN_PYTHON}launch: host\n", CALLABLE, "`launch`"),
        (IN_PYTHON.replace("k.py}", "k.py, host: k.py}"), CALLABLE, "`host`"),
    )
    for space, module, word in cases:
        with pytest.raises(SpecError, match=word):
            load_callable(tmp_path, space, module)


# ----------------------------------------------------------------------- the schema


def schema_keys(model):
    schema = model.model_json_schema()
    for part in (schema, *schema["$defs"].values()):
        yield from part.get("properties", ())


def test_schema_describes_every_key():
    for part in space_schema()["$defs"].values():
        assert part["description"]
        assert "enum" in part or part["additionalProperties"] is False
        for name, field in part.get("properties", {}).items():
            assert name == "type" or field.get("description"), name


def test_schema_accepts_the_spaces_and_refuses_a_misspelt_key():
    jsonschema = pytest.importorskip("jsonschema")
    schema = space_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for name in ("mvmul", "blur_gcc", "python/softmax", "large/mvmul"):
        data = read_document(ROOT / "spaces" / f"{name}.yaml").data
        assert not list(validator.iter_errors(data))
        for fault in ({"constrains": []}, {"parameters": {"B": {"values": [1]}}}):
            assert list(validator.iter_errors(data | fault))
    for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        data = yaml.safe_load(WHOLE) | yaml.safe_load(block)
        assert not list(validator.iter_errors(data)), block


# ------------------------------------------------------------------------- the page


def words_of_code(page):
    codes = re.findall("`([^`]*)`", page.read_text(encoding="utf-8"))
    return set(re.findall(r"\w+", " ".join(codes)))


def test_pages_teach_every_key_and_word():
    on_page = words_of_code(PAGE)
    for keys in (schema_keys(SpaceFile), schema_keys(PythonSpaceFile), LIMIT_NAMES):
        assert set(keys) <= on_page
    assert {*FUNCTIONS, *WORDS} <= on_page
    on_page |= words_of_code(ROOT / "docs" / "reference" / "program.md")
    assert set(schema_keys(ProgramSpaceFile)) <= on_page


def test_words_describe_an_input_and_one_cuda_source_is_no_opencl(folder):
    (folder / "scale.cu").write_text("__global__ void scale(float *x) { x[0] = BLOCK * UNROLL; }")
    text = WHOLE.replace("scale.cl", "scale.cu").replace("[n]", "[n, matrix]")
    text = text.replace("{n: 1024}, {n: 4096}", "{n: 1, matrix: bcsstk17}, {n: 1, matrix: a-b}")
    spec = load(folder, f"{text}constraints: [\"BLOCK < 64 or matrix != 'c-d'\"]\n")
    assert [problem["matrix"] for problem in spec.inputs] == ["bcsstk17", "a-b"]
    assert list(spec.sources) == ["cuda"]
