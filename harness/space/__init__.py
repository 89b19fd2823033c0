"""Spec -> the legal configurations for one input on one device."""

from harness.space.constrained import ConstrainedSpace
from harness.space.points import PointArray, Points, position_of
from harness.space.space import Space

__all__ = ["ConstrainedSpace", "PointArray", "Points", "Space", "position_of"]
