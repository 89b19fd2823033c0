"""harness schema [COMMAND]: print the JSON Schema of spaces, or of a command's document."""

from __future__ import annotations

import json

from harness.api.schemas import SCHEMA_DIALECT, document_schema
from harness.commands.options import SchemaOptions
from harness.commands.run import main_of
from harness.space_file import space_schema

main = main_of("schema")


def run(options: SchemaOptions) -> int:
    """Print the schema; return the exit code."""
    space = {"$schema": SCHEMA_DIALECT, **space_schema()}
    print(
        json.dumps(space if options.command is None else document_schema(options.command), indent=2)
    )
    return 0
