// y = A x for a sparse matrix in compressed rows (CSR): LANES threads of a warp share a row.
//
// A C++ template without extern "C". Launch: THREADS threads, ceil(rows * LANES / THREADS) blocks.

template <int THREADS, int LANES, typename T>
__global__ void __launch_bounds__(THREADS)
spmv(const int *__restrict__ begins, const int *__restrict__ columns, const T *__restrict__ values,
     const T *__restrict__ x, T *__restrict__ y, int rows) {
    static_assert(32 % LANES == 0, "a warp holds whole rows");
    const int row = (blockIdx.x * THREADS + threadIdx.x) / LANES;
    const int lane = threadIdx.x % LANES;
    T sum = 0;
    if (row < rows) {
        const int end = begins[row + 1];
        for (int i = begins[row] + lane; i < end; i += LANES) sum += values[i] * __ldg(x + columns[i]);
    }
    for (int distance = LANES / 2; distance > 0; distance /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, distance, LANES);
    if (row < rows && lane == 0) y[row] = sum;
}
