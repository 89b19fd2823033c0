/* Square matrix product, C = A B, from global memory with rows and columns swapped.
 * The first of four matrix products whose nvcc flags were tuned with OpenTuner (2015).
 *
 * Each thread computes one element straight from global memory. Threads that are neighbours in x
 * hold neighbouring rows: they read A, and write C, n elements apart, which does not coalesce.
 *
 * Launch: BLOCK x BLOCK threads, ceil(n / BLOCK) x ceil(n / BLOCK) blocks.
 * All matrices are row-major, n x n.
 */
#include "portable.h"

/* The side of the block. */
#ifndef BLOCK
#define BLOCK 16
#endif

/* What the compiler makes of this text is what is tuned, so that the text leaves it free: no
 * promised block size (of such a kernel nvcc ignores -maxrregcount), no RESTRICT (which is what
 * --restrict adds), no unrolling. */
KERNEL matmul_1(GLOBAL const float *A, GLOBAL const float *B, GLOBAL float *C, int n) {
    const int row = BLOCK_X * BLOCK + THREAD_X;
    const int column = BLOCK_Y * BLOCK + THREAD_Y;
    if (row < n && column < n) {
        float sum = 0.0f;
        for (int k = 0; k < n; k++) sum += A[(size_t)row * n + k] * B[(size_t)k * n + column];
        C[(size_t)row * n + column] = sum;
    }
}
