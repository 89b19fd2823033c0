"""A campaign: search every input, measure winners everywhere, finalists once more, ablations."""

from harness.tuning.campaign import Campaign
from harness.tuning.state import CampaignPlan
