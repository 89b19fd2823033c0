"""Bayesian optimisation: a Gaussian process proposes where improvement is expected."""

from __future__ import annotations

from harness.models.config_points import ConfigEncoder
from harness.models.gaussian_process import Surrogate
from harness.search.techniques.model_guided import Model, ModelGuided


class GaussianProcess(ModelGuided):
    """`ModelGuided` by the model of `harness.models.gaussian_process`."""

    def make_model(self, encoder: ConfigEncoder) -> Model:
        """A Gaussian process that knows nothing yet."""
        return Surrogate(encoder.groups, encoder.relative_lengths)
