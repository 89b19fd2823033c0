#include "k.h"
#define AT(I) ((I) * STRIDE)
enum Kind { SMALL };
constexpr int WARP = 32;
__global__ void f(float *y, int n) {
    const int MINE = SMALL + WARP + THEIRS + OURS + INT_MAX + NAN + CALLED(n);
    __shared__ float part[BLOCK];
    if (IS_FAST) y[AT(MINE)] = part[ITEMS];
    for (int i = -RADIUS; i < n; i++) y[i] = (FLOAT)i;
}
__global__ void g(float *y) { y[0] = OTHER; }
int main() { return EXIT_FAILURE + ON_THE_HOST; }
