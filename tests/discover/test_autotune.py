"""A kernel under @triton.autotune to a space and a host module; the file is never run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.core.errors import HarnessError
from harness.discover.autotune import triton_texts
from harness.discover.space_file import to_do
from harness.space_file import load_spec
from tests.helpers.commands import check, discover

DATA = Path(__file__).parents[1] / "data" / "discover"

HEAD = "import triton\nfrom itertools import product\n"
KERNEL = "@triton.jit\ndef add(x, n, BLOCK: tl.constexpr = 8, *, FAST: tl.constexpr): pass\n"


def _discovered(folder, source):
    """Return the space, the host module's text and what is left to do in both."""
    space, host = folder / "k.yaml", folder / "k_host.py"
    text, module = triton_texts(source, None, folder, host)
    space.write_text(text)
    host.write_text(module)
    return load_spec(space), module, "\n".join([*to_do(module), *to_do(text)])


def _spec(folder, before, configs):
    text = f"{HEAD}{before}@triton.autotune(configs={configs}, key=['n'])\n{KERNEL}"
    (folder / "k.py").write_text(text)
    return _discovered(folder, folder / "k.py")[0]


def _values(spec):
    return {p.name: list(p.values) for p in spec.parameters}


# --------------------------------------------------------------------------- what is written


