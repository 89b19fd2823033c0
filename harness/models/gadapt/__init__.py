"""G-ADAPT's model: from an input's features to each parameter of its best configuration.

Liu, Zhang, Shen, "A Cross-Input Adaptive Framework for GPU Program Optimizations", IPDPS 2009. Each
numeric parameter has a regression tree over the raw sizes, their logarithms, products and ratios,
with a linear least-squares model in each leaf, whose value is rounded to the nearest legal one.
Each choice, flag or enumeration has a classification tree. The model is judged by leaving inputs
out, by how often it hits the very best configuration.

    model = fit(features, best)             # tables with a row an input
    model.predict(features)                 # a table of configurations
    judge(features, candidates, time_s)     # candidates: a table; time_s: (inputs, candidates)
"""

from harness.models.gadapt.judging import Judgement, judge, nearest, value_distances
from harness.models.gadapt.model import Features, GAdaptModel, fit
from harness.models.gadapt.parameters import LinearLeaf, NumberTree, WordTree

__all__ = [
    "Features",
    "GAdaptModel",
    "Judgement",
    "LinearLeaf",
    "NumberTree",
    "WordTree",
    "fit",
    "judge",
    "nearest",
    "value_distances",
]
