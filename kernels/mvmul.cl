/* Dense matrix-vector product, y = A x: Fujimoto's blocked kernel (2008), which G-ADAPT tuned. The
 * original reads A and x through textures; here they are arrays in global memory.
 *
 * A square block of SIDE x SIDE threads owns SIDE rows of A. It walks along them in steps of
 * THRD = SIDE * SIDE columns: the block's threads bring that piece of x into local memory, one
 * element each; then every row is shared by SIDE threads ("lanes"), each multiplying SIDE / 4
 * groups of four columns, with neighbouring lanes on neighbouring groups so that reads of A
 * coalesce. At the end the SIDE partial sums of a row are added as a tree, in halves that are rounded
 * up.
 *
 * Launch: SIDE x SIDE threads, ceil(m / SIDE) blocks in one dimension.
 * A is row-major, m x n; any m >= 1 and 1 <= n <= 2^30; A and x start at multiples of 16 bytes.
 */
#include "portable.h"

/* Threads of the square block; also the columns of a step. */
#ifndef THRD
#define THRD 256
#endif

/* How often the loop over a lane's groups of four columns is unrolled: 1 .. SIDE / 4. */
#ifndef LU
#define LU 1
#endif

/* 1: x goes through local memory, read once a block. 0: every lane reads x from global memory,
 * which saves two barriers a step and leaves the reuse of x to the caches. */
#ifndef X_CACHE
#define X_CACHE 1
#endif

/* The preprocessor has no square root. */
#if THRD == 16
#define SIDE 4
#elif THRD == 64
#define SIDE 8
#elif THRD == 144
#define SIDE 12
#elif THRD == 256
#define SIDE 16
#elif THRD == 400
#define SIDE 20
#elif THRD == 576
#define SIDE 24
#elif THRD == 784
#define SIDE 28
#elif THRD == 1024
#define SIDE 32
#else
#error "THRD must be the square of a block side that is a multiple of 4, from 16 to 1024"
#endif

/* Element c, and group i of four elements, of the present piece of x. */
#if X_CACHE
#define X_AT(c) piece[c]
#define X_GROUP(i) LOAD4_LOCAL(piece, i)
#else
#define X_AT(c) x[begin + (c)]
#define X_GROUP(i) LOAD4(x + begin, i)
#endif

KERNEL_SIZED(SIDE, SIDE, 1)
mvmul(GLOBAL const float *RESTRICT A, GLOBAL const float *RESTRICT x, GLOBAL float *RESTRICT y,
      int m, int n) {
#if X_CACHE
    LOCAL ALIGNED(16) float piece[THRD];
    const int slot = THREAD_Y * SIDE + THREAD_X;
#endif
    /* One column more than is used: lanes of one column then lie in different memory banks. */
    LOCAL float partial[SIDE][SIDE + 1];
    const int lane = THREAD_X;
    const int row = BLOCK_X * SIDE + THREAD_Y;
    GLOBAL const float *a = A + (size_t)row * n; /* m * n may exceed an int */
    float sum = 0.0f;

    for (int begin = 0; begin < n; begin += THRD) {
        const int width = min(n - begin, THRD);
#if X_CACHE
        BARRIER(); /* nobody still reads the piece before */
        if (slot < width) piece[slot] = x[begin + slot];
        BARRIER();
#endif
        /* Rows past the end do nothing here, yet stay in the loop for its barriers. A group of
         * four may be loaded at once only where every row starts at a multiple of 16 bytes. */
        if (row < m && width == THRD && n % 4 == 0) {
            UNROLL(LU)
            for (int k = 0; k < SIDE / 4; k++) {
                const float4 p = LOAD4(a + begin, lane + k * SIDE);
                const float4 q = X_GROUP(lane + k * SIDE);
                sum += p.x * q.x + p.y * q.y + p.z * q.z + p.w * q.w;
            }
        } else if (row < m) {
            for (int c = lane; c < width; c += SIDE) sum += a[begin + c] * X_AT(c);
        }
    }

    partial[THREAD_Y][lane] = sum;
    for (int left = SIDE, distance; left > 1; left = distance) {
        distance = (left + 1) / 2;
        BARRIER();
        if (lane + distance < left) partial[THREAD_Y][lane] += partial[THREAD_Y][lane + distance];
    }
    if (lane == 0 && row < m) y[row] = partial[THREAD_Y][0];
}
