/* Device memory: the host's, with a record of each allocation. */
#include "stub.h"
#include <stdlib.h>
#include <string.h>

typedef struct Block {
    CUdeviceptr begin;
    size_t bytes;
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

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    ENTER("cuMemAlloc", NEEDS_CONTEXT);
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > (size_t)number("CUDA_STUB_MEMORY", 80L << 30) - used)
        return CUDA_ERROR_OUT_OF_MEMORY;
    Block *block = malloc(sizeof *block);
    /* The gap behind each block belongs to none: one past the end is not the next one. */
    void *memory = aligned_alloc(256, (bytes + 511) / 256 * 256);
    if (!block || !memory) {
        free(block);
        free(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *block = (Block){(CUdeviceptr)memory, bytes, blocks};
    blocks = block;
    used += bytes;
    *address = block->begin;
    return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    ENTER("cuMemFree", NEEDS_CONTEXT);
    CUresult error = finish();
    for (Block **link = &blocks; *link; link = &(*link)->next)
        if ((*link)->begin == address) {
            Block *block = *link;
            *link = block->next;
            used -= block->bytes;
            free((void *)block->begin);
            free(block);
            return error;
        }
    return CUDA_ERROR_INVALID_VALUE;
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
