"""What was learnt across inputs, as lines and sentences."""

from __future__ import annotations

from harness.dispatch.study import sentence
from harness.dispatch.text import rule_lines, why_nothing
from harness.report.findings import Findings


def rule(findings: Findings) -> str:
    """Say which configuration to use for which input, or why that is not known."""
    found = findings.across
    return why_no_choice(findings) if found is None else "\n".join(rule_lines(found))


def advice(findings: Findings) -> str:
    """Say in a sentence which configurations to use, and how much faster they are."""
    return findings.advice or "No configuration worked on any input."


def verdict(findings: Findings) -> str:
    """Say whether choosing by input is worth it, or why that is not known."""
    found = findings.across
    return why_no_choice(findings) if found is None else sentence(found, found.best)


def why_no_choice(findings: Findings) -> str:
    """Say why nothing was learnt across inputs."""
    return why_nothing(findings.matrix) or "Nothing can be learnt across inputs."
