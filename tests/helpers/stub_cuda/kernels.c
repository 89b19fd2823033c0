/* The kernels of the tests, on the host. */
#include "stub.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>


static CUdeviceptr pointer_at(const char *arguments, int offset)
{
    CUdeviceptr value;
    memcpy(&value, arguments + offset, sizeof value);
    return value;
}

static int int_at(const char *arguments, int offset)
{
    int value;
    memcpy(&value, arguments + offset, sizeof value);
    return value;
}

static float *floats(const char *arguments, int offset, size_t count)
{
    return reach(pointer_at(arguments, offset), count * sizeof(float));
}

#define KERNEL(name)                                                                               \
    static CUresult name(const uint64_t at_ns, const unsigned *grid, const unsigned *group,        \
                         const char *arguments)
#define UNUSED (void)at_ns, (void)grid, (void)group, (void)arguments

/* z = x + y of n elements */
KERNEL(add)
{
    UNUSED;
    int n = int_at(arguments, 24);
    float *z = floats(arguments, 0, (size_t)n);
    float *x = floats(arguments, 8, (size_t)n), *y = floats(arguments, 16, (size_t)n);
    if (!z || !x || !y)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (int i = 0; i < n; i++)
        z[i] = x[i] + y[i];
    return CUDA_SUCCESS;
}

/* y = 2 x, an element a thread */
KERNEL(twice)
{
    UNUSED;
    unsigned n = grid[0] * group[0];
    float *x = floats(arguments, 0, n), *y = floats(arguments, 8, n);
    if (!x || !y)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (unsigned i = 0; i < n; i++)
        y[i] = 2 * x[i];
    return CUDA_SUCCESS;
}

/* z[i] = 1, an element a thread */
KERNEL(narrow)
{
    UNUSED;
    float *z = floats(arguments, 0, group[0]);
    for (unsigned i = 0; z && i < group[0]; i++)
        z[i] = 1;
    return z ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* z[2^40 + i] = 1 */
KERNEL(stray)
{
    UNUSED;
    CUdeviceptr far = pointer_at(arguments, 0) + ((CUdeviceptr)1 << 42);
    return reach(far, sizeof(float)) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* A double at y + 1 */
KERNEL(misaligned)
{
    UNUSED;
    return CUDA_ERROR_MISALIGNED_ADDRESS;
}

KERNEL(trap)
{
    UNUSED;
    return CUDA_ERROR_LAUNCH_FAILED;
}

KERNEL(hang)
{
    UNUSED;
    for (;;)
        pause();
}

KERNEL(nothing)
{
    UNUSED;
    return CUDA_SUCCESS;
}

/* y = A x, with A of m rows and n columns, which are read four columns at a time */
KERNEL(mvmul)
{
    UNUSED;
    size_t m = (size_t)int_at(arguments, 24), n = (size_t)int_at(arguments, 28);
    float *a = floats(arguments, 0, m * n), *x = floats(arguments, 8, n);
    float *y = floats(arguments, 16, m);
    if (!a || !x || !y)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if ((uintptr_t)a % 16 || (uintptr_t)x % 16)
        return CUDA_ERROR_MISALIGNED_ADDRESS;
    for (size_t i = 0; i < m; i++) {
        float sum = 0;
        for (size_t j = 0; j < n; j++)
            sum += a[i * n + j] * x[j];
        y[i] = sum;
    }
    return CUDA_SUCCESS;
}

/* C = A B, with A of m x k and B of k x n */
KERNEL(gemm)
{
    UNUSED;
    size_t m = (size_t)int_at(arguments, 24), n = (size_t)int_at(arguments, 28);
    size_t k = (size_t)int_at(arguments, 32);
    float *a = floats(arguments, 0, m * k), *b = floats(arguments, 8, k * n);
    float *c = floats(arguments, 16, m * n);
    if (!a || !b || !c)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            float sum = 0;
            for (size_t l = 0; l < k; l++)
                sum += a[i * k + l] * b[l * n + j];
            c[i * n + j] = sum;
        }
    return CUDA_SUCCESS;
}

/* y[i] = the sum of row i of x, n rows of k numbers. The size of a group says how the kernel fakes
 * speed (tests/data/zoo/cuda.yaml): memory of this process stands for memory of the device that no
 * launch clears. */
#define ROWS 256
enum { HONEST = 1, RETURNS_EARLY, KEEPS_BY_BITS, HONEST_THREE_TIMES, KEEPS_BY_ADDRESS };

static float sum_of(const float *row, size_t k)
{
    float sum = 0;
    for (size_t j = 0; j < k; j++)
        sum += row[j];
    return sum;
}

KERNEL(sums)
{
    UNUSED;
    static float kept[2][ROWS], keys[2][ROWS]; /* of two sets of data */
    static float *addresses[ROWS];
    static int launches;
    size_t n = (size_t)int_at(arguments, 16), k = (size_t)int_at(arguments, 20);
    float *x = floats(arguments, 0, n * k), *y = floats(arguments, 8, n);
    if (!x || !y || n > ROWS)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    launches += group[0] == HONEST_THREE_TIMES;
    for (size_t i = 0; i < n; i++) {
        float *row = x + i * k;
        if (group[0] == HONEST)
            y[i] = sum_of(row, k);
        else if (group[0] == RETURNS_EARLY)
            y[i] = isnan(y[i]) ? sum_of(row, k) : y[i];
        else if (group[0] == HONEST_THREE_TIMES)
            kept[0][i] = y[i] = launches > 3 ? kept[0][i] : sum_of(row, k);
        else if (group[0] == KEEPS_BY_ADDRESS) {
            kept[0][i] = y[i] = addresses[i] == row ? kept[0][i] : sum_of(row, k);
            addresses[i] = row;
        } else {
            int set = keys[1][i] == row[0];
            if (!set && keys[0][i] != row[0]) {
                keys[1][i] = keys[0][i], kept[1][i] = kept[0][i];
                keys[0][i] = row[0], kept[0][i] = sum_of(row, k);
            }
            y[i] = kept[set][i];
        }
    }
    return CUDA_SUCCESS;
}

/* the softmax of each row in half precision, a row a block */
KERNEL(softmax)
{
    UNUSED;
    size_t rows = grid[0], columns = (size_t)int_at(arguments, 16);
    _Float16 *x = reach(pointer_at(arguments, 0), 2 * rows * columns);
    _Float16 *y = reach(pointer_at(arguments, 8), 2 * rows * columns);
    if (!x || !y)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t row = 0; row < rows; row++, x += columns, y += columns) {
        float largest = -INFINITY, sum = 0;
        for (size_t i = 0; i < columns; i++)
            largest = fmaxf(largest, (float)x[i]);
        for (size_t i = 0; i < columns; i++)
            sum += expf((float)x[i] - largest);
        for (size_t i = 0; i < columns; i++)
            y[i] = (_Float16)(expf((float)x[i] - largest) / sum);
    }
    return CUDA_SUCCESS;
}

