"""What a technique asks for, as a plain object."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(eq=False)
class Request:
    """OpenTuner's DesiredResult without SQLAlchemy, under which to make and to answer one costs
    as much as to propose it; `harness.search.rows` writes its row."""

    configuration: Any
    requestor: str
    generation: int
    request_date: datetime
    tuning_run: None = None
    limit: float | None = None
    start_date: datetime | None = None
    result: Any = None
    id: int | None = None
