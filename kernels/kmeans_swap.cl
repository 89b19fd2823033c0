/* The table of a k-means program turned over: out = in^T, from point-major to feature-major; the
 * kernel `invert_mapping` of Rodinia's kmeans, with the choices that Starchart tuned as
 * `kmeans_swap`.
 *
 * A block owns PPB points, each shared by TPP threads that lie side by side in it. The features
 * of a point are dealt to its threads in turn, or each thread has a run of consecutive ones. The
 * published index lines are k = TPP * i + lane and k = n / TPP * lane + i; the second loses the
 * last features where TPP does not divide n, so a run is n / TPP rounded up here.
 *
 * Launch: PPB * TPP threads, ceil(m / PPB) blocks in one dimension.
 * `in` is m x n and `out` n x m, both row-major; 1 <= m, n <= 2^30.
 */
#include "portable.h"

/* Points of a block. */
#ifndef PPB
#define PPB 256
#endif

/* Threads that share a point. */
#ifndef TPP
#define TPP 1
#endif

/* 1: neighbouring threads read neighbouring features; 0: each reads a run of its own. */
#ifndef CONSEC
#define CONSEC 1
#endif

/* Not KERNEL_SIZED: of a kernel with a promised block size nvcc ignores -maxrregcount. Nor are
 * the pointers RESTRICT: nvcc would read through the read-only cache, past which -dlcm goes. */
KERNEL kmeans_swap(GLOBAL const float *in, GLOBAL float *out, int m, int n) {
    const int point = BLOCK_X * PPB + THREAD_X / TPP;
    const int lane = THREAD_X % TPP;
    const int run = (n + TPP - 1) / TPP;

    if (point < m) {
        for (int i = 0; i < run; i++) {
#if CONSEC
            const int k = TPP * i + lane;
#else
            const int k = run * lane + i;
#endif
            if (k < n) out[(size_t)k * m + point] = in[(size_t)point * n + k];
        }
    }
}
