"""Spec -> the legal configurations for one input on one device."""

from harness.space.constrained import ConstrainedSpace
from harness.space.space import PointArray, Points, Space

__all__ = ["ConstrainedSpace", "PointArray", "Points", "Space"]
