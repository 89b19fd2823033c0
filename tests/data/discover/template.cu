#include <cuda_fp16.h>
namespace inner {
template <typename T, int N>
__device__ T twice(T x) { return x < T(N) ? x : x + x; }

template <typename T>
__global__ void __launch_bounds__(256) all(T *kernel, const std::int64_t n, const float3 *p) {
    kernel[threadIdx.x] = twice<T, 3>(kernel[0]);
}
}
void launch(float *y) { inner::all<float><<<1, 256>>>(y, 1, nullptr); }
