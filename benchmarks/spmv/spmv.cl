// y = A x for a sparse matrix in CSR. LANES work-items share a row.
kernel void spmv(global const int *starts, global const int *columns, global const float *values,
                 global const float *x, global float *y, int rows) {
    local float sums[BLOCK];
    int i = get_local_id(0), lane = i % LANES, row = get_global_id(0) / LANES;
    float sum = 0;
    if (row < rows) {
        int end = starts[row + 1];
        for (int j = starts[row] + lane; j < end; j += LANES * UNROLL)
            for (int k = j; k < j + LANES * UNROLL; k += LANES)
                if (k < end) sum += values[k] * x[columns[k]];
    }
    sums[i] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane == 0 && row < rows) {
        float total = 0;
        for (int k = 0; k < LANES; k++) total += sums[i + k];
        y[row] = total;
    }
}
