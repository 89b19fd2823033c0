"""The JSON Schema of space files, made from the models that validate them."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from harness.space_file.model import SpaceFile
from harness.space_file.program_model import ProgramSpaceFile


def space_schema() -> dict[str, Any]:
    """Return one schema for both kinds of spaces, with a program or with a kernel."""
    models = (SpaceFile, ProgramSpaceFile)
    _, schema = models_json_schema([(model, "validation") for model in models])
    required = [schema["$defs"][model.__name__].pop("required") for model in models]
    kernel, program = ({"$ref": f"#/$defs/{model.__name__}"} for model in models)
    return {"title": "harness space", "type": "object", **schema} | {
        "if": {"required": ["extends"]},
        "then": {"required": ["name"], "anyOf": [kernel, program]},
        "else": {
            "if": {"required": ["program"]},
            "then": {**program, "required": required[1]},
            "else": {**kernel, "required": required[0]},
        },
    }
