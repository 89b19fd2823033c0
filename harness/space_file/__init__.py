"""Read space files: YAML -> Spec. All validation happens here; later rooms rely on a Spec."""

from harness.space_file.document import Document, read_document
from harness.space_file.flags import Notice
from harness.space_file.legality import conditional
from harness.space_file.load import load_spec, load_specs, make_spec, space_schema
from harness.space_file.model import LaunchPlan, SpaceFile
from harness.space_file.parameters import Parameter
from harness.space_file.program import ProgramPlan
from harness.space_file.spec import Constraint, Spec
