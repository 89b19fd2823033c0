"""Options of all commands: the values that each kind refuses, and the words that say why."""

from __future__ import annotations

import pytest

from harness.commands.run import make_parser, run

REFUSED = [
    ("tune --test-limit", "a whole number from 1 to 10^9", ["0", "1.5", "x", "9" * 20]),
    ("tune --seed", "a whole number from 0 to 10^9", ["-1"]),
    ("tune --precision", "a share from 0 to below 1, such as 0.005", ["1", "7", "nan"]),
    ("tune --give-up-at", "a number from 1", ["0.5", "inf"]),
    ("tune --stop-after", "seconds above 0, up to 10^9", ["nan", "-5", "0"]),
    ("tune --cover", "a share of the calls above 0, up to 1", ["0", "1.5"]),
    ("tune --validate", "a share between 0 and 1", ["space.yaml", "1"]),
    ("tune --database", "a path or a URL of printable characters", [""]),
    ("tune --label", "a text of printable characters", ["a\nb"]),
    ("check --compile", "a whole number from 0 to 10^9", ["-1"]),
    ("dispatch --seed", "a whole number from 0 to 2^32 - 1", ["-1", "many", str(2**32)]),
    ("dispatch --most", "a whole number from 1 to 200", ["0", "201"]),
    ("compare --level", "above 0 and below 1, or a percentage", ["0", "100%"]),
    (
        "compare --threshold",
        "a ratio below 2 such as 1.02x, or 2% or 0.02",
        ["0.98x", "2x", "1.02", "x", "many"],
    ),
    ("compare --occasions", "a whole number from 3 to 1000", ["2", "x"]),
    ("analyse --threshold", "a number from 0 to below 1", ["1", "-0.1"]),
    ("analyse --below", "TARGET=LIMIT, such as time_s=0.01", ["slowdown=nan", "slowdown"]),
    ("report --output", "the name of a file that ends in .html, .htm", ["page.pdf"]),
]


@pytest.mark.parametrize(("option", "expected", "values"), REFUSED)
def test_a_value_that_an_option_cannot_take_says_what_it_takes(
    option: str, expected: str, values: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command, name = option.split()
    for value in values:
        with pytest.raises(SystemExit, match="2"):
            run(command, [f"{name}={value}"])
        error = capsys.readouterr().err
        assert f": must be {expected}" in error
        assert f"got {value!r}" in error


@pytest.mark.parametrize(("text", "time_s"), [("90", 90), ("90s", 90), ("2m", 120), ("1.5h", 5400)])
def test_a_time_has_a_unit_or_is_in_seconds(text: str, time_s: float) -> None:
    assert make_parser("tune").parse_args([f"--max-time={text}"]).max_time_s == time_s
