"""The record of what nvcc's flags do: the evidence of the catalogue's constraints, and the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.nvcc_flags import RECORD, FlagRow, findings, read, write
from harness.constraints.expression import Expression
from harness.core.records import Value
from harness.space_file.flags.catalogue import catalogue_of

CATALOGUE = catalogue_of("nvcc")


def _config(setting: str) -> dict[str, Value] | None:
    """The values of a row's flags; None where the catalogue leaves one of the values out."""
    config: dict[str, Value] = {name: CATALOGUE.absent(name) for name in CATALOGUE.flags}
    for part in setting.split():
        name, _, printed = part.partition("=")
        there = [value for value in CATALOGUE.flags[name].values if str(value) == printed]
        if not there:
            return None
        config[name] = there[0]
    return config


def _pairs() -> Iterator[tuple[FlagRow, dict[str, Value]]]:
    for row in read(RECORD):
        config = _config(row.setting)
        if " " in row.setting and config is not None:
            yield row, config


def _broken(config: dict[str, Value]) -> list[Expression]:
    return [c for c in CATALOGUE.constraints if not c.holds(config)]


def test_constraints_rule_out_every_pair_that_nvcc_refused_or_warned_of() -> None:
    spoken = [(row, config) for row, config in _pairs() if row.came != "ok"]
    assert spoken
    assert [row.setting for row, config in spoken if not _broken(config)] == []


def test_each_constraint_rules_out_pairs_of_the_record() -> None:
    ruled_out = {c.text for row, config in _pairs() for c in _broken(config)}
    of_files = {name for name, flag in CATALOGUE.flags.items() if not flag.values}
    tried = [c for c in CATALOGUE.constraints if not c.names <= of_files]
    assert [c.text for c in tried if c.text not in ruled_out] == []


def test_pairs_that_are_ruled_out_without_a_word_gave_the_code_of_another_setting() -> None:
    rows = read(RECORD)
    code = {(row.kernel, row.setting): row.code for row in rows}
    for row, config in _pairs():
        broken = _broken(config)
        if row.came == "ok" and broken:
            others = [code[row.kernel, part] for part in ("", *row.setting.split())]
            assert row.code in others, row.setting


def test_findings_tell_what_changes_code_and_what_is_without_effect(tmp_path: Path) -> None:
    alone = [("", "0"), ("a=1", "1"), ("b=1", "2"), ("c=1", "0"), ("d=1", "1")]
    rows = [FlagRow("k", setting, "ok", code, "8", "") for setting, code in alone]
    rows += [
        FlagRow("k", "a=1 b=1", "ok", "1", "8", ""),
        FlagRow("k", "b=1 d=1", "warned", "1", "8", "ignoring b"),
        FlagRow("k", "c=1 d=1", "refused", "", "", "conflict"),
    ]
    written = write(tmp_path / "record.csv", rows)
    assert read(tmp_path / "record.csv") == written
    assert findings(rows) == {
        "changes": ["a=1: k", "b=1: k", "d=1: k"],
        "no change": ["c=1"],
        "refused": ["c=1 d=1: conflict"],
        "warned": ["b=1 d=1: ignoring b"],
        "no effect": ["b=1 beside a=1"],
        "same": ["a=1, d=1"],
    }


def test_every_set_stands_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "flags.md").read_text(encoding="utf-8")
    for name in CATALOGUE.sets:
        assert f"| `{name}` |" in page
