"""The text of a source that matters: what the text itself rules out, or nothing names, does not."""

from __future__ import annotations

import pytest

from harness.source.inlining import live_text

CODE = """\
#ifndef TILE
#define TILE 1
#endif
#define AREA (TILE * TILE)
#if CHOICE == 0
int plain;
#elif CHOICE == 1
int tiled[TILE];
#else
int area[AREA];
#endif
"""


def source(text: str = CODE, **macros: int | str) -> str:
    return "".join(f"#define {name} {value}\n" for name, value in macros.items()) + text


def live(text: str = CODE, **macros: int | str) -> str:
    return live_text(source(text, **macros))


def test_macro_that_no_live_line_names_makes_no_difference() -> None:
    assert live(CHOICE=0, TILE=1) == live(CHOICE=0, TILE=2)
    assert live(CHOICE=1, TILE=1) != live(CHOICE=1, TILE=2)
    assert live(CHOICE=2, TILE=1) != live(CHOICE=2, TILE=2)  # by another macro
    assert len({live(CHOICE=choice, TILE=1) for choice in range(4)}) == 3


@pytest.mark.parametrize(
    "text",
    [
        "#ifdef cl_khr_fp64\n#if A\n#endif\nint b = B;\n#endif\n",
        "#if __OPENCL_VERSION__ >= 120\nint b = B;\n#else\nint c;\n#endif\n",
        "#if UNKNOWN\n#define A 2\n#endif\n#if A == 2\nint b = B;\n#endif\n",
        "#if UNKNOWN\n#undef A\n#endif\n#ifndef A\nint b = B;\n#endif\n",
    ],
)
def test_branch_that_the_text_does_not_decide_is_kept(text: str) -> None:
    assert live(text, A=0, B=1) != live(text, A=0, B=2)


@pytest.mark.parametrize(
    "text",
    [
        '#include "other.h"\n',
        "int line = __LINE__;\n",
        '#pragma push_macro("OTHER")\nint b;\n',
        "int b = NA\\\nME;\n",
        "#define PASTE(x, y) x ## y\nint b = PASTE(N, AME);\n",
        '_Pragma("push_macro(\\"OTHER\\")")\nint b;\n',
        "%:if 0\nint b;\n",
        "??=if 0\nint b;\n",
    ],
)
def test_source_that_hides_what_it_names_counts_as_a_whole(text: str) -> None:
    assert live(text, NAME=1) == source(text, NAME=1)


NAMED = (
    '_Pragma("unroll NAME")\n',
    "#define PRAGMA(x) _Pragma(#x)\nPRAGMA(unroll NAME)\n",
    "int b = s.NAME;\n",
    "#define NAME 3\n#if NAME == 3\nint b = NAME;\n#endif\n",
    "#pragma unroll NAME\n",
    "#if UNKNOWN\n#define OTHER NAME\n#endif\nint b = OTHER;\n",
    "#if 0\n#elif UNKNOWN\n#undef NAME\n#endif\nint b = NAME;\n",
    "#define OTHER NAME\nint b = OTHER;\n",
    "#define OTHER(x) x + NAME\nint b = OTHER(1);\n",
    "int b = NAME;\n#undef NAME\n",
    "#if NAME == 1\nint b;\n#endif\n",
    "#if 0\n#elif NAME == 1\nint b;\n#endif\n",
)
UNNAMED = (
    "int b; // NAME\n/* NAME */\n",
    "#if 0\nNAME\n#if 1\nNAME\n#else\nNAME\n#endif\n#endif\n",
    "#ifndef NAME\n#define NAME 4\n#endif\n",
    "#define OTHER NAME\n",
    "#if 1\n#elif NAME\nint b;\n#endif\n",
)


@pytest.mark.parametrize("text", NAMED + UNNAMED)
def test_macro_makes_a_difference_where_something_that_is_compiled_names_it(text: str) -> None:
    assert (live(text, NAME=1) != live(text, NAME=2)) is (text in NAMED)
