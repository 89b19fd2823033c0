"""A whole tuning command: search every input, try winners everywhere, re-measure finalists."""

from harness.campaign.campaign import Campaign

__all__ = ["Campaign"]
