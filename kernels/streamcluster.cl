/* What opening one more centre would save: the kernel of Rodinia's streamcluster, pgain's, with
 * the choices that Starchart tuned.
 *
 * For each point, the weighted squared distance to a candidate centre is compared with the cost
 * that it has now. Where the candidate is cheaper, the point is marked, and what it saves is
 * added to the candidate's column of the point's row of `work`; where not, what it would lose is
 * added to the column of its own centre. Nobody else adds to that row.
 *
 * A block of BLOCK threads owns BLOCK * PPT points. It walks along the dimensions in pieces of
 * BLOCK, for all points of a thread at once, so that what is read of the candidate is used PPT
 * times.
 *
 * Launch: BLOCK threads, ceil(n / (BLOCK * PPT)) blocks in one dimension.
 * `coords` is dims x n, `work` n x (centres + 1), both row-major; 1 <= n, dims <= 2^30.
 */
#include "portable.h"

/* Threads of a block; also the dimensions of a piece. */
#ifndef BLOCK
#define BLOCK 512
#endif

/* Points of a thread. */
#ifndef PPT
#define PPT 1
#endif

/* How the points lie in memory. 0: one structure after the other; 1: parallel arrays, all
 * weights, then all indices, then all costs. */
#ifndef PA_POINT
#define PA_POINT 0
#endif

/* 1: the points of a block are first brought into local memory, in the layout that PA_POINT says;
 * 0: every thread reads its own from global memory. */
#ifndef USE_SMEM
#define USE_SMEM 0
#endif

/* 1: the candidate's coordinates go through local memory, read once a block. 0: every thread
 * reads them from global memory. */
#ifndef CANDIDATE_SMEM
#define CANDIDATE_SMEM 0
#endif

/* The fields of a point, four bytes each: its weight, the index of the point that is its centre,
 * and its cost, the weighted squared distance to that centre. */
#define WEIGHT 0
#define ASSIGNED 1
#define COST 2
#define FIELDS 3
#if PA_POINT
#define POINT(i, field) points[(field) * (size_t)n + (i)]
#define BUFFERED(thread, field) buffer[(field) * BLOCK + (thread)]
#else
#define POINT(i, field) points[FIELDS * (size_t)(i) + (field)]
#define BUFFERED(thread, field) buffer[FIELDS * (thread) + (field)]
#endif
#if USE_SMEM
#define OWN(i, field) BUFFERED(THREAD_X, field)
#else
#define OWN(i, field) POINT(i, field)
#endif

/* Not KERNEL_SIZED: of a kernel with a promised block size nvcc ignores -maxrregcount. Nor are
 * the pointers RESTRICT: nvcc would read through the read-only cache, past which -dlcm goes. */
KERNEL streamcluster(GLOBAL const float *coords, GLOBAL const int *points,
                     GLOBAL const int *columns, GLOBAL float *work, GLOBAL int *switches, int n,
                     int dims, int centres, int candidate) {
#if CANDIDATE_SMEM
    LOCAL float piece[BLOCK];
#endif
#if USE_SMEM
    LOCAL int buffer[FIELDS * BLOCK];
#endif
    const int first = BLOCK_X * (BLOCK * PPT) + THREAD_X;
    float distance[PPT];

    UNROLL(PPT)
    for (int j = 0; j < PPT; j++) distance[j] = 0.0f;

    for (int begin = 0; begin < dims; begin += BLOCK) {
        const int width = min(dims - begin, BLOCK);
#if CANDIDATE_SMEM
        BARRIER(); /* nobody still reads the piece before */
        if (THREAD_X < width) piece[THREAD_X] = coords[(size_t)(begin + THREAD_X) * n + candidate];
        BARRIER();
#endif
        for (int d = 0; d < width; d++) {
            const size_t at = (size_t)(begin + d) * n;
#if CANDIDATE_SMEM
            const float other = piece[d];
#else
            const float other = coords[at + candidate];
#endif
            UNROLL(PPT)
            for (int j = 0; j < PPT; j++) {
                if (j * BLOCK < n - first) {
                    const float apart = coords[at + first + j * BLOCK] - other;
                    distance[j] += apart * apart;
                }
            }
        }
    }

    UNROLL(PPT)
    for (int j = 0; j < PPT; j++) {
        const int i = first + j * BLOCK;
#if USE_SMEM
        const int begin = i - THREAD_X, count = min(n - begin, BLOCK);
        BARRIER(); /* nobody still reads the points before */
        for (int k = THREAD_X; k < FIELDS * BLOCK; k += BLOCK) {
#if PA_POINT
            if (k % BLOCK < count) buffer[k] = POINT(begin + k % BLOCK, k / BLOCK);
#else
            if (k < FIELDS * count) buffer[k] = points[FIELDS * (size_t)begin + k];
#endif
        }
        BARRIER();
#endif
        if (i < n) {
            const float saved = distance[j] * AS_FLOAT(OWN(i, WEIGHT)) - AS_FLOAT(OWN(i, COST));
            const int is_cheaper = saved < 0.0f;
            const int column = is_cheaper ? centres : columns[OWN(i, ASSIGNED)];
            work[(size_t)i * (centres + 1) + column] += is_cheaper ? saved : -saved;
            switches[i] = is_cheaper;
        }
    }
}
