// Scalar products of many pairs of vectors: the CUDA SDK's scalarProd, as G-ADAPT tuned it.
//
// One of the two sources of this kernel: CUDA C++ as one writes it for CUDA alone. A block takes
// one pair of vectors at a time, and then the pair that is a whole grid further on. Its threads
// stride along the pair; every warp adds its 32 sums by shuffles, and the first warp adds those.
//
// Launch: BLOCK threads (a multiple of 32), any number of blocks, in one dimension.
// Pair v is a[v * length ..] and b[v * length ..]; its scalar product goes to product[v].

#ifndef BLOCK
#define BLOCK 256
#endif

static_assert(BLOCK % 32 == 0 && BLOCK <= 1024, "a block consists of 1 to 32 whole warps");

constexpr int WARPS = BLOCK / 32;

// The sum over the warp, in its lane 0. All lanes must call it.
__device__ float warp_sum(float value) {
    for (int distance = 16; distance > 0; distance /= 2) {
        value += __shfl_down_sync(0xffffffffu, value, distance);
    }
    return value;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
scalarprod(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ product,
           int vectors, int length) {
    __shared__ float of_warp[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    for (int v = blockIdx.x; v < vectors; v += gridDim.x) {
        const float *x = a + static_cast<size_t>(v) * length;
        const float *y = b + static_cast<size_t>(v) * length;
        float sum = 0.0f;
        for (int i = threadIdx.x; i < length; i += BLOCK) sum += x[i] * y[i];

        sum = warp_sum(sum);
        if (lane == 0) of_warp[warp] = sum;
        __syncthreads();
        if (warp == 0) {
            sum = warp_sum(lane < WARPS ? of_warp[lane] : 0.0f);
            if (lane == 0) product[v] = sum;
        }
        __syncthreads();  // nobody still reads the sums of this pair
    }
}
