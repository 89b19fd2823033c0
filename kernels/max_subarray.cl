/* Maximum sub-array: the largest sum of neighbouring elements (0 for the empty range), as a
 * reduction of records over an associative operation that does not commute.
 *
 * The record of a range holds its total, the best sum of its prefixes, of its suffixes, and of
 * all its ranges; join() gives the record of two ranges side by side. Order matters: every thread
 * owns one contiguous range, the ranges follow each other as the threads do, and the trees join
 * neighbours only. `ranges` leaves one record a block, `finish` joins those.
 *
 * Launch ranges: BLOCK threads, BLOCKS blocks. Launch finish: BLOCK threads, one block, with
 * `count` = BLOCKS records. 1 <= n <= 2^30; the sums of any neighbours must fit an int.
 * `values` starts at a multiple of 16 bytes.
 *
 * Pointers are not declared restrict and kernels not sized, since nvcc's --restrict and
 * --maxrregcount are tuned and would otherwise do nothing.
 */
#include "portable.h"

/* Threads of a block, a power of two. BLOCKS, the blocks, is known to the host alone. */
#ifndef BLOCK
#define BLOCK 128
#endif

/* Elements that a thread takes at a step: a multiple of 4. */
#ifndef ITEMS
#define ITEMS 4
#endif

/* How they are loaded:
 * 0  one by one, by the thread that owns them;
 * 1  four at once, by the thread that owns them;
 * 2  by the whole block into local memory, where neighbouring threads load neighbouring elements
 *    of the ITEMS that lie together. */
#ifndef LOADS
#define LOADS 0
#endif

/* How often the loop over the elements of a step is unrolled (over groups of four if LOADS is 1);
 * 0 leaves it to the compiler. */
#ifndef UNROLLED
#define UNROLLED 0
#endif
#if UNROLLED
#define UNROLL_STEP UNROLL(UNROLLED)
#else
#define UNROLL_STEP
#endif

typedef struct {
    int total, prefix, suffix, best;
} Record;

/* The record of range a followed by range b. */
DEVICE Record join(Record a, Record b) {
    Record both;
    both.total = a.total + b.total;
    both.prefix = max(a.prefix, a.total + b.prefix);
    both.suffix = max(b.suffix, b.total + a.suffix);
    both.best = max(max(a.best, b.best), a.suffix + b.prefix);
    return both;
}

/* The record of a range followed by one element. */
DEVICE Record append(Record range, int element) {
    range.total += element;
    range.prefix = max(range.prefix, range.total);
    range.suffix = max(range.suffix + element, 0);
    range.best = max(range.best, range.suffix);
    return range;
}

/* The record of an empty range, and of any number of zeros: the neutral element. */
DEVICE Record nothing(void) {
    Record empty;
    empty.total = empty.prefix = empty.suffix = empty.best = 0;
    return empty;
}

DEVICE Record load_record(GLOBAL const int *from) {
    Record loaded;
    loaded.total = from[0];
    loaded.prefix = from[1];
    loaded.suffix = from[2];
    loaded.best = from[3];
    return loaded;
}

DEVICE void store_record(GLOBAL int *to, Record stored) {
    to[0] = stored.total;
    to[1] = stored.prefix;
    to[2] = stored.suffix;
    to[3] = stored.best;
}

/* Joins the block's records, one a thread in the threads' order, into the first. */
#define JOIN_BLOCK(records)                                                   \
    for (int distance = 1; distance < BLOCK; distance *= 2) {                 \
        const int place = 2 * distance * THREAD_X;                            \
        BARRIER();                                                            \
        if (place < BLOCK)                                                    \
            records[place] = join(records[place], records[place + distance]); \
    }

KERNEL ranges(GLOBAL const int *values, GLOBAL int *partial, int n) {
    LOCAL Record records[BLOCK];
#if LOADS == 2
    /* One element more than is used: the threads' first elements lie in different banks. */
    LOCAL int staged[BLOCK][ITEMS + 1];
#endif
    /* All ranges are as long, a whole number of steps; the last threads may have none. */
    const int threads = GRID_X * BLOCK;
    const int steps = (n + threads * ITEMS - 1) / (threads * ITEMS);
    const int length = steps * ITEMS;
#if LOADS == 2
    const int first = BLOCK_X * BLOCK * length; /* of the block */
#else
    const int first = (BLOCK_X * BLOCK + THREAD_X) * length;
#endif
    Record range = nothing();

    for (int step = 0; step < steps; step++) {
        const int begin = first + step * ITEMS;
#if LOADS == 2
        BARRIER(); /* nobody still reads the elements of the step before */
        for (int i = THREAD_X; i < BLOCK * ITEMS; i += BLOCK) {
            const int place = begin + (i / ITEMS) * length + i % ITEMS;
            /* A 0 after the end changes no record. */
            staged[i / ITEMS][i % ITEMS] = place < n ? values[place] : 0;
        }
        BARRIER();
        UNROLL_STEP
        for (int k = 0; k < ITEMS; k++) range = append(range, staged[THREAD_X][k]);
#else
        if (begin + ITEMS <= n) {
#if LOADS == 1
            GLOBAL const int4 *four = (GLOBAL const int4 *)(values + begin);
            UNROLL_STEP
            for (int k = 0; k < ITEMS / 4; k++) {
                const int4 v = four[k];
                range = append(append(append(append(range, v.x), v.y), v.z), v.w);
            }
#else
            UNROLL_STEP
            for (int k = 0; k < ITEMS; k++) range = append(range, values[begin + k]);
#endif
        } else {
            for (int i = begin; i < n; i++) range = append(range, values[i]);
        }
#endif
    }

    records[THREAD_X] = range;
    JOIN_BLOCK(records)
    if (THREAD_X == 0) store_record(partial + 4 * BLOCK_X, records[0]);
}

KERNEL finish(GLOBAL const int *partial, GLOBAL int *result, int count) {
    LOCAL Record records[BLOCK];
    const int each = (count + BLOCK - 1) / BLOCK;
    const int end = min((THREAD_X + 1) * each, count);
    Record range = nothing();
    for (int i = THREAD_X * each; i < end; i++) range = join(range, load_record(partial + 4 * i));

    records[THREAD_X] = range;
    JOIN_BLOCK(records)
    if (THREAD_X == 0) store_record(result, records[0]);
}
