// its size
#define BLOCK_X 128

#ifndef FAST
#define FAST 1
#endif
#ifndef FACTOR
#define FACTOR 2
#endif
#define DEPTH 6
#define TWICE (2 * DEPTH)
#define MAYBE 1
#ifdef __CUDACC__
#define MANY 1
#else
#define MANY 2
#endif
#define UNUSED 3
extern "C" __global__ void __launch_bounds__(BLOCK_X) f(float *y, int n) {
    const int i = MANY * TWICE * MAYBE + (FAST ? threadIdx.x : 0);
    #pragma unroll FACTOR
    for (int k = 0; k < n; k++) y[i] += k;
    #pragma unroll 4
    for (int k = 0; k < n; k++) y[i] += k;
    for (int k = DEPTH; k > 0; k -= 2) y[i] += k;
    for (int k = 0; k <= 2 * DEPTH; ++k) y[i] += k;
    for (int k = 0; k < n; k++) y[i] += k;
}
int main() { for (int k = 0; k < 10; k++) ; }
