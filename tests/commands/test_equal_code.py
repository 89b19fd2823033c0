"""Compiler flags that leave the program as it is are named nowhere."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import analyse, dispatch, tune

CASE = Path(__file__).parents[1] / "data" / "equal_code"
DIRECT = 'build: [gcc, -O2, "{flags}", -o, "{output}", "{source}"]'
# The flags reach the compiler only: the linker adds code of -ffast-math that changes no time.
WITHOUT_LINKER = (
    'build: [sh, -c, \'gcc -O2 "$@" -c -o "$0.o" && gcc -o "$0" "$0.o"\', '
    '"{output}", "{source}", "{flags}"]'
)


def changes(config: Mapping[str, object]) -> list[str]:
    """Return the names of what a configuration has other than WORK=16 and flags that are false."""
    default = {**dict.fromkeys(config, False), "WORK": 16}
    return [name for name, value in config.items() if value != default[name]]


@pytest.mark.slow
def test_flags_without_effect_are_in_no_table_sentence_document_or_dispatcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    shutil.copy(CASE / "loop.c", tmp_path)
    text = (CASE / "loop.yaml").read_text()
    assert DIRECT in text
    (tmp_path / "loop.yaml").write_text(text.replace(DIRECT, WITHOUT_LINKER))
    monkeypatch.chdir(tmp_path)
    words = ["loop.yaml", "--database", "r.db", "--test-limit", "12", "--seed", "0"]
    assert tune([*words, "--quiet"]) == 0
    printed = capsys.readouterr().out
    sentence, rest = printed.partition("\nUse ")[2].split(".\n", 1)
    assert sentence.startswith("WORK=1 on every input: ")
    assert "math" not in sentence
    table = [line.split() for line in rest.splitlines() if line.startswith(" n=")]
    assert len(table) == 2
    # On a busy machine 4 may win, but no flag is behind it.
    assert {row[1] for row in table} <= {"WORK=1", "WORK=4"}
    assert analyse(["r.db", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["analyses"]
    assert found["results"]["advice"].startswith(f"Use {sentence}")
    recommended = [changes(one["recommended"]) for one in found["results"]["inputs"]]
    assert recommended == [["WORK"]] * 2
    assert dispatch(["r.db", "-o", "out", "--spec", "loop.yaml", "--json"]) == 0
    assert changes(json.loads(capsys.readouterr().out)["single"]["config"]) == ["WORK"]
    programs = [path.name for path in (tmp_path / "out/loop/programs").iterdir()]
    assert programs == ["0-default"]
