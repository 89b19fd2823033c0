"""Chooses the configuration of blocks for an input.

Choice: tree, seed 0.
Written by harness 1.0 on 2026-01-31; do not edit.
    device:   a device, 2 compute units
    platform: a platform, driver 3.0
    compiler: a compiler
    caches:   warm when a time was taken
    kernel:   sha256 abababababababababababababababababababababababababababababababab
    data:     results/one.db; 12 inputs
    tuned:    m from 16 to 65536; n from 16 to 65536

| dispatcher  | 1.05 |
| best static | 1.35 |

    @triton.autotune(
        CONFIGS,
        key=["m", "n"],
        prune_configs_by={"early_config_prune": prune},
    )
    @triton.jit
    def kernel(...): ...

`prune` keeps one configuration for each input, so Triton times none. The kernel needs arguments
named as the features; `prune_by` and `heuristics_by` take other names. Without an autotuner, use
`triton.heuristics(heuristics_by())`.
"""

from __future__ import annotations

import triton

from . import NAME, _uncounted, applies, is_tuned

# Triton asks once for an input, or for each parameter, so that its calls are not counted.
select_index, fallback_index = _uncounted

CONFIGS = [
    triton.Config({'BLOCK': 64}, num_warps=1),  # 0, pinned
    triton.Config({'BLOCK': 16}, num_warps=1),  # 1, pinned
    triton.Config({'BLOCK': 64}, num_warps=2),  # 2, pinned
]
"""The configurations, by their indices in PORTFOLIO."""

PINNED = (0, 1, 2)
"""The indices of those that inputs outside of the tuned range use: the first that applies."""

FEATURES = ('m', 'n')
"""What describes an input."""


def prune_by(times_outside=False, **arguments):
    """Return a function for `early_config_prune`, which keeps the configuration for an input.

    `arguments` name the kernel's argument of a feature that it calls otherwise, as `m="M"`. With
    `times_outside`, Triton times all that apply to an input outside of the tuned range.
    """
    names = _names(arguments)

    def prune(configs, named_args, **others):
        features = _features(names, {**named_args, **others})
        if is_tuned(**features):
            return [CONFIGS[select_index(**features)]]
        first = fallback_index(**features)
        if not times_outside:
            return [CONFIGS[first]]
        later = (i for i in range(len(CONFIGS)) if i != first and applies(i, **features))
        return [CONFIGS[first], *(CONFIGS[index] for index in later)]

    return prune


def heuristics_by(**arguments):
    """Return functions for `triton.heuristics`, which set each parameter for an input.

    `arguments` are those of `prune_by`.
    """
    names = _names(arguments)

    def value_of(parameter):
        def value(passed):
            config = CONFIGS[select_index(**_features(names, passed))]
            return config.all_kwargs().get(parameter)

        return value

    return {parameter: value_of(parameter) for parameter in ('BLOCK', 'num_warps')}


def _names(arguments):
    unknown = [feature for feature in arguments if feature not in FEATURES]
    if unknown:
        raise TypeError(f"{NAME} has no feature {unknown[0]}; its features are {FEATURES}")
    return {feature: arguments.get(feature, feature) for feature in FEATURES}


def _features(names, passed):
    missing = [argument for argument in names.values() if argument not in passed]
    if missing:
        raise TypeError(
            f"{NAME} chooses by {FEATURES}, but the kernel has no argument {missing[0]}; "
            "name the argument of each feature, as in prune_by(feature='argument')"
        )
    return {feature: passed[argument] for feature, argument in names.items()}


prune = prune_by()
