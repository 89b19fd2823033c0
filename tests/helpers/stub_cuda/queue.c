/* The device's queue and its clock. What is queued runs when the host next waits. */
#include "stub.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct CUevent_st {
    uint64_t at_ns;
    int recorded;
};

typedef struct {
    enum { LAUNCH, RECORD, SET, COPY } kind;
    uint64_t queued_ns;
    Function function; /* a copy: the module may be gone */
    unsigned grid[3], group[3];
    char *arguments;
    CUevent event;
    CUdeviceptr to, from;
    size_t bytes;
    int byte;
    uint64_t released_ns; /* when a waiting kernel was seen to be released; 0 before */
} Work;
static Work *queue;
static size_t queued, room;
static size_t waiter; /* the index, plus 1, of a kernel that waits for the host; or 0 */

static uint64_t free_ns; /* when the device has done what ran so far */
static long launches;    /* that ran */
static uint64_t clock_ns, clock_cycles;
static long mhz = FULL_MHZ;

void forget_queue(void)
{
    for (size_t i = 0; i < queued; i++)
        free(queue[i].arguments);
    queued = waiter = 0;
    free_ns = 0;
    launches = 0;
    mhz = FULL_MHZ;
}

/* ------------------------------------------------------------------ the kernel that waits

   The host releases it by a write to memory, which takes effect at the host's next call. */

typedef struct {
    CUdeviceptr words;
    uint64_t number, limit_ns;
} Wait;

static Wait wait_of(const Work *work)
{
    Wait wait;
    memcpy(&wait, work->arguments, sizeof wait);
    return wait;
}

static void note_release(void)
{
    if (!waiter)
        return;
    Wait wait = wait_of(&queue[waiter - 1]);
    const volatile uint64_t *words = reach(wait.words, 2 * sizeof *words);
    if (words && words[0] >= wait.number) {
        queue[waiter - 1].released_ns = now_ns();
        waiter = 0;
    }
}

CUresult wait_for_host(const uint64_t at_ns, const unsigned *grid, const unsigned *group,
                       const char *arguments)
{
    (void)at_ns, (void)grid, (void)group, (void)arguments;
    return not_modelled("wait_for_host, but by run_waiter");
}

static CUresult run_waiter(const Work *work, uint64_t start_ns, int64_t *took_ns)
{
    Wait wait = wait_of(work);
    volatile uint64_t *words = reach(wait.words, 2 * sizeof *words);
    if (!words)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    uint64_t end_ns = work->released_ns > start_ns ? work->released_ns : start_ns;
    if (!work->released_ns || end_ns - start_ns >= wait.limit_ns) {
        end_ns = start_ns + wait.limit_ns;
        words[1] = wait.number;
    }
    *took_ns = (int64_t)(end_ns - start_ns);
    return CUDA_SUCCESS;
}

static void append(Work work)
{
    note_release();
    if (queued == room) {
        room = room ? 2 * room : 64;
        queue = realloc(queue, room * sizeof *queue);
    }
    work.queued_ns = now_ns();
    queue[queued++] = work;
    if (work.kind == LAUNCH && work.function.run == wait_for_host)
        waiter = queued;
}

/* ------------------------------------------------------------------ the clock */

uint64_t cycles_at(uint64_t at_ns)
{
    if (at_ns > clock_ns) {
        clock_cycles += clock_ns ? (at_ns - clock_ns) * (uint64_t)mhz / 1000 : 0;
        clock_ns = at_ns;
    }
    return clock_cycles;
}

/* The n-th number of a list, or its last. */
static long nth(const char *variable, long n, long otherwise)
{
    const char *text = getenv(variable);
    for (; text && *text; text = strchr(text, ',')) {
        text += *text == ',';
        otherwise = atol(text);
        if (!n--)
            break;
    }
    return otherwise;
}

