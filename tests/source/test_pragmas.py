"""The grammar of our pragmas: what each spans, and what each fault says."""

from __future__ import annotations

import pytest

from harness.source.pragmas import Pragma, is_ours, number, read_pragma, typing_error, unroll_names
from harness.source.preprocessor import scan, spaced


def _read(operands: str) -> Pragma:
    [directive] = scan(f"#pragma {operands}\n").directives
    assert is_ours(directive)
    return read_pragma(directive)


def test_a_pragma_spans_its_values() -> None:
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


def test_a_range_of_any_length_is_read_at_once() -> None:
    assert len(_read("range 1,9007199254740992").values) == 2**53


def test_roles_and_names_stand_beside_the_values() -> None:
    assert _read("erange 64,512,2 source").role == "source"
    assert _read("select a, b launch").role == "launch"
    assert _read("select launch,source").values == ("launch", "source")
    assert _read("unroll_range INNER 1,8").name == "INNER"
    assert _read("unroll_values INNER 1,2").values == (1, 2)


def test_a_tile_pairs_loops_with_sizes_in_its_order() -> None:
    assert _read("tile k : TK,i:TI /* c */, j:TI").tiles == (("k", "TK"), ("i", "TI"), ("j", "TI"))


def test_a_constraint_is_read_as_an_expression() -> None:
    assert _read("constraint A  <= sqrt(B) /* c */ / 4").operands == "A <= sqrt(B) / 4"


def test_a_fault_says_what_was_found_and_expected() -> None:
    cases = {
        "erange 64": "found 1 operand, expected lo,hi[,base], such as `#pragma erange 64,512,2`",
        "erange": "found nothing, expected lo,hi[,base]",
        "erange 1,2,3,4": "found 4 operands, expected lo,hi[,base]",
        "erange 0,8": "found lo=0, base=2, expected lo from 1 and a base from 2",
        "erange 1,8,1": "found lo=1, base=1",
        "range 8,1": "found lo=8 above hi=1, expected lo <= hi",
        "range 1,8,0": "found step=0, expected a step from 1",
        "range 1,x": "found `x`, expected a decimal whole number",
        "range 1,0x10": "found `0x10`, expected a decimal whole number",
        "range 1,9007199254740993": "expected a decimal whole number",
        "range 1,8 lanch": "found `lanch` (did you mean `launch`?), expected one of the roles",
        "values 1,,2": "found an empty operand, expected decimal numbers",
        "values 064": "found `064`, expected decimal numbers",
        "values 1e999": "found `1e999`, expected decimal numbers",
        "values 1,1.0": "1.0 is there twice",
        "select a,b+c": "found `b+c`, expected names or decimal numbers",
        "select a,b,a": "a is there twice",
        "unroll_range -1,8": "expected whole factors from 0 (the compiler's choice)",
        "unroll_values 1,0.5": "expected whole factors from 0",
        "unroll_range 1,8 launch": "found the role launch",
        "tile": "found nothing, expected VARIABLE:NAME of each loop, between commas, such as",
        "tile i:TI,": "found nothing, expected VARIABLE:NAME",
        "tile i:16": "found `i:16`, expected VARIABLE:NAME",
        "tile i:TI j:TJ": "found `i:TI j:TJ`, expected VARIABLE:NAME",
        "tile i:TI, i:TJ": "the loop over `i` is there twice; give each loop once",
        "constraint A && B": "write `and` instead of &&",
        "constraint A // 4 == B": "// begins a comment here; write floor(a / b)",
        "constraint": "it is empty",
    }
    for operands, printed in cases.items():
        with pytest.raises(ValueError) as fault:  # noqa: PT011
            _read(operands)
        assert printed in str(fault.value)


def test_slips_are_told_from_other_peoples_pragmas() -> None:
    cases = {
        "eragne ERANGE": "erange",
        "unrollrange": "unroll_range",
        "constrain": "constraint",
        "tiles": "tile",
        "unroll once nounroll OPENCL omp message region nv_diag_suppress": None,
    }
    for words, near in cases.items():
        for directive in scan("".join(f"#pragma {word} x\n" for word in words.split())).directives:
            found = typing_error(directive)
            assert (found and found.split("did you mean ")[1]) == (near and f"`#pragma {near}`?")


