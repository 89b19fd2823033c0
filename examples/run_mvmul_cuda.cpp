// Choose a configuration by the size of the input, and launch its cubin: the program of
// docs/tutorial/from_results_to_cpp.md.
#include <cuda.h>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>
#include "mvmul.h"

static void check(CUresult result, const char *call)
{
    if (result != CUDA_SUCCESS) {
        std::fprintf(stderr, "%s failed: %d\n", call, result);
        std::exit(1);
    }
}
#define CHECK(call) check(call, #call)

int main()
{
    CUdevice device;
    CUcontext context;
    char name[256];
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxPushCurrent(context));

    int m = 1024, n = 1024;
    bool is_tuned_device = std::string(name) == MVMUL_DEVICE;
    int chosen = is_tuned_device ? mvmul_select(m, n) : mvmul_fallback(m, n);
    size_t block[MVMUL_DIMENSIONS], grid[MVMUL_DIMENSIONS];
    if (chosen < 0 || mvmul_launch(chosen, m, n, block, grid) != 0)
        return 1;

    CUmodule module;
    CUfunction kernel;
    std::ifstream file(std::string("out/") + mvmul_kernels[chosen].file, std::ios::binary);
    std::string cubin{std::istreambuf_iterator<char>(file), {}};
    CHECK(cuModuleLoadData(&module, cubin.data()));
    CHECK(cuModuleGetFunction(&kernel, module, "mvmul"));

    std::vector<float> A(m * n, 1), x(n, 1), y(m);
    CUdeviceptr dA, dx, dy;
    CHECK(cuMemAlloc(&dA, A.size() * sizeof(float)));
    CHECK(cuMemAlloc(&dx, x.size() * sizeof(float)));
    CHECK(cuMemAlloc(&dy, y.size() * sizeof(float)));
    CHECK(cuMemcpyHtoD(dA, A.data(), A.size() * sizeof(float)));
    CHECK(cuMemcpyHtoD(dx, x.data(), x.size() * sizeof(float)));
    void *arguments[] = {&dA, &dx, &dy, &m, &n};
    CHECK(cuLaunchKernel(kernel, grid[0], 1, 1, block[0], 1, 1, 0, nullptr, arguments, nullptr));
    CHECK(cuMemcpyDtoH(y.data(), dy, y.size() * sizeof(float)));
    const mvmul_config &config = mvmul_portfolio[chosen];
    std::printf("BLOCK=%d LANES=%d: y[0] = %g\n", config.BLOCK, config.LANES, y[0]);
}
