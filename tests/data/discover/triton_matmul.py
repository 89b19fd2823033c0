"""A product of matrices, in the shape of Triton's tutorial."""

import torch
import triton
import triton.language as tl


def is_cuda():
    return triton.runtime.driver.active.get_current_target().backend == "cuda"


def get_cuda_autotune_config():
    return [
        triton.Config({"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP_M": 8}, num_stages=3,
                      num_warps=8),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP_M": 8}, num_stages=4),
        triton.Config({"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 16, "GROUP_M": 8}, num_stages=4),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 16, "BLOCK_K": 64, "GROUP_M": 4}, num_stages=5),
    ]  # fmt: skip


def get_hip_autotune_config():
    sizes = [{"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 16, "GROUP_M": 6, "waves_per_eu": 2}]
    return [triton.Config(size, num_warps=4, num_stages=2) for size in sizes]


def get_autotune_config():
    """Return the configurations of the device."""
    if is_cuda():
        return get_cuda_autotune_config()
    else:
        return get_hip_autotune_config()


@triton.autotune(configs=get_autotune_config(), key=["M", "N", "K"])
@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    blocks_m, blocks_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    in_group = GROUP_M * blocks_n
    first_m = pid // in_group * GROUP_M
    group_m = min(blocks_m - first_m, GROUP_M)
    rows = (first_m + pid % in_group % group_m) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid % in_group // group_m * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for begin in range(0, tl.cdiv(K, BLOCK_K)):
        k = begin * BLOCK_K + tl.arange(0, BLOCK_K)
        a = a_ptr + rows[:, None] * stride_am + k[None, :]
        b = b_ptr + k[:, None] * stride_bk + columns[None, :]
        total += tl.dot(
            tl.load(a, mask=(rows[:, None] < M) & (k[None, :] < K), other=0.0),
            tl.load(b, mask=(k[:, None] < K) & (columns[None, :] < N), other=0.0),
        )
    if ACTIVATION == "leaky_relu":
        total = leaky_relu(total)
    c = c_ptr + stride_cm * rows[:, None] + columns[None, :]
    tl.store(c, total, mask=(rows[:, None] < M) & (columns[None, :] < N))


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, SLOPE * x)


SLOPE: tl.constexpr = tl.constexpr(0.01)


def matmul(a, b, activation=""):
    M, K = a.shape
    K, N = b.shape
    c = torch.empty((M, N), device=a.device, dtype=torch.float32)
    grid = lambda META: (triton.cdiv(M, META["BLOCK_M"]) * triton.cdiv(N, META["BLOCK_N"]),)
    matmul_kernel[grid](
        a, b, c, M, N, K, a.stride(0), b.stride(0), c.stride(0), ACTIVATION=activation
    )
    return c


torch.manual_seed(0)
a = torch.rand((512, 512), device="cuda")
print(matmul(a, a))
