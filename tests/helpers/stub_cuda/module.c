/* Modules: what a cubin says of its kernels (see NVIDIA's cuobjdump --dump-elf), or PTX text. */
#include "stub.h"
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define MACHINE_CUDA 190
/* OS/ABI and ABI version of cubins: nvcc 13 writes the second pair. */
#define OLD_OSABI 0x33
#define NEW_OSABI 0x41

/* Records of .nv.info and .nv.info.KERNEL: format, attribute, and a value or a payload's size. */
#define WITH_PAYLOAD 0x04
#define LAUNCH_BOUNDS 0x05
#define PARAMETER 0x17
#define PARAMETER_SIZE_SHIFT 18
#define ARGUMENT_BYTES 0x19
#define REGISTER_COUNT 0x2f
#define RESERVED_SHARED 1024

struct CUmod_st {
    char *image;
    Function *functions;
};

static int is_ptx(const char *image)
{
    return !strncmp(image, ".version ", 9);
}

/* The parameters of a kernel in PTX text, of 64 bits each; NULL where it is not there. */
static const char *ptx_parameters(CUmodule module, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = module->image; (at = strstr(at, ".entry ")); at++)
        if (!strncmp(at + 7, name, length) && at[7 + length] == '(')
            return at + 7 + length;
    return NULL;
}

static void describe_ptx(CUmodule module, Function *function)
{
    const char *at = ptx_parameters(module, function->name), *end = strchr(at, ')');
    for (; (at = strstr(at, ".param .u64")) && at < end; at++)
        function->argument_bytes += 8;
    function->bound = MAX_THREADS;
    function->registers = 16;
}

static const Elf64_Ehdr *header(CUmodule module)
{
    return (const Elf64_Ehdr *)module->image;
}

static const Elf64_Shdr *section(CUmodule module, const char *prefix, const char *name)
{
    const Elf64_Shdr *all = (const void *)(module->image + header(module)->e_shoff);
    const char *names = module->image + all[header(module)->e_shstrndx].sh_offset;
    size_t length = strlen(prefix);
    for (int i = 0; i < header(module)->e_shnum; i++) {
        const char *found = names + all[i].sh_name;
        if (!strncmp(found, prefix, length) && !strcmp(found + length, name))
            return &all[i];
    }
    return NULL;
}

/* The record behind one; the first of a section for NULL, and NULL behind the last. */
static const char *next_record(CUmodule module, const Elf64_Shdr *info, const char *at)
{
    if (!info)
        return NULL;
    const char *begin = module->image + info->sh_offset;
    uint16_t value = 0;
    if (at)
        memcpy(&value, at + 2, 2);
    at = at ? at + 4 + (at[0] == WITH_PAYLOAD ? value : 0) : begin;
    return at < begin + info->sh_size ? at : NULL;
}

/* The first record with an attribute; with `symbol`, one whose payload starts with that index. */
static const char *record(CUmodule module, const Elf64_Shdr *info, int attribute, int symbol)
{
    for (const char *at = NULL; (at = next_record(module, info, at));) {
        uint32_t first = 0;
        if (at[0] == WITH_PAYLOAD)
            memcpy(&first, at + 4, 4);
        if (at[1] == attribute && (symbol < 0 || first == (uint32_t)symbol))
            return at;
    }
    return NULL;
}

static int symbol_named(CUmodule module, const char *name)
{
    const Elf64_Shdr *table = section(module, "", ".symtab");
    const Elf64_Shdr *strings = section(module, "", ".strtab");
    const Elf64_Sym *symbols = (const void *)(module->image + table->sh_offset);
    int found = 0;
    for (int i = 0; i < (int)(table->sh_size / sizeof *symbols); i++)
        if (ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC &&
            !strcmp(module->image + strings->sh_offset + symbols[i].st_name, name))
            found = i;
    return found;
}

static unsigned word(const char *record, int index)
{
    uint32_t value;
    memcpy(&value, record + 4 * index, 4);
    return value;
}

