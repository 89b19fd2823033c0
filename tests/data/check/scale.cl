#if UNROLL == 8
#error "eight is too many"
#endif
kernel void scale(global float *x, int n) {
    local float tile[BLOCK * UNROLL];
    for (int i = 0; i < UNROLL; i++) tile[get_local_id(0) * UNROLL + i] = x[i * n];
    barrier(CLK_LOCAL_MEM_FENCE);
    x[get_global_id(0)] = tile[(3 * get_local_id(0)) % BLOCK];
}
