/* As much of CUDA's runtime as the example programs need, on the CPU, so that tests can run them
 * without a GPU. A thread of a block is a thread of the machine; blocks run one after another.
 * LAUNCH(kernel, grid, block, arguments...) stands for kernel<<<grid, block>>>(arguments...).
 *
 * With FAKE_CUDA_FLAW=1 in the environment, one bit of everything that is copied back is wrong. */
#pragma once

#include <barrier>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

using std::max;
using std::min;

#define __CUDACC__
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __restrict__

struct int4 {
    int x, y, z, w;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

inline dim3 gridDim;
inline thread_local dim3 blockIdx, threadIdx;
inline std::unique_ptr<std::barrier<>> block_barrier;
inline void __syncthreads() { block_barrier->arrive_and_wait(); }

template <class Kernel, class... Arguments>
void LAUNCH(Kernel kernel, dim3 grid, dim3 block, Arguments... arguments) {
    gridDim = grid;
    block_barrier = std::make_unique<std::barrier<>>(block.x * block.y);
    std::vector<std::thread> threads;
    for (unsigned y = 0; y < block.y; y++)
        for (unsigned x = 0; x < block.x; x++)
            threads.emplace_back([=] {
                threadIdx = dim3(x, y);
                for (unsigned row = 0; row < grid.y; row++)
                    for (unsigned column = 0; column < grid.x; column++) {
                        blockIdx = dim3(column, row);
                        kernel(arguments...);
                        __syncthreads();
                    }
            });
    for (std::thread &thread : threads) thread.join();
}

enum cudaError_t { cudaSuccess };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
typedef int cudaEvent_t;
inline const char *cudaGetErrorString(cudaError_t) { return "no error"; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
template <class T> cudaError_t cudaMalloc(T **there, size_t bytes) {
    *there = (T *)std::malloc(bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemset(void *there, int byte, size_t bytes) {
    std::memset(there, byte, bytes);
    return cudaSuccess;
}
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    std::memcpy(to, from, bytes);
    const char *flaw = std::getenv("FAKE_CUDA_FLAW");
    if (kind == cudaMemcpyDeviceToHost && flaw) ((unsigned char *)to)[bytes - 2] ^= 0x80;
    return cudaSuccess;
}
inline cudaError_t cudaEventCreate(cudaEvent_t *) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t, cudaEvent_t) {
    *milliseconds = 1.5f;
    return cudaSuccess;
}
