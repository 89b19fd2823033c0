"""A technique's request for a test, as a plain object."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(eq=False)
class Request:
    """OpenTuner's DesiredResult without SQLAlchemy, whose cost for each is that of a proposal.
    `harness.search.rows` writes its row."""

    configuration: Any
    requestor: str
    generation: int
    request_date: datetime
    tuning_run: None = None
    limit: float | None = None
    start_date: datetime | None = None
    result: Any = None
    id: int | None = None