def test_loops_are_numbered_in_their_order_and_a_name_shifts_no_other() -> None:
    text = "#pragma unroll_range 1,8\n#pragma unroll_range U 1,8\n#pragma unroll_values 1,2\n"
    assert list(unroll_names(scan(text).directives).values()) == ["UNROLL_1", "U", "UNROLL_3"]


def test_constants_are_plain_decimal_numbers() -> None:
    cases = {"256": 256, "(256)": 256, "-1": -1, "0.5": 0.5, "1e3": 1000.0, "256u": None,
     "0x10": None, "010": None, "(1": None, "1)": None, "N": None, "1 + 2": None,
     "": None, "9" * 30: None}  # fmt: skip
    for text, value in cases.items():
        assert number(text) == value


# ------------- preprocessor lines: what is one, where it ends, and which macros are undefined there


def _names(text: str) -> list[tuple[int, str, str]]:
    return [(d.line, d.name, d.text) for d in scan(text).directives]


def test_what_only_looks_like_a_directive_is_none() -> None:
    cases = (
        "/*\n#define A 1\n*/",
        "// c \\\n#define A 1",
        'char *s = "\\\n#define A 1";',
        'auto s = R"x(\n#define A 1\n)" \n)x";',
        "int a = b\n    ?\\\n#define A\n : c;",
        "#if 0\n#define A 1\n#endif",
        "#if 1\n#else\n#define A 1\n#endif",
        "#if 0\n#if 1\n#define A 1\n#endif\n#endif",
    )
    for text in cases:
        assert "define" not in {d.name for d in scan(text).directives}


def test_a_directive_ends_where_its_continuations_end() -> None:
    text = "int a;\n # define A /* one\ntwo */ 2 \\\n  + 3 // c \\\nc\n#pragma once\n"
    assert _names(text) == [(2, "define", "A 2 + 3"), (6, "pragma", "once")]
    define = scan(text).directives[0]
    assert text[define.start : define.end].endswith("c \\\nc")
    assert define.has_line_comment


def test_quotes_in_comments_digits_and_errors_hide_nothing() -> None:
    text = "// don't\nint k = 1'000;\n#error don't\nchar c = '\"';\n#define A 1\n"
    assert _names(text) == [(3, "error", "don't"), (5, "define", "A 1")]


def test_conditions_around_a_define_say_what_is_undefined() -> None:
    cases = {
        "#ifndef A\n#define A 1\n#endif": {"A"},
        "#if !defined(A)\n#define A 1\n#endif": {"A"},
        "#if X && ! defined A\n#define A 1\n#endif": {"A"},
        "#ifdef A\n#else\n#define A 1\n#endif": {"A"},
        "#if defined(A)\n#elif B\n#else\n#define A 1\n#endif": {"A"},
        "#ifndef A\n#ifdef B\n#define A 1\n#endif\n#endif": {"A"},
        "#ifndef B\n#define A 1\n#endif": {"B"},
        "#if X || !defined(A)\n#define A 1\n#endif": set(),
        "#ifndef A\n#else\n#define A 1\n#endif": set(),
        "#ifndef A\n#elif X\n#define A 1\n#endif": set(),
        "#ifndef A\n#endif\n#define A 1": set(),
    }
    for text, undefined in cases.items():
        [define] = [d for d in scan(text).directives if d.name == "define"]
        assert define.undefined == undefined


def test_macros_with_arguments_are_no_constants() -> None:
    defines = scan("#define A(x) x\n#define B (x)\n#define C\n#define\n#undef D").directives
    assert [d.is_constant for d in defines] == [False, True, True, False, False]


def test_what_follows_a_directive_is_code_or_a_directive() -> None:
    text = "#pragma a // c\n\n/* c */\n#pragma b\n  for (;;);\n#pragma c"
    one, two, three = scan(text).directives
    assert (one.adjoins, one.next_code) == (False, None)
    assert (two.adjoins, two.next_code) == (True, text.index("for"))
    assert (three.adjoins, three.next_code) == (False, None)


def test_code_is_told_without_its_comments() -> None:
    assert spaced(scan("a /* b */ +\n#define C\n 'd' // e").code) == "a + 'd'"
