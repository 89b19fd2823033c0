"""The grammar of our pragmas: what each spans, and what each fault says."""

from __future__ import annotations

import pytest

from harness.source.pragmas import is_ours, number, read_pragma, typing_error, unroll_names
from harness.source.preprocessor import scan, spaced


def _read(operands):
    [directive] = scan(f"#pragma {operands}\n").directives
    assert is_ours(directive)
    return read_pragma(directive)


def test_a_pragma_spans_its_values():
    cases = {
        "erange 64,512,2": [64, 128, 256, 512],
        "erange 64,512": [64, 128, 256, 512],
        "erange 1,100,3": [1, 3, 9, 27, 81],
        "range 1,4": [1, 2, 3, 4],
        "range 0,10,4": [0, 4, 8],
        "values 3, 1, 0.5": [3, 1, 0.5],
        "values 1, /* two */ 4 \\\n , 8 // all": [1, 4, 8],
        "select tiled,plain": ["tiled", "plain"],
        "select 0,1": [0, 1],
        "unroll_range 1,8": list(range(1, 9)),
        "unroll_values 0,2,4": [0, 2, 4],
    }
    for operands, values in cases.items():
        assert list(_read(operands).values) == values


def test_a_range_of_any_length_is_read_at_once():
    assert len(_read("range 1,9007199254740992").values) == 2**53


def test_roles_and_names_stand_with_the_values():
    assert _read("erange 64,512,2 source").role == "source"
    assert _read("select a, b launch").role == "launch"
    assert _read("select launch,source").values == ("launch", "source")
    assert _read("unroll_range INNER 1,8").name == "INNER"
    assert _read("unroll_values INNER 1,2").values == (1, 2)


def test_a_tile_pairs_loops_with_sizes_in_its_order():
    assert _read("tile k : TK,i:TI /* c */, j:TI").tiles == (("k", "TK"), ("i", "TI"), ("j", "TI"))


def test_a_constraint_is_read_as_an_expression():
    assert _read("constraint A  <= sqrt(B) /* c */ / 4").operands == "A <= sqrt(B) / 4"


def test_a_fault_names_what_stands_there_and_the_nearest_word():
    cases = {
        "erange 64": "1 operand",
        "erange": "nothing",
        "erange 1,2,3,4": "4 operands",
        "erange 0,8": "lo=0, base=2",
        "erange 1,8,1": "lo=1, base=1",
        "range 8,1": "lo=8 above hi=1",
        "range 1,8,0": "step=0",
        "range 1,x": "`x`",
        "range 1,0x10": "`0x10`",
        "range 1,9007199254740993": "whole number",
        "range 1,8 lanch": "`lanch` .* `launch`",
        "values 1,,2": "empty",
        "values 064": "`064`",
        "values 1e999": "`1e999`",
        "values 1,1.0": "1.0 is there twice",
        "select a,b+c": r"`b\+c`",
        "select a,b,a": "a is there twice",
        "unroll_range -1,8": "from 0",
        "unroll_values 1,0.5": "whole factors",
        "unroll_range 1,8 launch": "role launch",
        "tile": "nothing",
        "tile i:TI,": "nothing",
        "tile i:16": "`i:16`",
        "tile i:TI j:TJ": "`i:TI j:TJ`",
        "tile i:TI, i:TJ": "`i` is there twice",
        "constraint A && B": "`and`",
        "constraint A // 4 == B": "floor",
        "constraint": "empty",
    }
    for operands, fact in cases.items():
        with pytest.raises(ValueError, match=fact):
            _read(operands)


def test_slips_differ_from_other_peoples_pragmas():
    def error(word):
        return typing_error(scan(f"#pragma {word} x\n").directives[0])

    slips = {"eragne": "erange", "ERANGE": "erange", "unrollrange": "unroll_range", "tiles": "tile"}
    for word, near in slips.items():
        assert f"`#pragma {near}`" in (error(word) or "")
    for word in ("unroll", "once", "nounroll", "OPENCL", "omp", "message", "region"):
        assert error(word) is None


