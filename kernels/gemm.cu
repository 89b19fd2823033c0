// C = A B for row-major matrices of any sizes: tiles in dynamic shared memory, and a register tile
// of TM x TN elements for each thread.
//
// A C++ template without extern "C": spaces/modern/gemm.yaml names the instance. Launch: (BN / TN,
// BM / TM) threads, (ceil(n / BN), ceil(m / BM)) blocks, (BM + BN) * BK * sizeof(T) bytes of
// dynamic shared memory. A is m x k, B is k x n, C is m x n.

template <typename T, int BM, int BN, int BK, int TM, int TN>
__global__ void __launch_bounds__((BM / TM) * (BN / TN))
gemm(const T *__restrict__ a, const T *__restrict__ b, T *__restrict__ c, int m, int n, int k) {
    static_assert(BM % TM == 0 && BN % TN == 0, "threads must share a tile evenly");
    extern __shared__ unsigned char memory[];
    T *const a_tile = reinterpret_cast<T *>(memory);  // BK x BM: transposed, so that a thread's
    T *const b_tile = a_tile + BK * BM;               // BK x BN  TM values lie side by side

    constexpr int COLUMNS = BN / TN, ROWS = BM / TM, THREADS = ROWS * COLUMNS;
    const int thread = threadIdx.y * COLUMNS + threadIdx.x;
    const int top = blockIdx.y * BM, left = blockIdx.x * BN;

    T sums[TM][TN] = {};
    for (int begin = 0; begin < k; begin += BK) {
        for (int i = thread; i < BM * BK; i += THREADS) {
            const int row = i / BK, column = i % BK;
            const bool inside = top + row < m && begin + column < k;
            a_tile[column * BM + row] =
                inside ? a[static_cast<size_t>(top + row) * k + begin + column] : T(0);
        }
        for (int i = thread; i < BK * BN; i += THREADS) {
            const int row = i / BN, column = i % BN;
            const bool inside = begin + row < k && left + column < n;
            b_tile[i] = inside ? b[static_cast<size_t>(begin + row) * n + left + column] : T(0);
        }
        __syncthreads();
#pragma unroll 8
        for (int step = 0; step < BK; step++) {
            T from_a[TM], from_b[TN];
            for (int i = 0; i < TM; i++) from_a[i] = a_tile[step * BM + threadIdx.y * TM + i];
            for (int j = 0; j < TN; j++) from_b[j] = b_tile[step * BN + threadIdx.x * TN + j];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++) sums[i][j] += from_a[i] * from_b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++) {
        for (int j = 0; j < TN; j++) {
            const int row = top + threadIdx.y * TM + i, column = left + threadIdx.x * TN + j;
            if (row < m && column < n) c[static_cast<size_t>(row) * n + column] = sums[i][j];
        }
    }
}
