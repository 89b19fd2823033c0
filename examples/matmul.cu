/* Multiply two n x n matrices with one of the kernels of kernels/matmul_1.cl to matmul_4.cl, which
 * -DMATMUL=1 to 4 chooses. This program makes the matrices, times the kernel and verifies the
 * product.
 *
 *     matmul N
 *
 * prints a checksum of the product and the time of the launch in milliseconds. It exits with 1 if
 * the product is wrong or CUDA fails, and with 2 for wrong arguments.
 *
 * The matrices hold whole numbers from 1 to 4, and N is at most 65,536, so float32 holds every sum
 * exactly and any order of additions gives the same product. Freivalds' check (1977) verifies it
 * in O(N^2): C r = A (B r) for a vector r of random whole numbers up to 2^20, all in exact integer
 * arithmetic. A wrong C passes with a probability of at most 2^-20.
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

#ifndef BLOCK
#define BLOCK 16 /* the side of a block */
#endif

#if MATMUL == 1
#include "../kernels/matmul_1.cl"
#define MULTIPLY matmul_1
#elif MATMUL == 2
#include "../kernels/matmul_2.cl"
#define MULTIPLY matmul_2
#elif MATMUL == 3
#include "../kernels/matmul_3.cl"
#define MULTIPLY matmul_3
#elif MATMUL == 4
#include "../kernels/matmul_4.cl"
#define MULTIPLY matmul_4
#else
#error "choose the kernel with -DMATMUL=1, 2, 3 or 4"
#endif

typedef std::vector<float> Matrix; /* row-major */
typedef std::vector<long long> Vector;

static const int kLargest = 1 << 16;

static void must(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
}

/* The next pseudo-random number from 0 to 65,535, equal on all machines. */
static unsigned draw() {
    static unsigned state = 1;
    state = state * 1664525u + 1013904223u;
    return state >> 16;
}

/* Whole numbers from 1 to 4. Without 0, which would hide a lost product. */
static Matrix make_matrix(int n) {
    Matrix matrix((size_t)n * n);
    for (float &element : matrix) element = float(draw() % 4 + 1);
    return matrix;
}

static Vector times(const Matrix &matrix, const Vector &vector) {
    const size_t n = vector.size();
    Vector product(n);
    for (size_t row = 0; row < n; row++)
        for (size_t k = 0; k < n; k++)
            product[row] += (long long)matrix[row * n + k] * vector[k];
    return product;
}

/* Whether c holds whole numbers that float32 holds exactly; a missing element is NaN. */
static bool is_whole(const Matrix &c) {
    for (const float element : c)
        if (!(element >= 0.0f && element <= 16777216.0f) || element != float(int(element)))
            return false;
    return true;
}

static bool is_product(const Matrix &c, const Matrix &a, const Matrix &b, int n) {
    if (!is_whole(c)) return false;
    Vector random(n);
    for (long long &value : random) value = draw() * 16ll + draw() % 16;
    return times(c, random) == times(a, times(b, random));
}

static float *to_device(const Matrix &matrix) {
    float *there = nullptr;
    const size_t bytes = sizeof(float) * matrix.size();
    must(cudaMalloc(&there, bytes), "memory for a matrix");
    must(cudaMemcpy(there, matrix.data(), bytes, cudaMemcpyHostToDevice), "copying a matrix");
    return there;
}

int main(int count, char **words) {
    const int n = count == 2 ? std::atoi(words[1]) : 0;
    if (n < 1 || n > kLargest) {
        std::fprintf(stderr, "usage: matmul N, with N from 1 to %d\n", kLargest);
        return 2;
    }
    const Matrix a = make_matrix(n), b = make_matrix(n);
    Matrix c((size_t)n * n);
    const size_t bytes = sizeof(float) * c.size();
    const float *a_there = to_device(a), *b_there = to_device(b);
    float *c_there = to_device(c);
    const dim3 block(BLOCK, BLOCK), grid((n + BLOCK - 1) / BLOCK, (n + BLOCK - 1) / BLOCK);

    cudaEvent_t begin, end;
    must(cudaEventCreate(&begin), "an event");
    must(cudaEventCreate(&end), "an event");
    MULTIPLY<<<grid, block>>>(a_there, b_there, c_there, n); /* warm-up, not timed */
    must(cudaMemset(c_there, 0xff, bytes), "clearing the product"); /* to NaN */
    must(cudaEventRecord(begin), "the first event");
    MULTIPLY<<<grid, block>>>(a_there, b_there, c_there, n);
    must(cudaGetLastError(), "the launch");
    must(cudaEventRecord(end), "the last event");
    must(cudaEventSynchronize(end), "the kernel");
    float elapsed_ms = 0.0f;
    must(cudaEventElapsedTime(&elapsed_ms, begin, end), "the time");

    must(cudaMemcpy(c.data(), c_there, bytes, cudaMemcpyDeviceToHost), "copying the product");
    double sum = 0.0;
    for (const float element : c) sum += element;
    std::printf("sum %.0f\nkernel %.6f ms\n", sum, elapsed_ms);
    if (!is_product(c, a, b, n)) {
        std::fprintf(stderr, "the product is wrong\n");
        return 1;
    }
    return 0;
}