def test_loops_are_numbered_in_their_order_and_a_name_shifts_no_other():
    text = "#pragma unroll_range 1,8\n#pragma unroll_range U 1,8\n#pragma unroll_values 1,2\n"
    assert list(unroll_names(scan(text).directives).values()) == ["UNROLL_1", "U", "UNROLL_3"]


def test_constants_are_plain_decimal_numbers():
    for text, value in {"256": 256, "(256)": 256, "-1": -1, "0.5": 0.5, "1e3": 1000.0}.items():
        assert number(text) == value
    for text in ("256u", "0x10", "010", "(1", "1)", "N", "1 + 2", "", "9" * 30):
        assert number(text) is None


# ------------- preprocessor lines: what is one, where it ends, and which macros are undefined there


def _names(text):
    return [(d.line, d.name, d.text) for d in scan(text).directives]


def test_what_only_looks_like_a_directive_is_none():
    for text in (
        "/*\n#define A 1\n*/",
        "// c \\\n#define A 1",
        'char *s = "\\\n#define A 1";',
        'auto s = R"x(\n#define A 1\n)" \n)x";',
        "int a = b\n    ?\\\n#define A\n : c;",
        "#if 0\n#define A 1\n#endif",
        "#if 1\n#else\n#define A 1\n#endif",
        "#if 0\n#if 1\n#define A 1\n#endif\n#endif",
    ):
        assert "define" not in {d.name for d in scan(text).directives}


def test_a_directive_ends_where_its_continuations_end():
    text = "int a;\n # define A /* one\ntwo */ 2 \\\n  + 3 // c \\\nc\n#pragma once\n"
    assert _names(text) == [(2, "define", "A 2 + 3"), (6, "pragma", "once")]
    define = scan(text).directives[0]
    assert text[define.start : define.end].endswith("c \\\nc")
    assert define.has_line_comment


def test_quotes_in_comments_digits_and_errors_hide_nothing():
    text = "// don't\nint k = 1'000;\n#error don't\nchar c = '\"';\n#define A 1\n"
    assert _names(text) == [(3, "error", "don't"), (5, "define", "A 1")]


def test_conditions_around_a_define_say_what_is_undefined():
    cases = {
        "#ifndef A\n{}#endif": "A",
        "#if !defined(A)\n{}#endif": "A",
        "#if X && ! defined A\n{}#endif": "A",
        "#ifdef A\n#else\n{}#endif": "A",
        "#if defined(A)\n#elif B\n#else\n{}#endif": "A",
        "#ifndef A\n#ifdef B\n{}#endif\n#endif": "A",
        "#ifndef B\n{}#endif": "B",
        "#if X || !defined(A)\n{}#endif": "",
        "#ifndef A\n#else\n{}#endif": "",
        "#ifndef A\n#elif X\n{}#endif": "",
        "#ifndef A\n#endif\n{}": "",
    }
    for text, undefined in cases.items():
        directives = scan(text.format("#define A 1\n")).directives
        [define] = [d for d in directives if d.name == "define"]
        assert "".join(define.undefined) == undefined


def test_macros_with_arguments_are_no_constants():
    defines = scan("#define A(x) x\n#define B (x)\n#define C\n#define\n#undef D").directives
    assert [d.is_constant for d in defines] == [False, True, True, False, False]


def test_what_follows_a_directive_is_code_or_a_directive():
    text = "#pragma a // c\n\n/* c */\n#pragma b\n  for (;;);\n#pragma c"
    directives = scan(text).directives
    assert [d.adjoins for d in directives] == [False, True, False]
    assert [d.next_code for d in directives] == [None, text.index("for"), None]


def test_spaced_code_has_no_comments():
    assert spaced(scan("a /* b */ +\n#define C\n 'd' // e").code) == "a + 'd'"
