"""Bayesian optimisation: a Gaussian process proposes where improvement is expected."""

from __future__ import annotations

from harness.encoding import Encoder
from harness.search.techniques.model_guided import Model, ModelGuided
from harness.surrogate import Surrogate


class GaussianProcess(ModelGuided):
    """`ModelGuided` by the model of `harness.surrogate`."""

    def make_model(self, encoder: Encoder) -> Model:
        """A Gaussian process that knows nothing yet."""
        return Surrogate(encoder.groups, encoder.relative_lengths)
