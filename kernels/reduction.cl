/* Sum of 32-bit integers, after NVIDIA's reduction sample, which G-ADAPT tuned.
 *
 * A block adds BLOCK * ITEMS elements: every thread ITEMS of them while it loads them, neighbours
 * on neighbouring elements, then the block the BLOCK sums of its threads as a tree in local
 * memory. It writes one partial sum; the host launches the kernel again over the partial sums
 * until one is left. IMPLEMENTATION says which threads add what in the tree. All of them wait at a
 * barrier after every level: none relies on the threads of a warp running in step.
 *
 * Launch: BLOCK threads, ceil(n / (BLOCK * ITEMS)) blocks. 1 <= n <= 2^30; the sums of any of the
 * elements must fit an int.
 */
#include "portable.h"

/* Threads of a block: a power of two from 32 to 512. */
#ifndef BLOCK
#define BLOCK 256
#endif

/* Elements that each thread adds while it loads them. */
#ifndef ITEMS
#define ITEMS 2
#endif

/* The tree, by the names of NVIDIA's sample:
 * 0  interleaved addressing: every second thread adds its neighbour's sum, then every fourth ...
 *    so that the threads of a warp diverge;
 * 1  interleaved addressing by the first threads: no divergence, but bank conflicts;
 * 2  sequential addressing: the first half adds the second half, then the first quarter ...
 * 3  sequential addressing, written out. */
#ifndef IMPLEMENTATION
#define IMPLEMENTATION 3
#endif

/* One level of sequential addressing. */
#define ADD_HALVES(distance) \
    BARRIER();               \
    if (t < (distance)) sums[t] += sums[t + (distance)]

KERNEL_SIZED(BLOCK, 1, 1)
reduce(GLOBAL const int *RESTRICT from, GLOBAL int *RESTRICT to, int n) {
    LOCAL int sums[BLOCK];
    const int t = THREAD_X;
    const int first = BLOCK_X * (BLOCK * ITEMS) + t;
    int sum = 0;
    for (int k = 0; k < ITEMS; k++) {
        const int i = first + k * BLOCK;
        if (i < n) sum += from[i];
    }
    sums[t] = sum;

#if IMPLEMENTATION == 0
    for (int distance = 1; distance < BLOCK; distance *= 2) {
        BARRIER();
        if (t % (2 * distance) == 0) sums[t] += sums[t + distance];
    }
#elif IMPLEMENTATION == 1
    for (int distance = 1; distance < BLOCK; distance *= 2) {
        const int place = 2 * distance * t;
        BARRIER();
        if (place < BLOCK) sums[place] += sums[place + distance];
    }
#elif IMPLEMENTATION == 2
    /* Kept a loop, which is what sets it apart from the next one. */
    UNROLL(1)
    for (int distance = BLOCK / 2; distance > 0; distance /= 2) {
        ADD_HALVES(distance);
    }
#elif IMPLEMENTATION == 3
#if BLOCK >= 512
    ADD_HALVES(256);
#endif
#if BLOCK >= 256
    ADD_HALVES(128);
#endif
#if BLOCK >= 128
    ADD_HALVES(64);
#endif
#if BLOCK >= 64
    ADD_HALVES(32);
#endif
    ADD_HALVES(16);
    ADD_HALVES(8);
    ADD_HALVES(4);
    ADD_HALVES(2);
    ADD_HALVES(1);
#else
#error "IMPLEMENTATION must be 0, 1, 2 or 3"
#endif

    /* The thread that wrote the last sum stores it. */
    if (t == 0) to[BLOCK_X] = sums[0];
}
