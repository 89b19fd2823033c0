// The softmax of each row of a matrix in half precision, computed in float: a block takes a row.
//
// A C++ template without extern "C". Launch: THREADS threads, a block for each row. With KEEP the
// row stays in dynamic shared memory, columns floats; without, it is read three times.
#include <cuda_fp16.h>
#include <math_constants.h>

template <int THREADS, bool IS_MAXIMUM>
__device__ float over_block(float value) {
    __shared__ float of_warp[THREADS / 32];
    for (int distance = 16; distance > 0; distance /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, distance);
        value = IS_MAXIMUM ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[0];
    for (int warp = 1; warp < THREADS / 32; warp++)
        value = IS_MAXIMUM ? fmaxf(value, of_warp[warp]) : value + of_warp[warp];
    __syncthreads();
    return value;
}

template <int THREADS, int STEP, bool IS_KEPT>
__global__ void __launch_bounds__(THREADS)
softmax(const __half *__restrict__ x, __half *__restrict__ y, int columns) {
    static_assert(THREADS % 32 == 0, "a block consists of whole warps");
    extern __shared__ float row[];
    const __half *const from = x + static_cast<size_t>(blockIdx.x) * columns;
    __half *const to = y + static_cast<size_t>(blockIdx.x) * columns;

    float largest = -CUDART_INF_F;
#pragma unroll STEP
    for (int i = threadIdx.x; i < columns; i += THREADS) {
        const float value = __half2float(from[i]);
        if (IS_KEPT) row[i] = value;
        largest = fmaxf(largest, value);
    }
    largest = over_block<THREADS, true>(largest);

    float sum = 0.0f;
#pragma unroll STEP
    for (int i = threadIdx.x; i < columns; i += THREADS) {
        const float power = __expf((IS_KEPT ? row[i] : __half2float(from[i])) - largest);
        if (IS_KEPT) row[i] = power;
        sum += power;
    }
    const float scale = 1.0f / over_block<THREADS, false>(sum);

#pragma unroll STEP
    for (int i = threadIdx.x; i < columns; i += THREADS) {
        const float power = IS_KEPT ? row[i] : __expf(__half2float(from[i]) - largest);
        to[i] = __float2half(power * scale);
    }
}
