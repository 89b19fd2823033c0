"""The command harness.check."""

from harness.commands.check.command import main as main
