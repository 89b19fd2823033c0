"""The work of a run: the bytes and operations that a space says, from which its rates follow."""

from __future__ import annotations

import math

from pydantic import Field, model_validator

from harness.constraints.expression import Expression
from harness.core.errors import ExpressionError
from harness.core.records import Input
from harness.space_file.messages import StrictModel
from harness.space_file.tuned import Size


class Work(StrictModel):
    """What a run must move and calculate on an input, whatever the configuration: expressions over
    features. harness shows what share of the device's peak a time is."""

    bytes: Size | None = Field(
        default=None, description="bytes that must be read from and written to memory"
    )
    flops: Size | None = Field(
        default=None, description="float operations; a fused multiply-add is two"
    )

    @model_validator(mode="after")
    def _one_at_least(self) -> Work:
        if self.bytes is None and self.flops is None:
            raise ValueError("needs `bytes: EXPRESSION`, `flops: EXPRESSION` or both")
        return self

    @property
    def expressions(self) -> dict[str, Expression]:
        """The expressions that are there, by what they count."""
        return {kind: text for kind, text in self if text is not None}

    def of(self, problem: Input) -> dict[str, float]:
        """Return the amounts on an input, by what they count; raises ExpressionError."""
        found = {}
        for kind, expression in self.expressions.items():
            amount = expression(problem)
            if isinstance(amount, str) or not 0 < amount < math.inf:
                raise ExpressionError(
                    f"work.{kind}: `{expression.text}` is {amount} on ({problem}), expected a "
                    "number above 0"
                )
            found[kind] = float(amount)
        return found
