"""What users see is what `outputs/` has (see `make.py`)."""

from __future__ import annotations

import difflib

from tests.golden.make import AGAIN, OUTPUTS, make

MOST_LINES = 60
ADVICE = f"""\
What users see has changed. If that is intended:
    {AGAIN}
Read the difference, and commit it with the reason."""


def test_outputs_are_the_committed_ones(tmp_path):
    make(tmp_path)
    names = sorted({path.name for folder in (OUTPUTS, tmp_path) for path in folder.glob("*.txt")})
    lines = [line for name in names for line in _difference(OUTPUTS / name, tmp_path / name)]
    more = [f"... and {len(lines) - MOST_LINES} lines more"] * (len(lines) > MOST_LINES)
    assert not lines, "\n".join(["", *lines[:MOST_LINES], *more, "", ADVICE])


def _difference(expected, made):
    texts = [
        p.read_text(encoding="utf-8").splitlines() if p.exists() else [] for p in (expected, made)
    ]
    return list(
        difflib.unified_diff(*texts, f"golden/{expected.name}", "made now", lineterm="", n=1)
    )
