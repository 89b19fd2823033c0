"""Preprocessor lines: what is one, where it ends, and which macros are undefined there."""

from __future__ import annotations

import pytest

from harness.source.preprocessor import scan, spaced


def _names(text: str) -> list[tuple[int, str, str]]:
    return [(d.line, d.name, d.text) for d in scan(text).directives]


@pytest.mark.parametrize(
    "text",
    [
        "/*\n#define A 1\n*/",
        "// c \\\n#define A 1",
        'char *s = "\\\n#define A 1";',
        'auto s = R"x(\n#define A 1\n)" \n)x";',
        "int a = b\n    ?\\\n#define A\n : c;",
        "#if 0\n#define A 1\n#endif",
        "#if 1\n#else\n#define A 1\n#endif",
        "#if 0\n#if 1\n#define A 1\n#endif\n#endif",
    ],
)
def test_what_only_looks_like_a_directive_is_none(text: str) -> None:
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


@pytest.mark.parametrize(
    ("text", "undefined"),
    [
        ("#ifndef A\n#define A 1\n#endif", {"A"}),
        ("#if !defined(A)\n#define A 1\n#endif", {"A"}),
        ("#if X && ! defined A\n#define A 1\n#endif", {"A"}),
        ("#ifdef A\n#else\n#define A 1\n#endif", {"A"}),
        ("#if defined(A)\n#elif B\n#else\n#define A 1\n#endif", {"A"}),
        ("#ifndef A\n#ifdef B\n#define A 1\n#endif\n#endif", {"A"}),
        ("#ifndef B\n#define A 1\n#endif", {"B"}),
        ("#if X || !defined(A)\n#define A 1\n#endif", set()),
        ("#ifndef A\n#else\n#define A 1\n#endif", set()),
        ("#ifndef A\n#elif X\n#define A 1\n#endif", set()),
        ("#ifndef A\n#endif\n#define A 1", set()),
    ],
)
def test_the_conditions_around_a_define_say_what_is_undefined(
    text: str, undefined: set[str]
) -> None:
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
