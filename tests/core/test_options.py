"""Options of all commands: the values that each kind refuses, and the words that say why."""

from __future__ import annotations

import pytest

from harness.__main__ import COMMANDS
from harness.commands.run import make_parser, run

REFUSED = {
    "tune --test-limit": ["0", "1.5", "x", "9" * 20],
    "tune --seed": ["-1"],
    "tune --precision": ["1", "7", "nan"],
    "tune --give-up-at": ["0.5", "inf"],
    "tune --stop-after": ["nan", "-5", "0"],
    "tune --cover": ["0", "1.5"],
    "tune --validate": ["space.yaml", "1"],
    "tune --database": [""],
    "tune --label": ["a\nb"],
    "check --compile": ["-1"],
    "dispatch --seed": ["-1", "many", str(2**32)],
    "dispatch --most": ["0", "201"],
    "compare --level": ["0", "100%"],
    "compare --threshold": ["0.98x", "2x", "1.02", "x", "many"],
    "compare --occasions": ["2", "x"],
    "analyse --threshold": ["1", "-0.1"],
    "analyse --below": ["slowdown=nan", "slowdown"],
    "report --output": ["page.pdf"],
}


@pytest.mark.parametrize("option", REFUSED)
def test_a_value_that_an_option_cannot_take_is_named(option, capsys):
    command, name = option.split()
    for value in REFUSED[option]:
        with pytest.raises(SystemExit, match="2"):
            run(command, [f"{name}={value}"])
        error = capsys.readouterr().err
        assert name in error
        assert f"got {value!r}" in error


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"stencil"}))
def test_each_option_of_a_command_says_what_it_means(command):
    parser = make_parser(command)
    assert [a.dest for a in parser._actions if not a.help] == []


@pytest.mark.parametrize(("text", "time_s"), [("90", 90), ("90s", 90), ("2m", 120), ("1.5h", 5400)])
def test_a_time_has_a_unit_or_is_in_seconds(text, time_s):
    assert make_parser("tune").parse_args([f"--max-time={text}"]).max_time_s == time_s
