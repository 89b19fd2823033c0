"""YAML -> Spec. Every validation of a space there is; nothing after it doubts a Spec."""

from harness.spec.catalogued import Notice
from harness.spec.document import Document, read_document
from harness.spec.load import load_spec, load_specs
from harness.spec.model import SpaceFile
from harness.spec.parameters import Parameter
from harness.spec.program import ProgramPlan
from harness.spec.relevance import conditional
from harness.spec.schema import space_schema
from harness.spec.spec import Constraint, LaunchPlan, Spec

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
