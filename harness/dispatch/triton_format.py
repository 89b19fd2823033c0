"""Write a dispatcher as configurations of Triton, with the functions that choose among them."""

from __future__ import annotations

from collections.abc import Iterator

from harness.core.records import Config
from harness.dispatch.dispatcher import Dispatcher
from harness.dispatch.rendering import comment_lines, rendered
from harness.dispatch.spelling import docstring, wrapped

OWN = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""What a configuration of Triton has besides the kernel's own parameters."""


def triton_files(dispatcher: Dispatcher) -> dict[str, bytes]:
    """Return the content of the file, by its path; it imports the module that chooses."""
    program = dispatcher.program
    text = rendered(
        "triton_configs.py.j2",
        comment="\n".join(wrapped(map(docstring, comment_lines(dispatcher)))),
        configs=list(_configs(dispatcher)),
        pinned=dispatcher.fallback,
        features=tuple(feature.variable for feature in dispatcher.features),
        parameters=ascii(tuple(program.portfolio[0])),
    )
    return {f"{dispatcher.name}/triton_configs.py": text.encode()}


def _configs(dispatcher: Dispatcher) -> Iterator[str]:
    for index, config in enumerate(dispatcher.program.portfolio):
        pinned = ", pinned" if index in dispatcher.fallback else ""
        yield f"{_config(config)},  # {index}{pinned}"


def _config(config: Config) -> str:
    parameters = {name: value for name, value in config.items() if name not in OWN}
    own = [f"{name}={value!a}" for name, value in config.items() if name in OWN]
    return f"triton.Config({', '.join([ascii(parameters), *own])})"
