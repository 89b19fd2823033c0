"""The spaces that benchmarks/space.py opens: of published kernels, and synthetic ones.

The published spaces are the kernels of Willemsen, Van Nieuwpoort, Van Werkhoven, "Efficient
Construction of Large Search Spaces for Auto-Tuning", ICPP 2025 (for an NVIDIA A4000), and the cache
blocks of ATF's kernels (Rasch, Schulze, Steuwer, Gorlatch, TACO 2021): the 8x8 record linkage, and
a 4096x4096 convolution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A space: parameters with their values, and restrictions that both tuners understand."""

    name: str
    parameters: Mapping[str, Sequence[int]]
    restrictions: Sequence[str]


def _dedispersion() -> Case:
    return Case(
        "dedispersion",
        {
            "block_size_x": (1, 2, 4, 8, 16, 32),
            "block_size_y": range(32, 257, 8),
            "block_size_z": (1,),
            "tile_size_x": range(1, 5),
            "tile_size_y": range(1, 9),
            "tile_stride_x": (0, 1),
            "tile_stride_y": (0, 1),
            "loop_unroll_factor_channel": (0,),
        },
        (
            "32 <= block_size_x * block_size_y <= 1024",
            "tile_size_x > 1 or tile_stride_x == 0",
            "tile_size_y > 1 or tile_stride_y == 0",
        ),
    )


def _expdist() -> Case:
    return Case(
        "expdist",
        {
            "block_size_x": (1024, 512, 256, 128, 64, 32),
            "block_size_y": (1, 2, 4, 8, 16, 32),
            "tile_size_x": range(1, 9),
            "tile_size_y": range(1, 9),
            "use_shared_mem": (0, 1, 2),
            "loop_unroll_factor_x": range(1, 9),
            "loop_unroll_factor_y": range(1, 9),
            "use_column": (0, 1),
            "use_separate_acc": (0,),
            "n_y_blocks": [1 << exponent for exponent in range(11)],
        },
        (
            "use_column != 0 or n_y_blocks <= 1",
            "use_column != 0 or use_shared_mem != 2",
            "loop_unroll_factor_x <= tile_size_x and tile_size_x % loop_unroll_factor_x == 0",
            "loop_unroll_factor_y <= tile_size_y and tile_size_y % loop_unroll_factor_y == 0",
        ),
    )


def _hotspot() -> Case:
    shared_bytes = (
        "(block_size_x * tile_size_x + temporal_tiling_factor * 2)"
        " * (block_size_y * tile_size_y + temporal_tiling_factor * 2) * (2 + sh_power) * 4"
    )
    return Case(
        "hotspot",
        {
            "grid_width": (4096,),
            "grid_height": (4096,),
            "block_size_x": (1, 2, 4, 8, 16, *range(32, 1025, 32)),
            "block_size_y": (1, 2, 4, 8, 16, 32),
            "tile_size_x": range(1, 11),
            "tile_size_y": range(1, 11),
            "temporal_tiling_factor": range(1, 11),
            "max_tfactor": (10,),
            "loop_unroll_factor_t": range(1, 11),
            "sh_power": (0, 1),
            "blocks_per_sm": range(5),
        },
        (
            "block_size_x * block_size_y >= 32",
            "temporal_tiling_factor % loop_unroll_factor_t == 0",
            "block_size_x * block_size_y <= 1024",
            f"{shared_bytes} <= 49152",
            f"blocks_per_sm == 0 or {shared_bytes} * blocks_per_sm <= 102400",
        ),
    )


def _microhh() -> Case:
    return Case(
        "microhh",
        {
            "STATIC_STRIDES": (0,),
            "TILING_STRATEGY": (0,),
            "REWRITE_INTERP": (0,),
            "BLOCK_SIZE_X": (1, 2, 4, 8, 16, 32, 128, 256, 512, 1024),
            "BLOCK_SIZE_Y": (1, 2, 4, 8, 16, 32),
            "BLOCK_SIZE_Z": (1, 2, 4),
            "TILING_FACTOR_X": (1, 2, 4, 8),
            "TILING_FACTOR_Y": (1, 2, 4),
            "TILING_FACTOR_Z": (1, 2, 4),
            "LOOP_UNROLL_FACTOR_X": (1, 2, 4, 8),
            "LOOP_UNROLL_FACTOR_Y": (1, 2, 4),
            "LOOP_UNROLL_FACTOR_Z": (1, 2, 4),
            "BLOCKS_PER_MP": range(5),
        },
        (
            "BLOCK_SIZE_X * BLOCK_SIZE_Y * BLOCK_SIZE_Z * BLOCKS_PER_MP <= 1024",
            "32 <= BLOCK_SIZE_X * BLOCK_SIZE_Y * BLOCK_SIZE_Z <= 1536",
            *(f"TILING_FACTOR_{axis} % LOOP_UNROLL_FACTOR_{axis} == 0" for axis in "XYZ"),
            *(f"BLOCK_SIZE_{axis} * TILING_FACTOR_{axis} > 0" for axis in "XYZ"),
        ),
    )


