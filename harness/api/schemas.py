"""The documents of commands as JSON, and their JSON Schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from harness.api.documents import (
    AnalyseDocument,
    CheckDocument,
    CompareDocument,
    DispatchDocument,
    ErrorDocument,
    HeadedDocument,
    ReportDocument,
    TuneDocument,
)
from harness.core.errors import UsageError
from harness.core.text import suggestion

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"

DOCUMENTS: Mapping[str, type[HeadedDocument]] = {
    "analyse": AnalyseDocument,
    "check": CheckDocument,
    "compare": CompareDocument,
    "dispatch": DispatchDocument,
    "report": ReportDocument,
    "tune": TuneDocument,
}
"""The document that each command prints with --json."""


def document_schema(command: str) -> dict[str, Any]:
    """Return the JSON Schema of what a command prints with --json: its document, or an error."""
    if command not in DOCUMENTS:
        raise UsageError(f"`{command}` prints no JSON; {suggestion(command, DOCUMENTS)}")
    adapter = TypeAdapter[Any](DOCUMENTS[command] | ErrorDocument)  # type: ignore[arg-type]
    return {"$schema": SCHEMA_DIALECT, **adapter.json_schema(mode="serialization")}


def to_json(document: Any) -> str:
    """Return a document as JSON text."""
    return TypeAdapter[Any](type(document)).dump_json(document, indent=2).decode()


def to_dict(document: Any) -> dict[str, Any]:
    """Return a document as plain data."""
    found: dict[str, Any] = TypeAdapter[Any](type(document)).dump_python(document, mode="json")
    return found
