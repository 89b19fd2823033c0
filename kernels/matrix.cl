/* Dense matrix product, C = A B, with a block, a step and a memory path of any shape: the program
 * `matrix` of Starchart.
 *
 * A block of X x Y threads owns X columns and Y rows of C, a thread one element. The block walks
 * along A and B in steps of TILING: either it brings Y x TILING elements of A and TILING x X of B
 * into local memory first, or every thread reads its own from global memory and leaves the reuse
 * to the caches.
 *
 * Launch: X x Y threads, ceil(wB / X) x ceil(hA / Y) blocks.
 * All matrices are row-major: A is hA x wA, B is wA x wB, C is hA x wB. All sizes may be from 1 to
 * 2^30, but for hA in CUDA: it takes at most 65,535 blocks there, hence 65,535 * Y rows.
 */
#include "portable.h"

/* The block: X threads along a row of C, Y along a column. */
#ifndef X
#define X 16
#endif
#ifndef Y
#define Y 16
#endif

/* How many columns of A, and rows of B, a step takes. */
#ifndef TILING
#define TILING 16
#endif

/* How often the loop over the products of a step is unrolled: 1 .. TILING; 0 leaves it to the
 * compiler, which may well unroll it all. */
#ifndef UNROLL_K
#define UNROLL_K 0
#endif
#if UNROLL_K
#define UNROLL_PRODUCTS UNROLL(UNROLL_K)
#else
#define UNROLL_PRODUCTS
#endif

/* 1: through local memory; 0: straight from global memory. */
#ifndef USE_SMEM
#define USE_SMEM 1
#endif

/* How the tiles of A and B lie in local memory. 0: as in the matrix, row after row; 1: transposed,
 * column after column. Without local memory there are no tiles. */
#ifndef T_A
#define T_A 0
#endif
#ifndef T_B
#define T_B 0
#endif

#if T_A
#define TILE_A(row, k) a[(k) * Y + (row)]
#else
#define TILE_A(row, k) a[(row) * TILING + (k)]
#endif
#if T_B
#define TILE_B(k, column) b[(column) * TILING + (k)]
#else
#define TILE_B(k, column) b[(k) * X + (column)]
#endif

/* Not KERNEL_SIZED: of a kernel with a promised block size nvcc ignores -maxrregcount. Nor are
 * the pointers RESTRICT: nvcc would read through the read-only cache, past which -dlcm goes. */
KERNEL matrix(GLOBAL const float *A, GLOBAL const float *B, GLOBAL float *C, int hA, int wA,
              int wB) {
#if USE_SMEM
    LOCAL float a[Y * TILING];
    LOCAL float b[TILING * X];
    const int thread = THREAD_Y * X + THREAD_X;
#endif
    const int top = BLOCK_Y * Y, left = BLOCK_X * X;
    const int row = top + THREAD_Y, column = left + THREAD_X;
    float sum = 0.0f;

    for (int begin = 0; begin < wA; begin += TILING) {
#if USE_SMEM
        /* A tile may have more or fewer elements than the block has threads. What overhangs a
         * matrix is zero. */
        for (int i = thread; i < Y * TILING; i += X * Y) {
            const int r = top + i / TILING, c = begin + i % TILING;
            TILE_A(i / TILING, i % TILING) = r < hA && c < wA ? A[(size_t)r * wA + c] : 0.0f;
        }
        for (int i = thread; i < TILING * X; i += X * Y) {
            const int r = begin + i / X, c = left + i % X;
            TILE_B(i / X, i % X) = r < wA && c < wB ? B[(size_t)r * wB + c] : 0.0f;
        }
        BARRIER();
        UNROLL_PRODUCTS
        for (int k = 0; k < TILING; k++) sum += TILE_A(THREAD_Y, k) * TILE_B(k, THREAD_X);
        BARRIER(); /* nobody still reads the tiles */
#else
        if (row < hA && column < wB) {
            const int width = min(wA - begin, TILING);
            UNROLL_PRODUCTS
            for (int k = begin; k < begin + width; k++) {
                sum += A[(size_t)row * wA + k] * B[(size_t)k * wB + column];
            }
        }
#endif
    }
    if (row < hA && column < wB) C[(size_t)row * wB + column] = sum;
}
