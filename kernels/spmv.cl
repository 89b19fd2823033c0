/* y = A x for a sparse matrix in compressed rows (CSR): the twin of spmv.cu, with local memory in
 * place of warp shuffles. */

kernel void spmv(global const int *restrict begins, global const int *restrict columns,
                 global const float *restrict values, global const float *restrict x,
                 global float *restrict y, int rows) {
    local float sums[BLOCK];
    const int thread = get_local_id(0), lane = thread % LANES;
    const int row = (get_group_id(0) * BLOCK + thread) / LANES;
    float sum = 0.0f;
    if (row < rows)
        for (int i = begins[row] + lane; i < begins[row + 1]; i += LANES)
            sum += values[i] * x[columns[i]];
    sums[thread] = sum;
    for (int distance = LANES / 2; distance > 0; distance /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (lane < distance) sums[thread] += sums[thread + distance];
    }
    if (row < rows && lane == 0) y[row] = sums[thread];
}
