__global__ void waits(float *y, int n) {
    cooperative_groups::this_grid().sync(); // this_grid
}
__global__ void plain(float *y, int n) { y[threadIdx.x] = n; /* this_grid */ }
