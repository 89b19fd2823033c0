"""The loop from production back to tuning, in a short form, on PoCL."""

from __future__ import annotations

import json

import pytest

from benchmarks import loop


def test_the_loop_covers_the_calls_that_were_outside(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--inputs", "4", "--calls", "40", "--test-limit", "2", "--repeats", "1"]
    assert loop.main([*short, "--rounds", "1"]) == 0
    message = capsys.readouterr().out
    assert "of the calls were outside of the tuned range" in message
    assert "14 of 16 inputs make up 95.0% of 40 calls; these are tuned" in message
    found = json.loads(message.splitlines()[-1])
    (before, *_), (after, low, _) = found["coverage"]["before"], found["coverage"]["after"]
    assert before < 0.5 < low < after
    assert all(1 <= one[1] <= one[0] <= one[2] for one in found["slowdown"].values())
    assert found["calls"] == 40
