"""The command harness.analyse."""

from harness.commands.analyse.command import main as main
