"""Spec -> the legal configurations for one input on one device."""

from harness.space.points import Places, Points, position_of
from harness.space.space import Space

__all__ = ["Places", "Points", "Space", "position_of"]
