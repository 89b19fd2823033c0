#include "fixed.h"
__kernel void scale(__global const float *x, __global float *y, int n) {
    for (int i = get_global_id(0) * UNROLL; i < n && i < (get_global_id(0) + 1) * UNROLL; i++)
        y[i] = 2.0f * x[i];
}
