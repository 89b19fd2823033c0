"""Host side of ``nbody.cl``: bodies in a cube, and the accelerations that they cause.

    a_i = sum over j of m_j (r_j - r_i) / (|r_j - r_i|^2 + softening)^(3/2)

with the gravitational constant 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

# The square of the CUDA SDK's softening length for a cube of side 1.
_SOFTENING = 0.01
_PAIRS_AT_ONCE = 2**20


def arguments(
    features: Mapping[str, int], rng: np.random.Generator
) -> dict[str, np.ndarray | np.generic]:
    """The kernel's arguments in its order: bodies (n, 4), acceleration (n, 3), n, softening.

    The bodies are uniform in the unit cube; their masses, between 0.5 and 1.5 before, are
    divided by n, so that accelerations are of the order of 1 whatever n is and an absolute
    tolerance means the same for all. (They point every way, and their components cancel.)
    """
    n = features["n"]
    bodies = rng.random((n, 4), dtype=np.float32)
    bodies[:, 3] = (bodies[:, 3] + np.float32(0.5)) / np.float32(n)
    return {
        "bodies": bodies,
        # A body that the kernel forgets stays NaN, which equals nothing.
        "acceleration": np.full((n, 3), np.nan, dtype=np.float32),
        "n": np.int32(n),
        "softening": np.float32(_SOFTENING),
    }


def reference(arguments: Mapping[str, np.ndarray | np.generic]) -> dict[str, np.ndarray]:
    """The expected output: the accelerations, shape (n, 3), in float64.

    Written with matrix products over some bodies at a time, so that memory stays at a few MB:
    with w_ij = m_j / d_ij^3, a_i = sum of w_ij r_j - r_i times the sum of w_ij.
    """
    bodies = np.asarray(arguments["bodies"], dtype=np.float64)
    softening = float(arguments["softening"])
    # Seen from the middle, so that the squares of the coordinates stay small.
    places, masses = bodies[:, :3] - 0.5, bodies[:, 3]
    squares = np.einsum("ij,ij->i", places, places)
    weighted = masses[:, None] * np.column_stack([places, np.ones_like(masses)])
    chunks = []
    step = max(1, _PAIRS_AT_ONCE // len(bodies))
    for begin in range(0, len(bodies), step):
        some = slice(begin, begin + step)
        squared = squares[some, None] + squares + softening - 2 * places[some] @ places.T
        pulls = (1 / (squared * np.sqrt(squared))) @ weighted
        chunks.append(pulls[:, :3] - places[some] * pulls[:, 3:])
    return {"acceleration": np.concatenate(chunks)}
