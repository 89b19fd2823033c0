/* A stand-in for NVIDIA's driver, libcuda.so.1, on a machine without a GPU.
 *
 * It has one primary context a device, one queue in order, and memory of the host. Kernels are
 * functions of kernels.c, found by the name of a kernel in a real cubin or in PTX text. Checks and
 * error codes are the driver's. A call that is not modelled prints its name and returns CUDA_ERROR_NOT_SUPPORTED.
 *
 * Environment variables, read at every call:
 *
 *   CUDA_STUB_DEVICES=2          how many devices there are (1)
 *   CUDA_STUB_NAMES=A100,T4      the names of devices 0, 1, ...; the last one stays (Stand-in GPU)
 *   CUDA_STUB_ARCHS=90,75        their compute capabilities; the last one stays (90)
 *   CUDA_STUB_UUIDS=ab,cd        the bytes, in hexadecimal, that their UUIDs repeat before a last
 *                                byte, the device's number; the last one stays (ab)
 *   CUDA_STUB_MIG=1              devices are instances of a GPU whose UUID ends with ff
 *   CUDA_STUB_DRIVER=12040       the version of the driver (that of cuda.h)
 *   CUDA_STUB_MEMORY=BYTES       the memory of a device (80 GiB)
 *   CUDA_STUB_FAIL=RULE,...      CALL@N:CODE fails the N-th call with an error code of cuda.h;
 *                                CALL@N+:CODE also those after it; CALL@N:CODE! with an error
 *                                that every later call of any name repeats.
 *                                kernel@N:CODE fails the N-th kernel while it runs, for good;
 *                                kernel@N:hang never ends. CALL has no version: cuMemAlloc@1:2
 *                                Each process counts for itself
 *   CUDA_STUB_ONCE=FILE          only one failure in all processes: that which creates this file
 *   CUDA_STUB_KERNEL_NS=NS       how long each kernel takes at 1980 MHz; NAME:NS,... for some
 *                                kernels. Without, the time of the function on the host
 *   CUDA_STUB_TICK_NS=1024       the resolution of events and of globaltimer (1)
 *   CUDA_STUB_SM_MHZ=1980,990    the SM clock in the first launch, the second, ...; the last stays.
 *                                Seen by clock64, and slows kernels with CUDA_STUB_KERNEL_NS
 *   CUDA_STUB_TRACE=FILE         each call is appended to this file, one a line
 *
 * Time: what is queued starts when it was queued or when the device is free, whichever is later.
 * So the time between two events holds the host's delay exactly where a GPU's would.
 *
 * One thread at a time.
 */
#ifndef STUB_H
#define STUB_H

#define _GNU_SOURCE
/* Declare every version of a call, and rename none. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#define FULL_MHZ 1980
#define MULTIPROCESSORS 132
#define MOST_PARAMETERS 16
#define MAX_THREADS 1024
#define RESIDENT_THREADS 2048
#define RESIDENT_BLOCKS 32
#define SHARED_BYTES 49152
#define OPT_IN_SHARED_BYTES 232448
#define REGISTERS 65536

/* Return from a call that must fail: planted failures, no cuInit, no context, a spoiled one. */
#define ENTER(call, needs)                                                                         \
    do {                                                                                           \
        CUresult entered = enter(call, needs);                                                     \
        if (entered)                                                                               \
            return entered;                                                                        \
    } while (0)
enum { NEEDS_NOTHING, NEEDS_INIT, NEEDS_CONTEXT };
CUresult enter(const char *call, int needs);

/* driver.c */
uint64_t now_ns(void);
long number(const char *variable, long otherwise);
CUresult planted(const char *call); /* the error for this call; PLANTED_HANG for one that hangs */
void spoil(CUresult error);         /* every later call fails with it */
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
int current_capability(void); /* of the current context's device: 90 */
CUresult not_modelled(const char *what);
#define PLANTED_HANG ((CUresult)-1)

/* memory.c */
CUresult make_variable(CUdeviceptr *address, size_t bytes);
void *reach(CUdeviceptr address, size_t bytes); /* NULL unless within one allocation */

/* module.c: what a cubin says of a kernel */
typedef CUresult Run(const uint64_t at_ns, const unsigned *grid, const unsigned *group,
                     const char *arguments);
typedef struct Function {
    char name[128];
    unsigned registers, bound, shared_bytes, argument_bytes, parameters;
    struct {
        uint16_t offset, bytes;
    } places[MOST_PARAMETERS]; /* of a cubin's parameters, by number */
    unsigned dynamic_bytes; /* the most dynamic shared memory that a launch may have */
    int carveout;           /* the preferred percentage of shared memory, -1 for the driver's */
    Run *run;
    struct Function *next;
} Function;
unsigned most_threads(const Function *function);
unsigned blocks_at_once(const Function *function, unsigned threads, unsigned dynamic_bytes);

/* kernels.c */
Run *kernel_named(const char *name);

/* queue.c */
CUresult finish(void); /* run what is queued, and wait for it */
void forget_queue(void);
/* Kernels of harness's own: not counted, and no variable sets their time. */
Run wait_for_host, start_clock, stop_clock;
uint64_t cycles_at(uint64_t at_ns);

#endif
