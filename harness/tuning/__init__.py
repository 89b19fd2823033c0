"""A whole tuning command: search every input, try winners everywhere, measure the candidates of a
dispatcher and the finalists of each input in turn."""

from harness.tuning.campaign import Campaign, Stages

__all__ = ["Campaign", "Stages"]