static unsigned short_value(const char *record)
{
    uint16_t value;
    memcpy(&value, record + 2, 2);
    return value;
}

static void describe(CUmodule module, Function *function)
{
    const Elf64_Shdr *info = section(module, ".nv.info.", function->name);
    const char *bytes = record(module, info, ARGUMENT_BYTES, -1);
    const char *bound = record(module, info, LAUNCH_BOUNDS, -1);
    const char *registers = record(module, section(module, "", ".nv.info"), REGISTER_COUNT,
                                   symbol_named(module, function->name));
    const Elf64_Shdr *shared = section(module, ".nv.shared.", function->name);
    function->argument_bytes = bytes ? short_value(bytes) : 0;
    function->bound = bound ? word(bound, 1) * word(bound, 2) * word(bound, 3) : MAX_THREADS;
    function->registers = registers ? word(registers, 2) : 0;
    function->shared_bytes = shared ? (unsigned)shared->sh_size - RESERVED_SHARED : 0;
    function->dynamic_bytes = SHARED_BYTES - function->shared_bytes;
    for (const char *at = NULL; (at = next_record(module, info, at));) {
        uint16_t number, offset;
        memcpy(&number, at + 8, 2);
        memcpy(&offset, at + 10, 2);
        if (at[1] != PARAMETER || number >= MOST_PARAMETERS)
            continue;
        function->places[number].offset = offset;
        function->places[number].bytes = (uint16_t)(word(at, 3) >> PARAMETER_SIZE_SHIFT);
        function->parameters++;
    }
}

/* Registers are given to warps by 256 at a time. */
static unsigned warp_registers_of(const Function *function)
{
    return (function->registers * 32 + 255) / 256 * 256;
}

unsigned most_threads(const Function *function)
{
    unsigned warp_registers = warp_registers_of(function);
    unsigned fit = warp_registers ? REGISTERS / warp_registers * 32 : MAX_THREADS;
    return fit < function->bound ? fit : function->bound;
}

/* The blocks that a multiprocessor holds; harness.measure.cuda.occupancy has the exact rules. */
unsigned blocks_at_once(const Function *function, unsigned threads, unsigned dynamic_bytes)
{
    unsigned warps = (threads + 31) / 32, bytes = function->shared_bytes + dynamic_bytes;
    unsigned registers = warp_registers_of(function) * warps, most = RESIDENT_BLOCKS;
    if (RESIDENT_THREADS / 32 / warps < most)
        most = RESIDENT_THREADS / 32 / warps;
    if (registers && REGISTERS / registers < most)
        most = REGISTERS / registers;
    if (bytes && OPT_IN_SHARED_BYTES / bytes < most)
        most = OPT_IN_SHARED_BYTES / bytes;
    return most;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction handle, int threads,
                                                     size_t dynamic_bytes)
{
    ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor", NEEDS_CONTEXT);
    if (threads < 1 || threads > MAX_THREADS)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = (int)blocks_at_once((const Function *)handle, (unsigned)threads,
                                  (unsigned)dynamic_bytes);
    return CUDA_SUCCESS;
}

