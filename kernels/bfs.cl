/* Breadth-first search, Rodinia's bfs (after Harish and Narayanan, 2007), as Starchart tuned it.
 *
 * Two launches a level. `expand`: every node of the frontier gives its neighbours that were not
 * visited before their level, and marks them. `settle`: the marked nodes become visited and the
 * next frontier, and `reached` says that this level has any. The host reads it, and stops at the
 * first level that has none.
 *
 * Several threads of `expand` may write to one node, and many of `settle` to `reached`: all of
 * them write the same value, and nothing of the same launch reads it.
 *
 * Launch: BLOCK threads, ceil(n / (BLOCK * NPT)) blocks, both kernels. 1 <= n <= 2^29 nodes, fewer
 * than 2^31 edges.
 */
#include "portable.h"

/* Threads of a block. */
#ifndef BLOCK
#define BLOCK 512
#endif

/* Nodes of a thread. */
#ifndef NPT
#define NPT 1
#endif

/* 1: a thread's nodes are consecutive. 0: they lie BLOCK apart, so that neighbouring threads look
 * at neighbouring nodes. */
#ifndef CONSEC
#define CONSEC 0
#endif

/* How a node's two attributes lie in memory: 1, as parallel arrays; 0, packed in a structure. */
#ifndef PA_ATTRIB
#define PA_ATTRIB 0
#endif

/* How a node's three flags lie in memory: 1, as parallel arrays; 0, packed in a structure. */
#ifndef PA_STATUS
#define PA_STATUS 1
#endif

/* Attributes: where a node's edges begin, and how many there are. */
#define START 0
#define DEGREE 1
#if PA_ATTRIB
#define ATTRIBUTE(which, node) attributes[(which) * n + (node)]
#else
#define ATTRIBUTE(which, node) attributes[2 * (node) + (which)]
#endif

/* Flags: in the frontier; marked for the next one; visited. */
#define FRONTIER 0
#define MARKED 1
#define VISITED 2
#if PA_STATUS
#define STATUS(which, node) status[(which) * n + (node)]
#else
#define STATUS(which, node) status[3 * (node) + (which)]
#endif

/* Node k of a thread. */
#if CONSEC
#define NODE(k) ((BLOCK_X * BLOCK + THREAD_X) * NPT + (k))
#else
#define NODE(k) (BLOCK_X * (BLOCK * NPT) + (k) * BLOCK + THREAD_X)
#endif

/* `level` is that of the neighbours: one more than the frontier's.
 *
 * Not KERNEL_SIZED: of a kernel with a promised block size nvcc ignores -maxrregcount. Nor are
 * the pointers RESTRICT: nvcc would read the graph through the read-only cache, past which -dlcm
 * goes. */
KERNEL expand(GLOBAL const int *attributes, GLOBAL const int *edges, GLOBAL unsigned char *status,
              GLOBAL int *levels, int n, int level) {
    for (int k = 0; k < NPT; k++) {
        const int node = NODE(k);
        if (node < n && STATUS(FRONTIER, node)) {
            const int start = ATTRIBUTE(START, node);
            const int end = start + ATTRIBUTE(DEGREE, node);
            STATUS(FRONTIER, node) = 0;
            for (int e = start; e < end; e++) {
                const int neighbour = edges[e];
                if (!STATUS(VISITED, neighbour)) {
                    levels[neighbour] = level;
                    STATUS(MARKED, neighbour) = 1;
                }
            }
        }
    }
}

KERNEL settle(GLOBAL unsigned char *status, GLOBAL int *reached, int n, int level) {
    for (int k = 0; k < NPT; k++) {
        const int node = NODE(k);
        if (node < n && STATUS(MARKED, node)) {
            STATUS(FRONTIER, node) = 1;
            STATUS(VISITED, node) = 1;
            STATUS(MARKED, node) = 0;
            reached[0] = level;
        }
    }
}
