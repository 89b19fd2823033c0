"""YAML -> Spec. Every validation of a space there is; nothing after it doubts a Spec."""

from harness.spec.document import Document, read_document
from harness.spec.load import Constraint, LaunchPlan, Parameter, Spec, load_spec, load_specs
from harness.spec.model import SpaceFile
from harness.spec.relevance import conditional

__all__ = [
    "Constraint",
    "Document",
    "LaunchPlan",
    "Parameter",
    "SpaceFile",
    "Spec",
    "conditional",
    "load_spec",
    "load_specs",
    "read_document",
]
