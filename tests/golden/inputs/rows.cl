/* The sum of each row of an m x n matrix. */
kernel void sums(global const float *A, global float *sums, int m, int n) {
    int row = get_global_id(0);
    float sum = 0.0f;
    if (row >= m) return;
    for (int k = 0; k < n; k++)
#if LAYOUT == column
        sum += A[k * m + row];
#else
        sum += A[row * n + k];
#endif
    sums[row] = sum + 0.0f * BLOCK * TILE;
}
