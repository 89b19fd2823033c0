"""A product of matrices, in the shape of Triton's tutorial."""

import torch
import triton
import triton.language as tl


def is_cuda():
    return triton.runtime.driver.active.get_current_target().backend == "cuda"


def get_cuda_autotune_config():
    return [
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32}, num_stages=3, num_warps=8),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32}, num_stages=4),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 16}, num_stages=4),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 16, "BLOCK_K": 64}, num_stages=5),
    ]


def get_hip_autotune_config():
    return [triton.Config({"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 16, "waves_per_eu": 2})]


def get_autotune_config():
    """Return the configurations of the device."""
    if is_cuda():
        return get_cuda_autotune_config()
    else:
        return get_hip_autotune_config()


@triton.autotune(configs=get_autotune_config(), key=["M", "N", "K"])
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for begin in range(0, K, BLOCK_K):
        k = begin + tl.arange(0, BLOCK_K)
        a = a_ptr + rows * stride_am + k[None, :]
        b = b_ptr + k[:, None] * N + columns
        a = tl.load(a, mask=(rows < M) & (k[None, :] < K), other=0.0)
        total += tl.dot(a, tl.load(b, mask=(k[:, None] < K) & (columns < N), other=0.0))
    if ACTIVATION == "leaky_relu":
        total = leaky_relu(total)
    tl.store(c_ptr + N * rows + columns, total, mask=(rows < M) & (columns < N))


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, SLOPE * x)


SLOPE: tl.constexpr = tl.constexpr(0.01)

a = torch.rand((512, 512), device="cuda")
c = torch.empty_like(a)
matmul_kernel[(16, 16)](a, a, c, 512, 512, 512, 512, ACTIVATION="")
