"""Spec -> the legal configurations for one input on one device."""

from harness.space.constrained import ConstrainedSpace, make_program
from harness.space.space import PointArray, Points, Space
