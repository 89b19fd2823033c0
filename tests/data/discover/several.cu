#include "portable.h"
#pragma range 1,4
#define BOTH 1
#pragma range 1,4
#define ONES 1
#pragma range 1,4
#if !defined(TWOS)
#define TWOS 1
#endif
#define TWICE (2 * TWOS)
#define SCALED 64
#pragma constraint ONES * TWOS <= 4
#pragma constraint TWOS * BOTH <= 4
#pragma constraint UNROLL_3 <= BOTH
DEVICE int shared(int n) {
#pragma unroll_range 1,8
    for (int i = 0; i < n; i++) n += BOTH;
    return n;
}
KERNEL one(GLOBAL int *y, int n) {
#pragma unroll_range 1,8
    for (int i = 0; i < n; i++) y[i] = shared(ONES);
    for (int i = 0; i < 3; i++) y[i]++;
}
KERNEL_SIZED(TWICE, 1, 1) two(GLOBAL int *y, int n) {
#pragma unroll_range 1,8
    for (int i = 0; i < n; i++) y[i] = SCALED;
#pragma unroll_range EACH 1,4
    for (int i = 0; i < n; i++) y[i]++;
    for (int i = 0; i < 5; i++) y[i]++;
}
