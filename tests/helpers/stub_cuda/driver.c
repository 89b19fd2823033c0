/* Initialisation, devices, contexts, and failures on request. */
#include "stub.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int initialised;
static CUresult spoiled;

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

long number(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? atol(text) : otherwise;
}

/* Copy the n-th word of a list with commas; its last word where there are fewer. */
static void word_of(const char *variable, const char *otherwise, int n, char *word, size_t size)
{
    const char *text = getenv(variable);
    text = text && *text ? text : otherwise;
    for (const char *comma; n > 0 && (comma = strchr(text, ',')); n--)
        text = comma + 1;
    snprintf(word, size, "%.*s", (int)strcspn(text, ","), text);
}

void trace(const char *format, ...)
{
    const char *path = getenv("CUDA_STUB_TRACE");
    FILE *file = path && *path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    va_list values;
    va_start(values, format);
    vfprintf(file, format, values);
    va_end(values);
    fputc('\n', file);
    fclose(file);
}

CUresult not_modelled(const char *what)
{
    fprintf(stderr, "the stand-in for libcuda.so.1 does not model %s\n", what);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* ------------------------------------------------------------------ failures on request */

typedef struct {
    char call[64];
    long nth, seen;
    CUresult error;
    int stays, onwards;
} Rule;
static Rule rules[16];
static int rule_count;
static char *read_rules;

static void read_rule(const char *text)
{
    Rule rule = {0};
    char nth[16] = "", code[16] = "";
    if (rule_count == 16 || sscanf(text, "%63[^@]@%15[^:]:%15s", rule.call, nth, code) != 3) {
        fprintf(stderr, "CUDA_STUB_FAIL: expected CALL@N:CODE, but got %s\n", text);
        abort();
    }
    rule.nth = atol(nth);
    rule.onwards = strchr(nth, '+') != NULL;
    rule.error = strcmp(code, "hang") ? (CUresult)atoi(code) : PLANTED_HANG;
    rule.stays = strchr(code, '!') != NULL;
    rules[rule_count++] = rule;
}

static void read_all_rules(void)
{
    const char *text = getenv("CUDA_STUB_FAIL");
    text = text ? text : "";
    if (read_rules && !strcmp(read_rules, text))
        return;
    free(read_rules);
    read_rules = strdup(text);
    rule_count = 0;
    char *rest, *copy = strdup(text);
    for (char *rule = strtok_r(copy, ",", &rest); rule; rule = strtok_r(NULL, ",", &rest))
        read_rule(rule);
    free(copy);
}

void spoil(CUresult error)
{
    spoiled = error;
}

/* With CUDA_STUB_ONCE, only the process that creates its file has a failure. */
static int may_fail(void)
{
    const char *path = getenv("CUDA_STUB_ONCE");
    int file = path && *path ? open(path, O_CREAT | O_EXCL | O_WRONLY, 0600) : -1;
    if (file >= 0)
        close(file);
    return file >= 0 || !path || !*path;
}

static int is_due(Rule *rule, const char *call)
{
    if (strcmp(rule->call, call))
        return 0;
    rule->seen++;
    return (rule->onwards ? rule->seen >= rule->nth : rule->seen == rule->nth) && may_fail();
}

CUresult planted(const char *call)
{
    read_all_rules();
    for (Rule *rule = rules; rule < rules + rule_count; rule++)
        if (is_due(rule, call)) {
            if (rule->stays)
                spoil(rule->error);
            return rule->error;
        }
    return CUDA_SUCCESS;
}

/* Forget failures, and what is queued: the next test finds a device that works. */
void cuda_stub_reset(void)
{
    spoiled = CUDA_SUCCESS;
    free(read_rules);
    read_rules = NULL;
    forget_queue();
}

/* ------------------------------------------------------------------ contexts */

/* PyCUDA leaves a context on the driver's stack for each primary one that it detaches from. */
#define DEEPEST 65536

struct CUctx_st {
    CUdevice device;
    int retained;
};
static struct CUctx_st primary[16];
static CUcontext current[DEEPEST];
static int depth;

CUresult enter(const char *call, int needs)
{
    if (strcmp(call, "cuLaunchKernel"))
        trace("%s", call);
    CUresult error = planted(call);
    if (error)
        return error;
    if (needs >= NEEDS_INIT && !initialised)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (needs == NEEDS_CONTEXT && !depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (needs == NEEDS_CONTEXT && !current[depth - 1]->retained)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return needs == NEEDS_CONTEXT ? spoiled : CUDA_SUCCESS;
}

static int no_device(CUdevice device)
{
    return device < 0 || device >= number("CUDA_STUB_DEVICES", 1);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    ENTER("cuDevicePrimaryCtxRetain", NEEDS_INIT);
    if (no_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    primary[device].device = device;
    primary[device].retained++;
    *context = &primary[device];
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    ENTER("cuDevicePrimaryCtxRelease", NEEDS_INIT);
    if (no_device(device) || !primary[device].retained)
        return CUDA_ERROR_INVALID_CONTEXT;
    primary[device].retained--;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    ENTER("cuCtxPushCurrent", NEEDS_INIT);
    if (!context || depth == DEEPEST)
        return CUDA_ERROR_INVALID_CONTEXT;
    current[depth++] = context;
    return CUDA_SUCCESS;
}

/* Succeeds in a spoiled context too: otherwise nothing could leave it. */
CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    ENTER("cuCtxPopCurrent", NEEDS_INIT);
    if (!depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (context)
        *context = current[depth];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    ENTER("cuCtxGetDevice", NEEDS_CONTEXT);
    *device = current[depth - 1]->device;
    return CUDA_SUCCESS;
}

/* Only cuCtxCreate makes contexts that this call destroys. */
CUresult cuCtxDetach(CUcontext context)
{
    (void)context;
    ENTER("cuCtxDetach", NEEDS_INIT);
    return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxSynchronize(void)
{
    ENTER("cuCtxSynchronize", NEEDS_CONTEXT);
    return finish();
}

/* ------------------------------------------------------------------ driver and devices */

CUresult cuInit(unsigned flags)
{
    ENTER("cuInit", NEEDS_NOTHING);
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (!number("CUDA_STUB_DEVICES", 1))
        return CUDA_ERROR_NO_DEVICE;
    initialised = 1;
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    ENTER("cuDriverGetVersion", NEEDS_NOTHING);
    *version = (int)number("CUDA_STUB_DRIVER", CUDA_VERSION);
    return CUDA_SUCCESS;
}

/* cuda-bindings asks for every call by its name without a version, and with the CUDA version that
 * it was made for. There is one version of each call here: the newest that is modelled. */
CUresult cuGetProcAddress_v2(const char *name, void **address, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *found)
{
    (void)flags;
    static const char *const suffixes[] = {"_v3", "_v2", ""};
    static void *self;
    Dl_info own;
    if (!self && dladdr((void *)cuGetProcAddress_v2, &own))
        self = dlopen(own.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    *address = NULL;
    if (version > number("CUDA_STUB_DRIVER", CUDA_VERSION))
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; self && i < 3 && !*address; i++) {
        char symbol[128];
        snprintf(symbol, sizeof symbol, "%s%s", name, suffixes[i]);
        *address = dlsym(self, symbol);
    }
    if (found)
        *found = *address ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
}

#define NAMED(code, text)                                                                          \
    case code:                                                                                     \
        *name = #code;                                                                             \
        *meaning = text;                                                                           \
        return CUDA_SUCCESS;
static CUresult described(CUresult error, const char **name, const char **meaning)
{
    switch (error) {
        NAMED(CUDA_SUCCESS, "no error")
        NAMED(CUDA_ERROR_INVALID_VALUE, "invalid argument")
        NAMED(CUDA_ERROR_OUT_OF_MEMORY, "out of memory")
        NAMED(CUDA_ERROR_NOT_INITIALIZED, "initialization error")
        NAMED(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")
        NAMED(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")
        NAMED(CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")
        NAMED(CUDA_ERROR_INVALID_CONTEXT, "invalid device context")
        NAMED(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device")
        NAMED(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "PTX JIT compiler library not found")
        NAMED(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain.")
        NAMED(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")
        NAMED(CUDA_ERROR_NOT_FOUND, "named symbol not found")
        NAMED(CUDA_ERROR_NOT_READY, "device not ready")
        NAMED(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")
        NAMED(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")
        NAMED(CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated")
        NAMED(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed")
        NAMED(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address")
        NAMED(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")
        NAMED(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks in cooperative launch")
        NAMED(CUDA_ERROR_NOT_SUPPORTED, "operation not supported")
        NAMED(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver combination")
        NAMED(CUDA_ERROR_UNKNOWN, "unknown error")
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    const char *meaning;
    return described(error, name, &meaning);
}

CUresult cuGetErrorString(CUresult error, const char **meaning)
{
    const char *name;
    return described(error, &name, meaning);
}

CUresult cuDeviceGetCount(int *count)
{
    ENTER("cuDeviceGetCount", NEEDS_INIT);
    *count = (int)number("CUDA_STUB_DEVICES", 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    ENTER("cuDeviceGet", NEEDS_INIT);
    if (no_device(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    ENTER("cuDeviceGetName", NEEDS_INIT);
    if (no_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    word_of("CUDA_STUB_NAMES", "Stand-in GPU", device, name, (size_t)size);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int size, CUdevice device)
{
    ENTER("cuDeviceGetPCIBusId", NEEDS_INIT);
    if (no_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(id, (size_t)size, "0000:%02X:00.0", 0x1b + device);
    return CUDA_SUCCESS;
}

static CUresult uuid_of(CUuuid *uuid, CUdevice device, int last)
{
    char byte[8];
    if (no_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    word_of("CUDA_STUB_UUIDS", "ab", device, byte, sizeof byte);
    memset(uuid->bytes, (int)strtol(byte, NULL, 16), sizeof uuid->bytes);
    uuid->bytes[15] = (char)last;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    ENTER("cuDeviceGetUuid", NEEDS_INIT);
    return uuid_of(uuid, device, number("CUDA_STUB_MIG", 0) ? 0xff : device);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    ENTER("cuDeviceGetUuid_v2", NEEDS_INIT);
    return uuid_of(uuid, device, device);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    ENTER("cuDeviceTotalMem", NEEDS_INIT);
    if (no_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = (size_t)number("CUDA_STUB_MEMORY", 80L << 30);
    return CUDA_SUCCESS;
}

static int capability(CUdevice device)
{
    char word[8];
    word_of("CUDA_STUB_ARCHS", "90", device, word, sizeof word);
    return atoi(word);
}

int current_capability(void)
{
    return capability(current[depth - 1]->device);
}

/* As of an H100. */
static long attribute(CUdevice_attribute asked, CUdevice device)
{
    switch (asked) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: return MAX_THREADS;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: return 64;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: return 2147483647;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: return 65535;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: return SHARED_BYTES;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: return OPT_IN_SHARED_BYTES;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: return 32;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: return MULTIPROCESSORS;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: return 1;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: return FULL_MHZ * 1000L;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: return 2619000;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: return 50L << 20;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: return capability(device) / 10;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: return capability(device) % 10;
    default: return -1;
    }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute asked, CUdevice device)
{
    ENTER("cuDeviceGetAttribute", NEEDS_INIT);
    if (no_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    long found = attribute(asked, device);
    if (found < 0)
        return not_modelled("an attribute that cuDeviceGetAttribute is asked for");
    *value = (int)found;
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
    ENTER("cuDeviceComputeCapability", NEEDS_INIT);
    if (no_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *major = capability(device) / 10;
    *minor = capability(device) % 10;
    return CUDA_SUCCESS;
}
