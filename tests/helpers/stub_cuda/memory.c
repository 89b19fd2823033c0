/* Device memory: the host's, with a record of each allocation. */
#include "stub.h"
#include <stdlib.h>
#include <string.h>

typedef struct Block {
    CUdeviceptr begin;
    size_t bytes;
    int on_host; /* page-locked: the device has the same address for it */
    struct Block *next;
} Block;
static Block *blocks;
static size_t used;

size_t cuda_stub_allocated_bytes(void)
{
    return used;
}

void *reach(CUdeviceptr address, size_t bytes)
{
    for (Block *block = blocks; block; block = block->next)
        if (address >= block->begin && address - block->begin <= block->bytes)
            return bytes <= block->bytes - (address - block->begin) ? (void *)address : NULL;
    return NULL;
}

static CUresult allocate(CUdeviceptr *address, size_t bytes, int on_host)
{
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    Block *block = malloc(sizeof *block);
    /* The gap behind each block belongs to none: one past the end is not the next one. */
    void *memory = aligned_alloc(256, (bytes + 511) / 256 * 256);
    if (!block || !memory) {
        free(block);
        free(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *block = (Block){(CUdeviceptr)memory, bytes, on_host, blocks};
    blocks = block;
    used += on_host ? 0 : bytes;
    *address = block->begin;
    return CUDA_SUCCESS;
}

static CUresult release(CUdeviceptr address, int on_host)
{
    CUresult error = finish();
    for (Block **link = &blocks; *link; link = &(*link)->next)
        if ((*link)->begin == address && (*link)->on_host == on_host) {
            Block *block = *link;
            *link = block->next;
            used -= on_host ? 0 : block->bytes;
            free((void *)block->begin);
            free(block);
            return error;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult make_variable(CUdeviceptr *address, size_t bytes)
{
    CUresult error = allocate(address, bytes, 0);
    if (!error)
        memset((void *)*address, 0, bytes);
    return error;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    ENTER("cuMemAlloc", NEEDS_CONTEXT);
    if (bytes > (size_t)number("CUDA_STUB_MEMORY", 80L << 30) - used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return allocate(address, bytes, 0);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    ENTER("cuMemFree", NEEDS_CONTEXT);
    return release(address, 0);
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    (void)flags;
    ENTER("cuMemHostAlloc", NEEDS_CONTEXT);
    return allocate((CUdeviceptr *)address, bytes, 1);
}

CUresult cuMemFreeHost(void *address)
{
    ENTER("cuMemFreeHost", NEEDS_CONTEXT);
    return release((CUdeviceptr)address, 1);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned flags)
{
    ENTER("cuMemHostGetDevicePointer", NEEDS_CONTEXT);
    *address = (CUdeviceptr)host;
    return flags || !reach(*address, 1) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    ENTER("cuMemGetInfo", NEEDS_CONTEXT);
    *total = (size_t)number("CUDA_STUB_MEMORY", 80L << 30);
    *unused = *total - used;
    return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    ENTER("cuMemcpyHtoD", NEEDS_CONTEXT);
    CUresult error = finish();
    void *memory = reach(to, bytes);
    if (error || !memory)
        return error ? error : CUDA_ERROR_INVALID_VALUE;
    memcpy(memory, from, bytes);
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    ENTER("cuMemcpyDtoH", NEEDS_CONTEXT);
    CUresult error = finish();
    void *memory = reach(from, bytes);
    if (error || !memory)
        return error ? error : CUDA_ERROR_INVALID_VALUE;
    memcpy(to, memory, bytes);
    return CUDA_SUCCESS;
}
