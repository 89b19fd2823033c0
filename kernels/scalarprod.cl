/* Scalar products of many pairs of vectors: the CUDA SDK's scalarProd, as G-ADAPT tuned it.
 *
 * One of the two sources of this kernel: OpenCL C 1.2 as one writes it for OpenCL alone. A
 * work-group takes one pair of vectors at a time, and then the pair that is all groups further
 * on. Its work-items stride along the pair, and add their sums as a tree in local memory.
 *
 * Launch: BLOCK work-items (a power of two), any number of groups, in one dimension.
 * Pair v is a[v * length ..] and b[v * length ..]; its scalar product goes to product[v].
 */
#ifndef BLOCK
#define BLOCK 256
#endif

__kernel __attribute__((reqd_work_group_size(BLOCK, 1, 1)))
void scalarprod(__global const float *restrict a, __global const float *restrict b,
                __global float *restrict product, const int vectors, const int length) {
    __local float sums[BLOCK];
    const int item = get_local_id(0);

    for (int v = get_group_id(0); v < vectors; v += get_num_groups(0)) {
        __global const float *x = a + (size_t)v * length;
        __global const float *y = b + (size_t)v * length;
        float sum = 0.0f;
        for (int i = item; i < length; i += BLOCK) sum += x[i] * y[i];

        sums[item] = sum;
        for (int distance = BLOCK / 2; distance > 0; distance /= 2) {
            barrier(CLK_LOCAL_MEM_FENCE);
            if (item < distance) sums[item] += sums[item + distance];
        }
        if (item == 0) product[v] = sums[0];
        barrier(CLK_LOCAL_MEM_FENCE); /* nobody still reads the sums of this pair */
    }
}
