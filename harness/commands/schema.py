"""harness schema: print the JSON Schema of spaces, or of what a command prints with --json."""

from __future__ import annotations

import json

from harness.api.documents import SCHEMA_DIALECT, document_schema
from harness.options.others import SchemaOptions
from harness.space_file import space_schema


def run(options: SchemaOptions) -> int:
    """Print the schema; return the exit code."""
    schema = {"$schema": SCHEMA_DIALECT, **space_schema()}
    if options.command:
        schema = document_schema(options.command)
    print(json.dumps(schema, indent=2))
    return 0
