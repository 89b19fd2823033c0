"""Kernel sources: what is included, what the compiler gets, and what is no source."""

import os
from pathlib import Path

import pytest

from harness.source.kernel_source import Source, read_source, read_text


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "deep").mkdir()
    for name, text in {
        "a.cl": '#include "b.h"\n  # include "deep/c.h"\n#include <d.h>\nint a;\n',
        "b.h": '#include "a.cl"\n#include "not_there.h"\nint b;\n',
        "deep/c.h": '#include "e.h"\n#include "f.h"\n#include "../b.h"\n',
        "deep/e.h": "int TILE;\n",
        "f.h": "int from_the_sources_folder;\n",
        "d.h": "int special;\n",
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_includes_are_followed_from_file_to_file(folder):
    source = read_source(folder / "a.cl")
    names = {path.relative_to(folder.resolve()).as_posix() for path in source.includes}
    assert names == {"b.h", "d.h", "deep/c.h", "deep/e.h", "f.h"}
    assert "int TILE;\n" in source.includes.values()


def test_macro_is_used_where_its_value_can_matter(tmp_path):
    cases = {
        "// N in a comment\n#ifndef N\n#define N 4\n#endif\nint a;\n": False,
        "#if !defined(N) || defined N\n#define N 4\n#endif\n#undef N\n": False,
        "#if 0\nint a = N;\n#endif\n": False,
        "#ifndef N\n#define N 4\n#endif\nint a = N;\n": True,
        "#define M (N + 1)\n": True,
        "#if N == 2\nint a;\n#endif\n": True,
        "#pragma unroll N\nfor (;;);\n": True,
        '_Pragma("unroll N")\nfor (;;);\n': True,
    }
    for text, is_used in cases.items():
        (tmp_path / "a.cl").write_text(text)
        (tmp_path / "b.cl").write_text('#include "a.cl"\n')
        for name in ("a.cl", "b.cl"):
            source = read_source(tmp_path / name)
            assert source.mentions("N")
            assert source.uses("N") == is_used


def test_words_count_in_includes_and_only_whole(folder):
    source = read_source(folder / "a.cl")
    names = ("TILE", "a", "special", "TIL", "elsewhere")
    assert [name for name in names if source.mentions(name)] == ["TILE", "a", "special"]


def test_macros_stand_before_the_text_and_line_numbers_stay(folder):
    source = read_source(folder / "a.cl")
    text = source.with_macros({"B": True, "C": False, "N": 4, "X": 0.5, "T": "float4"})
    head, rest = text.split("#line 1 ")
    assert head.split("#define ")[1:] == ["B 1\n", "C 0\n", "N 4\n", "X 0.5\n", "T float4\n"]
    assert rest == '"a.cl"\n' + source.text


def test_a_name_with_quotes_stays_one_name():
    source = Source(Path('odd"name\\.cl'), "int a;\n", {})
    assert source.with_macros({}).splitlines()[0] == '#line 1 "odd\\"name\\\\.cl"'


def test_include_dirs_are_absolute(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for path in (Path("a.cl"), Path("deep/../a.cl")):
        assert read_source(path).include_dirs == (str(folder),)


def test_links_that_lead_in_a_circle_are_no_includes(folder):
    (folder / "b.h").unlink()
    (folder / "b.h").symlink_to(folder / "b.h")
    assert (folder / "b.h").name not in {p.name for p in read_source(folder / "a.cl").includes}


def test_byte_order_mark_and_foreign_line_ends_are_no_text(tmp_path):
    (tmp_path / "a.cl").write_bytes(b"\xef\xbb\xbfint a;\r\nint b;\rint c;\n")
    assert read_source(tmp_path / "a.cl").text == "int a;\nint b;\nint c;\n"


def test_too_long_a_file_is_not_read_to_its_end(tmp_path):
    (tmp_path / "a.cl").write_text("x" * 101)
    assert len(read_text(tmp_path / "a.cl", 101)) == 101
    with pytest.raises(ValueError, match="100 bytes"):
        read_text(tmp_path / "a.cl", 100)


def test_what_is_no_source_says_why(tmp_path):
    cases = {
        "": "is a folder",
        "a\0.cl": "not a file name",
        "latin.cl": "line 2, byte 13",
        "pipe": "is not a regular file",
        "/dev/zero": "is not a regular file",
    }
    (tmp_path / "latin.cl").write_bytes(b"int a;\n// caf\xe9\n")
    os.mkfifo(tmp_path / "pipe")
    for name, message in cases.items():
        with pytest.raises(ValueError, match=message):
            read_source(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        read_source(tmp_path / "a.cl")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read every file")
def test_unreadable_file_is_an_oserror(tmp_path):
    path = tmp_path / "a.cl"
    path.write_text("int a;")
    path.chmod(0)
    with pytest.raises(PermissionError):
        read_source(path)


# ---------------------------------------------------------------- what the compiler gets


PRAGMAS = """\
#pragma erange 64,512,2
#define BLOCK 256 // threads
#pragma constraint BLOCK >= \\
    64
#define TILE (4 + \\
    4)
#ifndef LANES
#define LANES 4
#endif
/* #define BLOCK 3 */
#define BLOCK_TWICE (2 * BLOCK)
void f(int *y) {
#pragma unroll_range 1,8
#pragma unroll 2
    for (int i = 0; i < 8; i++) y[i] = BLOCK;
#pragma unroll_values INNER 0,4 /* one
    line */
    while (*y) y++;
}
"""


def _body(text, macros):
    """The lines that stand for those of the file."""
    program = Source(Path("a.cl"), text, {}).with_macros(macros)
    return program.split('#line 1 "a.cl"\n')[1].split("\n")


def test_values_and_unrolls_stand_in_the_source_on_the_same_lines():
    macros = {"BLOCK": 64, "TILE": 2, "LANES": 8, "UNROLL_1": 4, "INNER": 0}
    changed = dict.fromkeys((1, 3, 4, 6, 14, 16, 17), "")
    changed |= {2: "#define BLOCK 64 // threads", 5: "#define TILE 2\\", 13: "#pragma unroll 4"}
    lines = PRAGMAS.split("\n")
    assert _body(PRAGMAS, macros) == [changed.get(n, line) for n, line in enumerate(lines, 1)]


def test_every_factor_is_a_text_of_its_own_and_one_forbids():
    source = Source(Path("a.cl"), PRAGMAS, {})
    texts = {source.with_macros({"UNROLL_1": factor, "INNER": 4}) for factor in range(9)}
    assert len(texts) == 9
    assert "#pragma unroll 1\n" in source.with_macros({"UNROLL_1": 1, "INNER": 4})


RANGE = "#pragma unroll_range 1,8\n"


def test_only_the_lines_of_parameters_change():
    cases = {
        "#define FAST// c\nint a;": ["#define FAST 1// c", "int a;"],
        f"{RANGE}#pragma constraint N <= 8\n#pragma unroll 4\nfor (;;);":
         ["#pragma unroll 2", "", "", "for (;;);"],
        # Behind code, another loop keeps its unrolling.
        f"{RANGE};\n#pragma constraint N <= 8\n#pragma unroll 4\nfor (;;);":
         ["#pragma unroll 2", ";", "", "#pragma unroll 4", "for (;;);"],
        # So does a loop that is no parameter.
        f"{RANGE}for (;;);\n{RANGE}#pragma unroll 4\nfor (;;);":
         ["#pragma unroll 2", "for (;;);", "", "#pragma unroll 4", "for (;;);"],
    }  # fmt: skip
    for text, lines in cases.items():
        assert _body(text, {"FAST": True, "UNROLL_1": 2}) == lines


def test_a_source_that_guards_its_macros_is_compiled_as_it_stands():
    for text in (
        "#ifndef N\n#define N 4\n#endif\nint a[N];\n",
        "#if !defined(N)\n  #define N 4\n#endif\n",
        "#define N(x) x\n",
        "// #define N 4\n",
        '#include "n.h"\n#pragma unroll 4\n#pragma once\n#pragma OPENCL EXTENSION x : enable\n',
        "#define M 4\n",
    ):
        program = Source(Path("a.cl"), text, {}).with_macros({"N": 8})
        assert program == f'#define N 8\n#line 1 "a.cl"\n{text}'


def test_include_for_another_value_of_a_parameter_is_left_out():
    include = '#include "a.h"\n'
    macros = {"P": 0, "WORD": "tiled"}
    for text in ("#if P == 1\n{}#endif", "#if P==0\n#elif P == 2\n#ifdef A\n{}#endif\n#endif"):
        assert _body(text.format(include), macros) == text.format("\n").split("\n")
    for text in (
        "#if P == 0\n{}#elif P == 2\n#endif",
        "#if P == 1\n#else\n{}#endif",
        "#if P == 1\n#elifdef A\n{}#endif",
        "#if P == 1\n#endif\n{}",
        "#if P == 1 || A\n{}#endif",
        "#if OTHER == 1\n{}#endif",
        "#if WORD == 1\n{}#endif",
    ):
        assert _body(text.format(include), macros) == text.format(include).split("\n")
