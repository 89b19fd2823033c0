"""Bayesian optimisation with a Gaussian process."""

from __future__ import annotations

from harness.models.encoding.configs import ConfigEncoder
from harness.models.gaussian_process import Surrogate
from harness.search.techniques.model_guided import ModelGuided, SurrogateModel


class GaussianProcess(ModelGuided):
    """`ModelGuided` with the model of `harness.models.gaussian_process`."""

    def make_model(self, encoder: ConfigEncoder) -> SurrogateModel:
        """Make an untrained Gaussian process."""
        return Surrogate(encoder.groups, encoder.relative_lengths)
