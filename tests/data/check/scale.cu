#if UNROLL == 8
#error "eight is too many"
#endif
extern "C" __global__ void scale(float *x, int n) {
    __shared__ float tile[BLOCK * UNROLL];
    for (int i = 0; i < UNROLL; i++) tile[threadIdx.x * UNROLL + i] = x[i * n];
    __syncthreads();
    x[threadIdx.x] = tile[(3 * threadIdx.x) % BLOCK];
}
