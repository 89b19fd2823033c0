/* C = A B for row-major matrices of any sizes: the twin of gemm.cu, with macros in place of template
 * arguments, and a local pointer in place of dynamic shared memory. */

#define COLUMNS (TILE_N / WORK_N)
#define THREADS (TILE_M / WORK_M * COLUMNS)

kernel void gemm(global const float *restrict a, global const float *restrict b,
                 global float *restrict c, local float *memory, int m, int n, int k) {
    local float *const a_tile = memory; /* TILE_K x TILE_M */
    local float *const b_tile = memory + TILE_K * TILE_M;
    const int x = get_local_id(0), y = get_local_id(1), thread = y * COLUMNS + x;
    const int top = get_group_id(1) * TILE_M, left = get_group_id(0) * TILE_N;

    float sums[WORK_M][WORK_N];
    for (int i = 0; i < WORK_M; i++)
        for (int j = 0; j < WORK_N; j++) sums[i][j] = 0.0f;
    for (int begin = 0; begin < k; begin += TILE_K) {
        for (int i = thread; i < TILE_M * TILE_K; i += THREADS) {
            const int row = i / TILE_K, column = i % TILE_K;
            const int inside = top + row < m && begin + column < k;
            a_tile[column * TILE_M + row] =
                inside ? a[(size_t)(top + row) * k + begin + column] : 0.0f;
        }
        for (int i = thread; i < TILE_K * TILE_N; i += THREADS) {
            const int row = i / TILE_N, column = i % TILE_N;
            const int inside = begin + row < k && left + column < n;
            b_tile[i] = inside ? b[(size_t)(begin + row) * n + left + column] : 0.0f;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int step = 0; step < TILE_K; step++)
            for (int i = 0; i < WORK_M; i++)
                for (int j = 0; j < WORK_N; j++)
                    sums[i][j] += a_tile[step * TILE_M + y * WORK_M + i] *
                                  b_tile[step * TILE_N + x * WORK_N + j];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int i = 0; i < WORK_M; i++) {
        for (int j = 0; j < WORK_N; j++) {
            const int row = top + y * WORK_M + i, column = left + x * WORK_N + j;
            if (row < m && column < n) c[(size_t)row * n + column] = sums[i][j];
        }
    }
}
