"""Options are described below their fields."""

import pytest

from harness.__main__ import COMMANDS
from harness.commands.run import make_parser


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"stencil"}))
def test_each_option_of_a_command_says_what_it_means(command: str) -> None:
    parser = make_parser(command)
    assert [a.dest for a in parser._actions if not a.help] == []
