/* y[i] = the sum of row i of x, n rows of k numbers. The stand-in for a driver has functions of its
 * own in place of this kernel; the size of a group says how they fake speed. */
extern "C" __global__ void sums(const float *x, float *y, int n, int k)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float sum = 0;
        for (int j = 0; j < k; j++)
            sum += x[i * k + j];
        y[i] = sum;
    }
}