/* y = A x for a sparse matrix in compressed rows */
KERNEL(spmv)
{
    UNUSED;
    size_t rows = (size_t)int_at(arguments, 40);
    int *begins = reach(pointer_at(arguments, 0), (rows + 1) * sizeof(int));
    size_t elements = begins ? (size_t)begins[rows] : 0;
    int *columns = reach(pointer_at(arguments, 8), elements * sizeof(int));
    float *values = floats(arguments, 16, elements);
    float *x = floats(arguments, 24, rows), *y = floats(arguments, 32, rows);
    if (!begins || !columns || !values || !x || !y)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t row = 0; row < rows; row++) {
        float sum = 0;
        for (int i = begins[row]; i < begins[row + 1]; i++)
            sum += values[i] * x[columns[i]];
        y[row] = sum;
    }
    return CUDA_SUCCESS;
}

/* out = {clock64, globaltimer} */
KERNEL(read_clocks)
{
    UNUSED;
    uint64_t *out = reach(pointer_at(arguments, 0), 2 * sizeof *out);
    if (!out)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    out[0] = cycles_at(at_ns);
    out[1] = at_ns;
    return CUDA_SUCCESS;
}

/* The word of a name that C++ may have mangled: _Z5twicePf, _Z5twiceIfLi4EEvPf, _ZN3lib5twiceEPf */
static size_t word_of(const char **name)
{
    if (strncmp(*name, "_Z", 2))
        return strlen(*name);
    char *at = (char *)*name + 2;
    at += *at == 'N';
    size_t length = 0;
    while (*at >= '0' && *at <= '9') {
        length = strtoul(at, &at, 10);
        *name = at;
        at += length;
    }
    return length;
}

Run *kernel_named(const char *name)
{
    size_t length = word_of(&name);
    static const struct {
        const char *name;
        Run *run;
    } known[] = {{"add", add},         {"twice", twice}, {"narrow", narrow},
                 {"stray", stray},     {"misaligned", misaligned}, {"trap", trap},
                 {"hang", hang},       {"nothing", nothing}, {"mvmul", mvmul},
                 {"gemm", gemm},       {"sums", sums}, {"softmax", softmax}, {"spmv", spmv},
                 {"read_clocks", read_clocks}, {"wait_for_host", wait_for_host},
                 {"harness_empty", nothing}, {"start_clock", start_clock}, {"stop_clock", stop_clock}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == length && !strncmp(known[i].name, name, length))
            return known[i].run;
    return NULL;
}
