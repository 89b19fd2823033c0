"""Which edits change the code of a source, and which only its text."""

from __future__ import annotations

from harness.source.code import c_code, code_of, python_code

KERNEL = """#define N 4 /* rows */
#define SQUARE(x) ((x) * (x))
#include "a.h"
kernel void f(global float *x) {
    if (x[0] < 1) x[0] = SQUARE(N) + -1; // first
    x[1] = x[0] > 0 ? '"' : "a // b"[1];
}
"""


def test_comments_and_white_space_are_no_code():
    cases = {
        "// first": "",
        "kernel void": "/* a\n comment */ kernel\n\nvoid",
        ") {\n": ")\n{\n",
        "x[0] < 1": "x [0]<1",
        "#define N 4 /* rows */": "  #  define   N /* of a */ \\\n 4",
        '"a // b"[1]': '"a // b" [ 1 ]',
        "+ -1": "+-1",
    }
    for old, new in cases.items():
        assert old in KERNEL
        assert c_code(KERNEL.replace(old, new)) == c_code(KERNEL)


def test_other_edits_are_code():
    cases = (
        ("N 4", "N 5"),
        ("SQUARE(x)", "SQUARE (x)"),
        ("a // b", "a // c"),
        ("a // b", "a  // b"),
        ("x[0] < 1", "x[0] <= 1"),
        ("x[0] > 0", "// x[0] > 0"),
        ('#include "a.h"\n', '#include "a.h" '),
        ("float *x", "float *y"),
        ("void f", "voidf"),
    )
    for old, new in cases:
        assert c_code(KERNEL.replace(old, new)) != c_code(KERNEL)


def test_texts_of_other_tokens_are_other_code():
    cases = {
        "a = b + +c;": "a = b ++c;",
        "a = b - >c;": "a = b->c;",
        "a < = b": "a <= b",
        "a & &b": "a && b",
        "a / b": "a // b",
        "1 . f": "1. f",
        '"x"_km': '"x" _km',
        'L "x"': 'L"x"',
        'R"(a /* b */)"': 'R"(a  /* b */)"',
        "lo\\\nng": "lo ng",
        "#if A\nB\n#endif": "#if A B\n#endif",
    }
    for first, other in cases.items():
        assert c_code(first) != c_code(other)


MODULE = '''"""The data."""
import numpy as np


def arguments(features, rng):
    """Make the data."""
    return {"x": rng.random(4), "n": np.int32(features["n"]), "s": f"{features!r:>{4}}", **{}}
'''


def test_comments_docstrings_and_layout_are_no_code_of_python():
    edited = MODULE.replace('"""The data."""', '# data\n"""More\nwords."""')
    edited = edited.replace('    """Make the data."""\n', "\n\n    # here\n")
    edited = edited.replace("rng.random(4)", "(rng . random(\n4))").replace('"n"', "'n'")
    assert python_code(edited) == python_code(MODULE)


def test_other_edits_are_code_of_python():
    cases = (
        ("random(4)", "random(5)"),
        ("random(4)", "random(4.0)"),
        ("random(4)", "random('4')"),
        ("random(4)", "random(n=4)"),
        ("!r", ""),
        ("**{}", ""),
        ("rng.random", "features.random"),
        ("    return", "    'two'\n    return"),
    )
    for old, new in cases:
        assert python_code(MODULE.replace(old, new)) != python_code(MODULE)


def test_code_of_python_is_that_of_every_version():
    """These texts are in databases, whose readers may have another Python."""
    code = python_code("def f(a, *, b=None): 'doc'; return u'x', -a")
    assert code == (
        "Module(body=[FunctionDef(name='f', args=arguments(args=[arg(arg='a')], "
        "kwonlyargs=[arg(arg='b')], kw_defaults=[Constant()]), body=[Return(value=Tuple(elts=["
        "Constant(value='x'), UnaryOp(op=USub(), operand=Name(id='a'))]))])])"
    )


def test_what_is_no_python_counts_by_its_text():
    assert python_code("a b ") != python_code("a b")
    assert python_code("+".join(["1"] * 3000)) != python_code("+".join(["1"] * 3001))


def test_files_of_other_languages_count_by_their_text():
    assert code_of(".sh", "a # b") != code_of(".sh", "a")
    assert code_of(".cu", "a // b") == code_of(".cu", "a")
    assert code_of(".py", "a # b") == code_of(".py", "a")