def test_a_listed_kernel_becomes_a_space_with_the_list_as_baselines(tmp_path):
    spec, _, marks = _discovered(tmp_path, DATA / "triton_matmul.py")
    values = {name: [16, 32, 64] for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K")}
    assert _values(spec) == values | {"num_warps": [4, 8], "num_stages": [3, 4, 5]}
    assert [p.default for p in spec.parameters] == [32, 64, 32, 8, 3]
    assert {p.name for p in spec.parameters if p.role == "launch"} == {"num_warps", "num_stages"}
    assert list(spec.features) == ["M", "N", "K"]
    assert [dict(b.values) for b in spec.baselines][1] == {
        "BLOCK_M": 16, "BLOCK_K": 16, "num_warps": 4, "num_stages": 4
    }  # fmt: skip
    assert "# line 17\n" in (tmp_path / "k.yaml").read_text()
    assert "is_cuda() counts as true" in marks


def test_the_host_module_has_what_the_kernel_uses_and_nothing_that_runs(tmp_path):
    _, module, marks = _discovered(tmp_path, DATA / "triton_matmul.py")
    names = re.findall(r"^def (\w+)", module, re.MULTILINE)
    assert names[:3] == ["leaky_relu", "matmul_kernel", "arguments"]
    assert "SLOPE: tl.constexpr = tl.constexpr(0.01)" in module
    assert "autotune(" not in module
    assert "import torch" not in module
    assert 'FILL IN: "ACTIVATION": its value' in marks


def test_heuristics_constants_and_zeroed_outputs_have_their_places(tmp_path):
    spec, module, _ = _discovered(tmp_path, DATA / "triton_softmax.py")
    assert len(spec.baselines) == 6  # of 8 combinations, the list leaves one out
    assert "@triton.heuristics({'EXACT': lambda args" in module
    assert '"EXACT"' not in module
    assert '"y": None,' in module  # though the heuristic reads it
    spec, module, marks = _discovered(tmp_path, DATA / "triton_layer_norm.py")
    assert 'INOUT = ("gradient",)\n' in module
    assert "zeros, which the kernel adds to" in marks
    assert "expected arrays: gradient\n" in marks
    assert '"columns": features["columns"],' in module  # a constant that the key names


def test_what_autotune_does_around_a_launch_is_left_to_do(tmp_path):
    source = tmp_path / "k.py"
    source.write_text(
        f"{HEAD}@triton.autotune(\n"
        "[triton.Config({'BLOCK': 8}), triton.Config({'BLOCK': 4}, pre_hook=clear)],\n"
        "key=[], prune_configs_by={'early_config_prune': f}, restore_value=['x'], warmup=3)\n"
        f"{KERNEL}"
    )
    _, module, marks = _discovered(tmp_path, source)
    assert "what pre_hook does, at line 4 of k.py" in marks
    assert "as conditions, what prune_configs_by leaves out" in marks
    assert "numbers that describe an input; n is an example" in marks
    assert 'INOUT = ("x",)\n' in module


def test_the_command_writes_both_files_and_says_what_is_left(tmp_path, capsys):
    space, host = tmp_path / "s.yaml", tmp_path / "h.py"
    source = str(DATA / "triton_softmax.py")
    assert discover(["--triton", source, "--output", str(space), "--host", str(host)]) == 0
    assert re.search(r"h\.py, line \d+: FILL IN: the grid", capsys.readouterr().err)
    assert check([str(space), "--no-compile"]) == 0
    assert discover(["--triton", source]) == 0
    written = capsys.readouterr().out
    assert "triton_softmax_host.py}  # FILL IN: write it; --host FILE writes its" in written
    assert discover([source]) == 2
    assert "--triton reads Python" in capsys.readouterr().err


# The inputs, and what a person writes for the marks of each host module.
FILLED = {
    "matmul": ("{M: 40, N: 70, K: 33}", {
        '"a_ptr": None': '"a_ptr": rng.random((features["M"], features["K"]), np.float32)',
        '"b_ptr": None': '"b_ptr": rng.random((features["K"], features["N"]), np.float32)',
        '"c_ptr": None': '"c_ptr": np.zeros((features["M"], features["N"]), np.float32)',
        '"stride_am": np.int32(1)': '"stride_am": np.int32(features["K"])',
        "raise": 'return {"c_ptr": arguments["a_ptr"] @ arguments["b_ptr"]}  #',
        '# FILL IN: "ACTIVATION": its value': '"ACTIVATION": ""',
        "(1,)": "lambda of: (*(triton.cdiv(of[i], of['BLOCK_' + i]) for i in 'MN'),)",
    }),
    "softmax": ("{rows: 7, columns: 100}", {
        '"x": None': '"x": rng.random((features["rows"], features["columns"]), np.float32)',
        '"y": None': '"y": np.zeros((features["rows"], features["columns"]), np.float32)',
        "raise": 'e = np.exp(arguments["x"])\n    return {"y": e / e.sum(1)[:, None]}  #',
        "(1,)": '(triton.cdiv(features["rows"], config["ROWS"]),)',
    }),
    "layer_norm": ("{columns: 100}", {
        '"out": None': '"out": rng.random((50, features["columns"]), np.float32)',
        '"normal": None': '"normal": rng.random((50, features["columns"]), np.float32)',
        '"gradient": None': '"gradient": np.zeros(features["columns"], np.float32)',
        '"rows": None': '"rows": np.int32(50)',
        "raise": 'return {"gradient": (arguments["out"] * arguments["normal"]).sum(0)}  #',
        "(1,)": "lambda of: (triton.cdiv(50, of['ROWS']), 100 // of['COLUMNS'] + 1)",
    }),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.torch
def test_filled_in_files_are_verified_in_tritons_interpreter(tmp_path, monkeypatch, capsys):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    spaces = []
    for name, (problem, filled) in FILLED.items():
        space, host = tmp_path / f"{name}.yaml", tmp_path / f"{name}_host.py"
        text, module = triton_texts(DATA / f"triton_{name}.py", None, tmp_path, host)
        module = re.sub(r".*FILL IN: the arguments below.*\n", "", module)
        for mark, written in filled.items():
            assert module.count(mark) == 1
            module = module.replace(mark, written)
        host.write_text(module)
        space.write_text(re.sub(r"- \{.*\}", f"- {problem}", text))
        spaces.append(str(space))
    assert check([*spaces, "--run"]) == 0
    assert len(re.findall(r"OK, .* verified", capsys.readouterr().out)) == len(spaces)


def test_a_copy_that_its_own_package_would_need_is_made_fit_or_marked(tmp_path):
    (tmp_path / "k.py").write_text(
        "import triton\nfrom .common import (\n    helper)\nclass A:\n  @staticmethod\n"
        "  @triton.autotune([], ['n'])\n  @triton.jit\n  def f(n): helper(n)\n"
    )
    _, module, marks = _discovered(tmp_path, tmp_path / "k.py")
    assert "    helper)  # FILL IN: an absolute import\n" in module
    assert "line 10: FILL IN: an absolute import" in marks
    assert "staticmethod" not in module


def test_arguments_have_a_mark_by_their_kind(tmp_path):
    (tmp_path / "k.py").write_text(
        "@triton.autotune([], ['n', 'HEAD', 'IS_WIDE'])\n@triton.jit\n"
        "def f(a, b, stride_a, stride_b, n, HEAD: tl.constexpr, IS_WIDE: tl.constexpr,\n"
        "      HAS_B: tl.constexpr): pass\n"
    )
    spec, module, marks = _discovered(tmp_path, tmp_path / "k.py")
    assert dict(spec.inputs[0]) == {"n": 64, "HEAD": 64, "IS_WIDE": 1}
    assert re.search(r"line (\d+)-(?!\1)\d+: FILL IN: its array or number", marks)
    assert marks.count("its stride, in elements") == 1
    assert '"stride_b": np.int32(1),' in module
    assert '# FILL IN: "HAS_B": True,' in module


def test_arguments_that_are_not_filled_in_raise_an_error_that_says_so(tmp_path):
    _, module, _ = _discovered(tmp_path, DATA / "triton_softmax.py")
    (arguments,) = re.findall(r"^def arguments.*?(?=\n\n\n)", module, re.MULTILINE | re.DOTALL)
    with pytest.raises(NotImplementedError, match="FILL IN"):
        exec(f"{arguments}\narguments({{}}, None)", {})


# ------------------------------------------------------------------------- how lists are read


def test_a_list_is_read_without_running_it(tmp_path):
    cases = (
        ("", "[triton.Config({'BLOCK': 2 ** i * 3}) for i in range(3)]", [3, 6, 12]),
        ("", "[triton.Config({'BLOCK': b}, num_warps=w) for b, w in product([8, 16], (2, 4))]",
         [8, 16]),
        ("B = [8]\nC = B + [32]\n",
         "[triton.Config(kwargs={'BLOCK': b}) for b in C if b not in [9] and b > 8]", [32]),
        ('def get():\n    """Return them."""\n    return [triton.Config({"BLOCK": 7})]\n', "get()",
         [7]),
        ("a = [triton.Config({'BLOCK': 5})]\n",
         "a if is_cuda() else [triton.Config({'BLOCK': 6})]", [5]),
        ("", "[triton.Config({'BLOCK': 'wide'}), triton.Config({'BLOCK': 'narrow'})]",
         ["wide", "narrow"]),
        ("", "[triton.Config({'BLOCK': True}), triton.Config({'BLOCK': False})]", [True, False]),
        ("", "[triton.Config({'BLOCK': 4}, 4, 3, 2, 64)]", [4]),
    )  # fmt: skip
    for before, configs, blocks in cases:
        values = _values(_spec(tmp_path, before, configs))
        assert values["BLOCK"] == blocks
        assert {"num_warps", "num_stages"} <= set(values)
        assert values.get("maxnreg", [64]) == [64]


def test_what_a_space_cannot_take_over_is_marked(tmp_path):
    cases = (
        ("", "[triton.Config({'BLOCK': b}, num_warps=w) for b in [8, 16] for w in [4, 8] "
         "if b * w <= 64]",
         ['- BLOCK * num_warps <= 64  # CONFIRM: from `b * w <= 64` (line 3)']),
        ("D = 3\n", "[triton.Config({'BLOCK': b}) for b in [8, 16] if b > D]",
         ["# FILL IN: as a condition, what `b > D` leaves out (line 4)\nconstraints: []"]),
        ("A = [triton.Config({'BLOCK': 8})]\n", "[c for c in A if keep(c)]",
         ["what `keep(c)` leaves out (line 4)"]),
        ("A = [triton.Config(dict(BLOCK=8))]\n", "list(filter(keep, A))",
         ["what `keep` leaves out (line 4)"]),
        ("", "[triton.Config({'BLOCK': b}) for b in [8, 16] if b > 8] "
         "+ [triton.Config({'BLOCK': 4})]",
         ["what `b > 8` leaves out (line 3)\nconstraints: []"]),
        ("def f():\n out = []\n for b in [8, 16]:\n  for w in [4, 8]:\n   if b * w < 99:\n"
         "    out.append(triton.Config({'BLOCK': b}, num_warps=w))\n return out\n", "f()",
         ["- BLOCK * num_warps < 99  # CONFIRM: from `b * w < 99` (line 7)"]),
        ("A = [triton.Config({'BLOCK': 8})]\nif 'FAST' in os.environ:\n  A = A[:1]\n", "A",
         ["# CONFIRM: the values of A here; line 4 may change them"]),
        ("A = []\nA += [triton.Config({'BLOCK': 8})]\n", "A + [triton.Config({'BLOCK': 8})]",
         ["# CONFIRM: the values of A here; line 4 may change them"]),
        ("if is_hip():\n  B = [1]\nelse:\n  B = [8, 32]\n",
         "[triton.Config({'BLOCK': b}) for b in B]",
         ["BLOCK: {values: [8, 32]", "# CONFIRM: the list for CUDA"]),
        ("", "[triton.Config({'BLOCK': b}) for b in range(1, 30)]",
         ["# CONFIRM: the 28 other configurations are no baselines"]),
    )  # fmt: skip
    for before, configs, marks in cases:
        _spec(tmp_path, before, configs)
        written = (tmp_path / "k.yaml").read_text()
        assert [mark for mark in marks if mark not in written] == []


def test_what_only_a_run_would_show_is_named_with_its_line(tmp_path):
    cases = (
        ("", "make_configs(8)", r"py:3: `make_configs\(8\)`"),
        ("def f():\n    import os\n    return []\n", "f()", "py:4: `import os`"),
        ("", "[triton.Config({'BLOCK': tl.float16})]", "py:3: `tl.float16`"),
        ("", "[triton.Config({'BLOCK': B})]", "py:3: `B`"),
        ("", "[triton.Config({'BLOCK': 1 / 'a'})]", "py:3: `1 / 'a'`"),
        ("", "[triton.Config({**B})]", r"py:3: `{\*\*B}`"),
        ("B = B\n", "[triton.Config({'BLOCK': B})]", "recursion"),
        ("", "[triton.Config({'BLOCK': [8, 8]})]", "py:3: .* same"),
        (
            "",
            "[triton.Config({'BLOCK': 8}),\ntriton.Config({'BLOCK': 8}, maxnreg=9)]",
            "py:4: .* same",
        ),
        (
            "",
            "[triton.Config({'BLOCK': b}) for b in product(range(999), range(999), range(9))]",
            "py:3: .* too long",
        ),
        ("", "(lambda: [])()", r"py:3: `\(lambda: \[\]\)\(\)`"),
    )
    for before, configs, fact in cases:
        with pytest.raises(HarnessError, match=fact):
            _spec(tmp_path, before, configs)


def test_one_kernel_of_a_readable_file_is_chosen(tmp_path):
    source = tmp_path / "k.py"
    with pytest.raises(HarnessError, match="No such file"):
        triton_texts(source, None, tmp_path, None)
    two = "".join(f"@triton.autotune([], ['n'])\ndef {name}(x, n): pass\n" for name in "fg")
    for text, fact in {
        "@triton.jit\ndef f(x): pass\n": "above @triton.jit",
        "@triton.autotune(configs=[\n": "line 1",
        "\0": "null",
        f"x = {'(' * 999}1{')' * 999}\n": "nested",
        two: r"f \(line 2\), g \(line 4\)",
    }.items():
        source.write_text(text)
        with pytest.raises(HarnessError, match=fact):
            triton_texts(source, None, tmp_path, None)
    text, _ = triton_texts(source, "g", tmp_path, None)
    assert "\nname: g\n" in text