static CUresult why_not(const unsigned char *image)
{
    if (memcmp(image, ELFMAG, SELFMAG) || image[EI_CLASS] != ELFCLASS64)
        return CUDA_ERROR_INVALID_IMAGE;
    if (image[EI_OSABI] != OLD_OSABI && image[EI_OSABI] != NEW_OSABI)
        return CUDA_ERROR_INVALID_IMAGE;
    const Elf64_Ehdr *cubin = (const void *)image;
    if (cubin->e_machine != MACHINE_CUDA)
        return CUDA_ERROR_INVALID_IMAGE;
    if (image[EI_OSABI] == NEW_OSABI && number("CUDA_STUB_DRIVER", CUDA_VERSION) < 13000)
        return CUDA_ERROR_INVALID_IMAGE;
    unsigned arch = (image[EI_OSABI] == NEW_OSABI ? cubin->e_flags >> 8 : cubin->e_flags) & 0xff;
    int here = current_capability();
    int runs = arch / 10 == here / 10 && arch % 10 <= here % 10;
    return runs ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count,
                            CUjit_option *options, void **values)
{
    for (unsigned i = 0; i < count; i++) /* nothing was written to the logs */
        if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
            options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            values[i] = 0;
    ENTER("cuModuleLoadData", NEEDS_CONTEXT);
    if (is_ptx(image)) {
        *module = calloc(1, sizeof **module);
        (*module)->image = strdup(image);
        return CUDA_SUCCESS;
    }
    CUresult error = why_not(image);
    if (error)
        return error;
    const Elf64_Ehdr *cubin = image;
    size_t sections_end = cubin->e_shoff + (size_t)cubin->e_shentsize * cubin->e_shnum;
    size_t segments_end = cubin->e_phoff + (size_t)cubin->e_phentsize * cubin->e_phnum;
    size_t size = sections_end > segments_end ? sections_end : segments_end;
    *module = calloc(1, sizeof **module);
    (*module)->image = malloc(size);
    memcpy((*module)->image, image, size);
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult cuModuleUnload(CUmodule module)
{
    ENTER("cuModuleUnload", NEEDS_CONTEXT);
    CUresult error = finish();
    while (module->functions) {
        Function *next = module->functions->next;
        free(module->functions);
        module->functions = next;
    }
    free(module->image);
    free(module);
    return error;
}

/* A variable gets its memory when it is first asked for, and keeps it. */
CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name)
{
    ENTER("cuModuleGetGlobal", NEEDS_CONTEXT);
    const Elf64_Shdr *table = section(module, "", ".symtab");
    const Elf64_Shdr *strings = section(module, "", ".strtab");
    const Elf64_Sym *symbols = (const void *)(module->image + table->sh_offset);
    for (size_t i = 0; i < table->sh_size / sizeof *symbols; i++)
        if (ELF64_ST_TYPE(symbols[i].st_info) == STT_OBJECT &&
            !strcmp(module->image + strings->sh_offset + symbols[i].st_name, name)) {
            *bytes = symbols[i].st_size;
            return make_variable(address, *bytes);
        }
    return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunction(CUfunction *handle, CUmodule module, const char *name)
{
    ENTER("cuModuleGetFunction", NEEDS_CONTEXT);
    int from_ptx = is_ptx(module->image);
    if (from_ptx ? !ptx_parameters(module, name) : !section(module, ".text.", name))
        return CUDA_ERROR_NOT_FOUND;
    if (!kernel_named(name))
        return not_modelled(name);
    Function *function = calloc(1, sizeof *function);
    strncpy(function->name, name, sizeof function->name - 1);
    (from_ptx ? describe_ptx : describe)(module, function);
    function->run = kernel_named(name);
    function->carveout = -1;
    function->next = module->functions;
    module->functions = function;
    *handle = (CUfunction)function;
    return CUDA_SUCCESS;
}

/* A function may have more dynamic shared memory than 48 KiB once this is called, or prefers a
 * percentage of shared memory. */
CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute asked, int value)
{
    ENTER("cuFuncSetAttribute", NEEDS_CONTEXT);
    Function *function = (Function *)handle;
    if (asked == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        function->carveout = value;
        return CUDA_SUCCESS;
    }
    if (asked != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return not_modelled("an attribute that cuFuncSetAttribute is to set");
    if (value < 0 || function->shared_bytes + (unsigned)value > OPT_IN_SHARED_BYTES)
        return CUDA_ERROR_INVALID_VALUE;
    function->dynamic_bytes = (unsigned)value;
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute asked, CUfunction handle)
{
    ENTER("cuFuncGetAttribute", NEEDS_CONTEXT);
    const Function *function = (const Function *)handle;
    switch (asked) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = (int)most_threads(function); break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = (int)function->registers; break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)function->shared_bytes; break;
    default: return not_modelled("an attribute that cuFuncGetAttribute is asked for");
    }
    return CUDA_SUCCESS;
}
