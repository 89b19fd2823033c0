/* The softmax of each row of a matrix in half precision: the twin of softmax.cu. Halves are only
 * loaded and stored, for which OpenCL needs no extension. */

float over_group(float value, local float *shared, int is_maximum) {
    shared[get_local_id(0)] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int distance = BLOCK / 2; distance > 0; distance /= 2) {
        if (get_local_id(0) < distance) {
            const float other = shared[get_local_id(0) + distance];
            const float own = shared[get_local_id(0)];
            shared[get_local_id(0)] = is_maximum ? fmax(own, other) : own + other;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    value = shared[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return value;
}

kernel void softmax(global const half *restrict x, global half *restrict y, int columns,
                    local float *row) {
    local float shared[BLOCK];
    const size_t begin = (size_t)get_group_id(0) * columns;

    float largest = -INFINITY;
    for (int i = get_local_id(0); i < columns; i += BLOCK) {
        const float value = vload_half(begin + i, x);
        if (KEEP) row[i] = value;
        largest = fmax(largest, value);
    }
    largest = over_group(largest, shared, 1);

    float sum = 0.0f;
    for (int i = get_local_id(0); i < columns; i += BLOCK) {
        const float power = exp((KEEP ? row[i] : vload_half(begin + i, x)) - largest);
        if (KEEP) row[i] = power;
        sum += power;
    }
    const float scale = 1.0f / over_group(sum, shared, 0);

    for (int i = get_local_id(0); i < columns; i += BLOCK) {
        const float power = KEEP ? row[i] : exp(vload_half(begin + i, x) - largest);
        vstore_half(power * scale, begin + i, y);
    }
}