/* How long a kernel takes at its clock, by CUDA_STUB_KERNEL_NS; -1 where that does not say. */
static int64_t scripted_ns(const char *kernel)
{
    const char *text = getenv("CUDA_STUB_KERNEL_NS");
    size_t length = strlen(kernel);
    for (; text && *text; text = strchr(text, ',')) {
        text += *text == ',';
        int names_it = !strncmp(text, kernel, length) && text[length] == ':';
        if (names_it || (*text >= '0' && *text <= '9'))
            return atoll(names_it ? text + length + 1 : text) * FULL_MHZ / mhz;
    }
    return -1;
}

/* ------------------------------------------------------------------ the kernels that read clocks

   Each multiprocessor counts from a number of its own, and the time has ticks. */

typedef struct {
    CUdeviceptr rows;
    uint64_t most, least_ns; /* the last only of stop_clock */
} Stamp;

#define STAMP_LIMIT_NS 4000000
#define BETWEEN_MULTIPROCESSORS 1000003u

CUresult start_clock(const uint64_t at_ns, const unsigned *grid, const unsigned *group,
                     const char *arguments)
{
    (void)at_ns, (void)grid, (void)group, (void)arguments;
    return not_modelled("start_clock, but by run_stamper");
}

CUresult stop_clock(const uint64_t at_ns, const unsigned *grid, const unsigned *group,
                    const char *arguments)
{
    (void)at_ns, (void)grid, (void)group, (void)arguments;
    return not_modelled("stop_clock, but by run_stamper");
}

