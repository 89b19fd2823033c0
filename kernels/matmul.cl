/* Dense matrix product, C = A B, in square tiles of local memory: the CUDA SDK's matrixMul, as
 * G-ADAPT tuned it.
 *
 * A block of TILE x TILE threads owns one tile of C, a thread one element. The block walks along
 * its rows of A and its columns of B in steps of TILE: every thread brings one element of each
 * matrix into local memory, zero where the tile overhangs the matrix; then each thread adds TILE
 * products. Neighbouring threads hold neighbouring columns, so that all reads and writes of
 * global memory coalesce.
 *
 * Launch: TILE x TILE threads, ceil(wB / TILE) x ceil(hA / TILE) blocks.
 * All matrices are row-major: A is hA x wA, B is wA x wB, C is hA x wB. All sizes may be from 1 to
 * 2^30, but for hA in CUDA: it takes at most 65,535 blocks there, hence 65,535 * TILE rows.
 */
#include "portable.h"

/* The side of the tiles and of the block. */
#ifndef TILE
#define TILE 16
#endif

/* How often the loop over the products of a tile is unrolled: 1 .. TILE; 0 leaves it to the
 * compiler, which may well unroll it all. */
#ifndef UNROLL_K
#define UNROLL_K 0
#endif
#if UNROLL_K
#define UNROLL_PRODUCTS UNROLL(UNROLL_K)
#else
#define UNROLL_PRODUCTS
#endif

KERNEL_SIZED(TILE, TILE, 1)
matmul(GLOBAL const float *RESTRICT A, GLOBAL const float *RESTRICT B, GLOBAL float *RESTRICT C,
       int hA, int wA, int wB) {
    LOCAL float a[TILE][TILE];
    LOCAL float b[TILE][TILE];
    const int tx = THREAD_X, ty = THREAD_Y;
    const int row = BLOCK_Y * TILE + ty;
    const int column = BLOCK_X * TILE + tx;
    float sum = 0.0f;

    for (int begin = 0; begin < wA; begin += TILE) {
        const int across = begin + tx, down = begin + ty;
        a[ty][tx] = row < hA && across < wA ? A[(size_t)row * wA + across] : 0.0f;
        b[ty][tx] = down < wA && column < wB ? B[(size_t)down * wB + column] : 0.0f;
        BARRIER();
        UNROLL_PRODUCTS
        for (int k = 0; k < TILE; k++) sum += a[ty][k] * b[k][tx];
        BARRIER(); /* nobody still reads the tiles */
    }
    if (row < hA && column < wB) C[(size_t)row * wB + column] = sum;
}
