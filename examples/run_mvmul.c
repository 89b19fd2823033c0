/* Compute y = A x from C with OpenCL, in the configuration for its shape.
 *
 *     python -m harness dispatch results/mvmul.db -o out/
 *     cc -std=c99 -Iout examples/run_mvmul.c -lOpenCL -o run_mvmul     (needs OpenCL's headers)
 *     ./run_mvmul out/ 4096 512
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mvmul.h"

static void check(cl_int status, const char *what) {
    if (status != CL_SUCCESS) {
        const char *why = status == -1001 ? " (no driver was found: see OCL_ICD_VENDORS)" : "";
        fprintf(stderr, "%s: OpenCL error %d%s\n", what, (int)status, why);
        exit(1);
    }
}

/* Read a whole file and end it with a zero. */
static char *read_file(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    const long size = ftell(file);
    char *text = (char *)calloc((size_t)size + 1, 1);
    rewind(file);
    if (!text || fread(text, 1, (size_t)size, file) != (size_t)size) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(1);
    }
    fclose(file);
    return text;
}

/* Whether this is the tuned device; the learnt choice holds only there. */
static int is_tuned(cl_platform_id platform, cl_device_id device) {
    char platform_name[1024], name[1024], shown[1100];
    cl_uint units;
    check(clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof platform_name, platform_name, NULL),
          "platform name");
    check(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL), "device name");
    check(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL), "units");
    snprintf(shown, sizeof shown, "%s, %u compute units", name, units);
    return strcmp(platform_name, MVMUL_PLATFORM) == 0 &&
           strncmp(shown, MVMUL_DEVICE, strlen(shown)) == 0;
}

static cl_mem buffer(cl_context context, cl_mem_flags flags, size_t count, float *content) {
    cl_int status;
    cl_mem made = clCreateBuffer(context, flags, count * sizeof(float), content, &status);
    check(status, "buffer");
    return made;
}

int main(int count, char **words) {
    if (count != 4) {
        fprintf(stderr, "usage: %s FOLDER ROWS COLUMNS\n", words[0]);
        return 2;
    }
    const cl_int m = atoi(words[2]), n = atoi(words[3]);
    const size_t rows = (size_t)m, columns = (size_t)n;
    cl_platform_id platform;
    cl_device_id device;
    cl_int status;
    check(clGetPlatformIDs(1, &platform, NULL), "platform");
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "device");

    /* Choose the configuration. */
    const int chosen = is_tuned(platform, device) ? mvmul_select(m, n) : mvmul_fallback(m, n);
    size_t group[MVMUL_DIMENSIONS], grid[MVMUL_DIMENSIONS], size[MVMUL_DIMENSIONS];
    if (chosen < 0 || mvmul_launch(chosen, m, n, group, grid) != 0) {
        fprintf(stderr, "no configuration applies to %d x %d\n", m, n);
        return 1;
    }
    for (int i = 0; i < MVMUL_DIMENSIONS; i++) size[i] = group[i] * grid[i];
    printf("%d x %d: configuration %d%s\n", m, n, chosen, is_tuned(platform, device) ? "" : " (fallback)");

    /* Build its kernel. */
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    check(status, "context");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    check(status, "queue");
    char *source = read_file(words[1], mvmul_kernels[chosen].file);
    cl_program program = clCreateProgramWithSource(context, 1, (const char **)&source, NULL, &status);
    check(status, "program");
    check(clBuildProgram(program, 1, &device, mvmul_kernels[chosen].options, NULL, NULL), "build");
    cl_kernel kernel = clCreateKernel(program, "mvmul", &status);
    check(status, "kernel");

    /* Multiply ones, so that every element of y is n. */
    float *ones = (float *)malloc(rows * columns * sizeof(float));
    float *found = (float *)malloc(rows * sizeof(float));
    if (!ones || !found) return 1;
    for (size_t i = 0; i < rows * columns; i++) ones[i] = 1.0f;
    cl_mem a = buffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, rows * columns, ones);
    cl_mem x = buffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, columns, ones);
    cl_mem y = buffer(context, CL_MEM_WRITE_ONLY, rows, NULL);
    check(clSetKernelArg(kernel, 0, sizeof a, &a), "A");
    check(clSetKernelArg(kernel, 1, sizeof x, &x), "x");
    check(clSetKernelArg(kernel, 2, sizeof y, &y), "y");
    check(clSetKernelArg(kernel, 3, sizeof m, &m), "m");
    check(clSetKernelArg(kernel, 4, sizeof n, &n), "n");

    check(clEnqueueNDRangeKernel(queue, kernel, MVMUL_DIMENSIONS, NULL, size, group, 0, NULL, NULL),
          "launch");
    check(clEnqueueReadBuffer(queue, y, CL_TRUE, 0, rows * sizeof(float), found, 0, NULL, NULL),
          "result");
    int wrong = 0;
    for (size_t i = 0; i < rows; i++) wrong += found[i] != (float)n;
    printf("%d of %d elements are wrong\n", wrong, m);

    clReleaseMemObject(a);
    clReleaseMemObject(x);
    clReleaseMemObject(y);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    free(source);
    free(ones);
    free(found);
    return wrong != 0;
}
