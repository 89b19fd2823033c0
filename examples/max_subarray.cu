/* Find the maximum sub-array with the kernels of kernels/max_subarray.cl. This program makes the
 * values, times both kernels and verifies the result with Kadane's scan.
 *
 *     max_subarray N
 *
 * prints the best sum and the time of both launches in milliseconds. It exits with 1 if the sum is
 * wrong or CUDA fails, and with 2 for wrong arguments. The launch has 32 blocks of 128 threads, as
 * published.
 */
#include <cstdio>
#include <cstdlib>
#include <vector>

#define BLOCK 128
#define BLOCKS 32
#include "../kernels/max_subarray.cl"

static const int kRecord = 4; /* total, best prefix, best suffix, best */

static void must(cudaError_t status, const char *what) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
}

/* Whole numbers from -15 to 15 without 0, equal on all machines. */
static std::vector<int> make_values(int n) {
    std::vector<int> values(n);
    unsigned state = 1;
    for (int &value : values) {
        state = state * 1664525u + 1013904223u;
        const int drawn = int((state >> 16) % 30) - 15;
        value = drawn >= 0 ? drawn + 1 : drawn;
    }
    return values;
}

static long long kadane(const std::vector<int> &values) {
    long long here = 0, best = 0;
    for (const int value : values) {
        here = here + value > 0 ? here + value : 0;
        best = here > best ? here : best;
    }
    return best;
}

static void launch_both(const int *values, int *partial, int *result, int n) {
    ranges<<<BLOCKS, BLOCK>>>(values, partial, n);
    finish<<<1, BLOCK>>>(partial, result, BLOCKS);
}

int main(int count, char **words) {
    const int n = count == 2 ? std::atoi(words[1]) : 0;
    if (n < 1) {
        std::fprintf(stderr, "usage: max_subarray N\n");
        return 2;
    }
    const std::vector<int> values = make_values(n);
    int *on_device = nullptr, *partial = nullptr, *result = nullptr;
    must(cudaMalloc(&on_device, sizeof(int) * values.size()), "memory for the values");
    must(cudaMalloc(&partial, sizeof(int) * kRecord * BLOCKS), "memory for the records");
    must(cudaMalloc(&result, sizeof(int) * kRecord), "memory for the result");
    must(cudaMemcpy(on_device, values.data(), sizeof(int) * values.size(),
                    cudaMemcpyHostToDevice), "copying the values");

    cudaEvent_t begin, end;
    must(cudaEventCreate(&begin), "an event");
    must(cudaEventCreate(&end), "an event");
    launch_both(on_device, partial, result, n); /* warm-up, not timed */
    must(cudaMemset(result, 0xff, sizeof(int) * kRecord), "clearing the result");
    must(cudaEventRecord(begin), "the first event");
    launch_both(on_device, partial, result, n);
    must(cudaGetLastError(), "the launches");
    must(cudaEventRecord(end), "the last event");
    must(cudaEventSynchronize(end), "the kernels");
    float elapsed_ms = 0.0f;
    must(cudaEventElapsedTime(&elapsed_ms, begin, end), "the time");

    int found[kRecord];
    must(cudaMemcpy(found, result, sizeof found, cudaMemcpyDeviceToHost), "copying the result");
    std::printf("best %d\nkernels %.6f ms\n", found[3], elapsed_ms);
    if (found[3] != kadane(values)) {
        std::fprintf(stderr, "wrong: %lld is right\n", kadane(values));
        return 1;
    }
    return 0;
}
