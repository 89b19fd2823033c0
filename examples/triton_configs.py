"""Choose the configuration of a Triton kernel with a dispatcher.

Tune the kernel as a program (docs/howto/tune_a_program.md), write the dispatcher, and put this file
beside your kernel. `blocks` stands for the module that was written, `m` and `n` for its features:

    import blocks
    from triton_configs import configs_of, prune_by

    prune = {"early_config_prune": prune_by(blocks)}

    @triton.autotune(configs_of(blocks), key=["m", "n"], prune_configs_by=prune)
    @triton.jit
    def kernel(a, x, y, m, n, BLOCK: tl.constexpr): ...

Triton then times no configuration: `prune` keeps the one that the dispatcher chooses for the input.
"""

import triton

OWN = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # all others are the kernel's parameters


def configs_of(dispatcher):
    """Return the configurations for `triton.autotune`, in the order of the portfolio."""
    return [
        triton.Config(
            {name: value for name, value in each.items() if name not in OWN},
            **{name: value for name, value in each.items() if name in OWN},
        )
        for each in dispatcher.PORTFOLIO
    ]


def prune_by(dispatcher, **arguments):
    """Return a function for `early_config_prune`. `arguments` name the kernel's argument of a
    feature that it calls otherwise, as `m="M"`."""

    def prune(configs, named_args, **others):
        passed = {**named_args, **others}
        features = {name: passed[arguments.get(name, name)] for name in dispatcher.FEATURES}
        return [configs[dispatcher.select_index(**features)]]

    return prune
