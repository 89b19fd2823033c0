"""YAML -> Spec. Every validation of a space there is; nothing after it doubts a Spec."""

from harness.spec.catalogued import Notice
from harness.spec.document import Document, read_document
from harness.spec.load import Constraint, LaunchPlan, Spec, load_spec, load_specs
from harness.spec.model import SpaceFile
from harness.spec.parameters import Parameter
from harness.spec.program import ProgramPlan
from harness.spec.relevance import conditional
from harness.spec.schema import space_schema

__all__ = [
    "Constraint",
    "Document",
    "LaunchPlan",
    "Notice",
    "Parameter",
    "ProgramPlan",
    "SpaceFile",
    "Spec",
    "conditional",
    "load_spec",
    "load_specs",
    "read_document",
    "space_schema",
]