def _gemm() -> Case:
    return Case(
        "gemm (CLBlast)",
        {
            "GEMMK": (0,),
            "MWG": (16, 32, 64, 128),
            "NWG": (16, 32, 64, 128),
            "KWG": (16, 32),
            "MDIMC": (8, 16, 32),
            "NDIMC": (8, 16, 32),
            "MDIMA": (8, 16, 32),
            "NDIMB": (8, 16, 32),
            "KWI": (2,),
            "VWM": (1, 2, 4, 8),
            "VWN": (1, 2, 4, 8),
            "STRM": (0, 1),
            "STRN": (0, 1),
            "SA": (0, 1),
            "SB": (0, 1),
            "KREG": (1,),
            "PRECISION": (32,),
        },
        (
            "KWG % KWI == 0",
            "MWG % (MDIMC * VWM) == 0",
            "NWG % (NDIMC * VWN) == 0",
            "MWG % (MDIMA * VWM) == 0",
            "NWG % (NDIMB * VWN) == 0",
            "KWG % ((MDIMC * NDIMC) / MDIMA) == 0",
            "KWG % ((MDIMC * NDIMC) / NDIMB) == 0",
            "MWG != 128 or NWG != 128 or MDIMC != 8 or NDIMC != 8",
        ),
    )


def _cache_blocks(name: str, size: int) -> Case:
    """Make ATF's nested cache blocks in two dimensions of a size."""
    parameters: dict[str, Sequence[int]] = {
        "CACHE_L_CB": (0, 1),
        "CACHE_P_CB": (0, 1),
        "G_CB_RES_DEST_LEVEL": (2,),
        "L_CB_RES_DEST_LEVEL": (2, 1, 0),
        "P_CB_RES_DEST_LEVEL": (2, 1, 0),
    }
    restrictions = [
        "L_CB_RES_DEST_LEVEL <= G_CB_RES_DEST_LEVEL",
        "P_CB_RES_DEST_LEVEL <= L_CB_RES_DEST_LEVEL",
        "OCL_DIM_2 != OCL_DIM_1",
    ]
    for axis in "12":
        parameters |= {
            f"INPUT_SIZE_{axis}": (size,),
            f"L_CB_SIZE_{axis}": range(1, size + 1),
            f"P_CB_SIZE_{axis}": range(1, size + 1),
            f"OCL_DIM_{axis}": (0, 1),
            f"NUM_WG_{axis}": range(1, size + 1),
            f"NUM_WI_{axis}": range(1, size + 1),
        }
        restrictions += [
            f"INPUT_SIZE_{axis} % L_CB_SIZE_{axis} == 0",
            f"L_CB_SIZE_{axis} % P_CB_SIZE_{axis} == 0",
            f"(INPUT_SIZE_{axis} / L_CB_SIZE_{axis}) % NUM_WG_{axis} == 0",
            f"(L_CB_SIZE_{axis} / P_CB_SIZE_{axis}) % NUM_WI_{axis} == 0",
            f"NUM_WI_{axis} <= (INPUT_SIZE_{axis} + NUM_WG_{axis} - 1) / NUM_WG_{axis}",
        ]
    return Case(name, parameters, tuple(restrictions))


def _made(name: str, parameters: int, values: int) -> Case:
    """Make a chain of 5 restrictions over parameters with equally many values."""
    names = [f"p{number}" for number in range(parameters)]
    return Case(
        name,
        {parameter: range(1, values + 1) for parameter in names},
        (
            f"p0 * p1 <= {values * values // 2}",
            "p2 % p3 == 0 or p3 % p2 == 0",
            f"p0 + p2 + p4 <= {2 * values}",
            "(p4 * p5) % 2 == 0",
            f"p1 * p3 * p5 <= {values**3 // 8}",
        ),
    )


def _few(name: str, parameters: int, values: int) -> Case:
    """Make one restriction over all parameters that hardly any configuration satisfies."""
    names = [f"p{number}" for number in range(parameters)]
    ranges = dict.fromkeys(names, range(1, values + 1))
    return Case(name, ranges, (f"{' * '.join(names)} == {values**3}",))


CASES = (
    _dedispersion(),
    _gemm(),
    _microhh(),
    _expdist(),
    _hotspot(),
    _made("made, 10^6", 10, 4),
    _made("made, 1.7 * 10^7", 8, 8),
    _made("made, 10^9", 9, 10),
    _few("made, 4 * 10^9, few legal", 8, 16),
    _cache_blocks("record linkage 8x8", 8),
    _cache_blocks("convolution 4096x4096", 4096),
)