static CUresult run_stamper(const Work *work, uint64_t start_ns, int64_t *took_ns)
{
    int column = work->function.run == stop_clock ? 2 : 0;
    Stamp stamp = {0};
    memcpy(&stamp, work->arguments, work->function.argument_bytes);
    uint64_t(*rows)[4] = reach(stamp.rows, stamp.most * sizeof *rows);
    if (!rows)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    uint64_t tick = (uint64_t)number("CUDA_STUB_TICK_NS", 1), until_ns = start_ns;
    if (column && rows[0][1] + stamp.least_ns > until_ns)
        until_ns = rows[0][1] + stamp.least_ns;
    uint64_t stamp_ns = (until_ns / tick + (column ? 1 : 2)) * tick;
    uint64_t end_ns = column ? stamp_ns : start_ns + 2 * tick;
    int is_late = end_ns - start_ns > STAMP_LIMIT_NS;
    if (is_late)
        end_ns = start_ns + STAMP_LIMIT_NS;
    uint64_t cycles = is_late ? 0 : cycles_at(stamp_ns);
    for (uint64_t sm = 0; !is_late && sm < work->grid[0] && sm < stamp.most; sm++) {
        rows[sm][column] = cycles + sm * BETWEEN_MULTIPROCESSORS;
        rows[sm][column + 1] = stamp_ns;
    }
    *took_ns = (int64_t)(end_ns - start_ns);
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ running */

static CUresult run_kernel(const Work *work, uint64_t start_ns, int64_t *took_ns)
{
    cycles_at(start_ns);
    mhz = nth("CUDA_STUB_SM_MHZ", launches++, FULL_MHZ);
    CUresult error = planted("kernel");
    while (error == PLANTED_HANG)
        pause();
    uint64_t begin = now_ns();
    if (!error)
        error = work->function.run(start_ns, work->grid, work->group, work->arguments);
    *took_ns = scripted_ns(work->function.name);
    if (*took_ns < 0)
        *took_ns = (int64_t)(now_ns() - begin);
    return error;
}

static CUresult run_launch(const Work *work, uint64_t start_ns, int64_t *took_ns)
{
    Run *own = work->function.run;
    if (own == wait_for_host)
        return run_waiter(work, start_ns, took_ns);
    if (own == start_clock || own == stop_clock)
        return run_stamper(work, start_ns, took_ns);
    return run_kernel(work, start_ns, took_ns);
}

static CUresult run(const Work *work)
{
    uint64_t start_ns = work->queued_ns > free_ns ? work->queued_ns : free_ns;
    uint64_t begin = now_ns();
    int64_t took_ns = 0;
    CUresult error = CUDA_SUCCESS;
    switch (work->kind) {
    case LAUNCH: error = run_launch(work, start_ns, &took_ns); break;
    case RECORD: work->event->at_ns = start_ns; break;
    case SET: memset((void *)work->to, work->byte, work->bytes); break;
    case COPY: memmove((void *)work->to, (void *)work->from, work->bytes); break;
    }
    if (work->kind == SET || work->kind == COPY)
        took_ns = (int64_t)(now_ns() - begin);
    free_ns = start_ns + (uint64_t)took_ns;
    cycles_at(free_ns);
    return error;
}

CUresult finish(void)
{
    note_release();
    for (size_t i = 0; i < queued; i++) {
        CUresult error = run(&queue[i]);
        if (error) { /* spoils the context, and what comes after it never runs */
            spoil(error);
            forget_queue();
            return error;
        }
        free(queue[i].arguments);
        queue[i].arguments = NULL;
    }
    queued = waiter = 0;
    for (uint64_t now = now_ns(); now < free_ns; now = now_ns()) {
        uint64_t left = free_ns - now;
        nanosleep(&(struct timespec){(time_t)(left / 1000000000u), (long)(left % 1000000000u)},
                  NULL);
    }
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ launches */

/* PyCUDA passes all arguments as one buffer. */
static void find_arguments(void **extra, const char **arguments, size_t *bytes)
{
    for (; extra && *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            *arguments = extra[1];
        if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            *bytes = *(const size_t *)extra[1];
    }
}

static int within(const unsigned *sizes, const unsigned *most)
{
    for (int i = 0; i < 3; i++)
        if (!sizes[i] || sizes[i] > most[i])
            return 0;
    return 1;
}

static CUresult why_unlaunchable(const Function *function, const unsigned *grid,
                                 const unsigned *group, unsigned shared, size_t bytes)
{
    static const unsigned most_grid[] = {2147483647, 65535, 65535};
    static const unsigned most_group[] = {MAX_THREADS, MAX_THREADS, 64};
    unsigned threads = group[0] * group[1] * group[2];
    if (!within(grid, most_grid) || !within(group, most_group) || threads > MAX_THREADS)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes != function->argument_bytes || shared > function->dynamic_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    return threads > most_threads(function) ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES : CUDA_SUCCESS;
}

/* Arguments come in one piece, or as the addresses of each. */
static CUresult launch(const Function *function, const unsigned *grid, const unsigned *group,
                       unsigned shared, void **each, void **extra, int cooperative)
{
    const char *packed = NULL;
    size_t bytes = 0;
    find_arguments(extra, &packed, &bytes);
    if (each)
        bytes = function->argument_bytes;
    CUresult error = why_unlaunchable(function, grid, group, shared, bytes);
    if (error)
        return error;
    uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    unsigned threads = group[0] * group[1] * group[2];
    if (cooperative && blocks > MULTIPROCESSORS * blocks_at_once(function, threads, shared))
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    Work work = {.kind = LAUNCH, .function = *function};
    memcpy(work.grid, grid, sizeof work.grid);
    memcpy(work.group, group, sizeof work.group);
    work.arguments = calloc(1, bytes + 1);
    for (unsigned i = 0; each && i < function->parameters; i++)
        memcpy(work.arguments + function->places[i].offset, each[i], function->places[i].bytes);
    if (!each && bytes)
        memcpy(work.arguments, packed, bytes);
    append(work);
    return CUDA_SUCCESS;
}

static void trace_launch(const Function *function, const unsigned *grid, const unsigned *group,
                         unsigned shared, int cooperative)
{
    char dynamic[24] = "", carveout[24] = "";
    if (shared)
        snprintf(dynamic, sizeof dynamic, " shared %u", shared);
    if (function->carveout >= 0)
        snprintf(carveout, sizeof carveout, " carveout %d", function->carveout);
    trace("cuLaunchKernel %s grid %u %u %u group %u %u %u%s%s%s", function->name, grid[0], grid[1],
          grid[2], group[0], group[1], group[2], dynamic, carveout,
          cooperative ? " cooperative" : "");
}

CUresult cuLaunchKernel(CUfunction handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void **each,
                        void **extra)
{
    const unsigned grid[] = {gx, gy, gz}, group[] = {bx, by, bz};
    trace_launch((const Function *)handle, grid, group, shared, 0);
    ENTER("cuLaunchKernel", NEEDS_CONTEXT);
    if (stream)
        return not_modelled("a launch in a stream");
    return launch((const Function *)handle, grid, group, shared, each, extra, 0);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction handle, void **each,
                          void **extra)
{
    const unsigned grid[] = {config->gridDimX, config->gridDimY, config->gridDimZ};
    const unsigned group[] = {config->blockDimX, config->blockDimY, config->blockDimZ};
    int cooperative = config->numAttrs && config->attrs[0].value.cooperative;
    trace_launch((const Function *)handle, grid, group, config->sharedMemBytes, cooperative);
    ENTER("cuLaunchKernel", NEEDS_CONTEXT);
    if (config->hStream || config->numAttrs > 1 ||
        (cooperative && config->attrs[0].id != CU_LAUNCH_ATTRIBUTE_COOPERATIVE))
        return not_modelled("a launch in a stream, or with other attributes than cooperative");
    unsigned shared = config->sharedMemBytes;
    return launch((const Function *)handle, grid, group, shared, each, extra, cooperative);
}

/* PyCUDA sets the shape before each launch, which passes it again. */
CUresult cuFuncSetBlockShape(CUfunction handle, int x, int y, int z)
{
    (void)handle;
    ENTER("cuFuncSetBlockShape", NEEDS_CONTEXT);
    return x < 1 || y < 1 || z < 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char byte, size_t bytes, CUstream stream)
{
    ENTER("cuMemsetD8Async", NEEDS_CONTEXT);
    if (stream)
        return not_modelled("cuMemsetD8Async in a stream");
    if (!reach(to, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    append((Work){.kind = SET, .to = to, .byte = byte, .bytes = bytes});
    return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    ENTER("cuMemcpyDtoD", NEEDS_CONTEXT);
    if (!reach(to, bytes) || !reach(from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    append((Work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
    return CUDA_SUCCESS;
}

/* ------------------------------------------------------------------ events */

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    ENTER("cuEventCreate", NEEDS_CONTEXT);
    *event = calloc(1, sizeof **event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    ENTER("cuEventDestroy", NEEDS_CONTEXT);
    CUresult error = finish(); /* it may be in the queue */
    free(event);
    return error;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    ENTER("cuEventRecord", NEEDS_CONTEXT);
    if (stream)
        return not_modelled("cuEventRecord in a stream");
    event->recorded = 1;
    append((Work){.kind = RECORD, .event = event});
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
    (void)event;
    ENTER("cuEventSynchronize", NEEDS_CONTEXT);
    return finish();
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent stop)
{
    ENTER("cuEventElapsedTime", NEEDS_CONTEXT);
    if (!start->recorded || !stop->recorded)
        return CUDA_ERROR_INVALID_HANDLE;
    if (queued)
        return CUDA_ERROR_NOT_READY;
    uint64_t tick = (uint64_t)number("CUDA_STUB_TICK_NS", 1);
    double ticks = (double)(stop->at_ns / tick) - (double)(start->at_ns / tick);
    *milliseconds = (float)(ticks * (double)tick * 1e-6);
    return CUDA_SUCCESS;
}

/* PyCUDA that was built with CUDA 13 calls it by this name. */
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent stop)
{
    return cuEventElapsedTime(milliseconds, start, stop);
}
