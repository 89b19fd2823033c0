"""A whole tuning command: search every input, try winners everywhere, re-measure finalists."""

from harness.campaign.campaign import Campaign, Stages

__all__ = ["Campaign", "Stages"]
