/* One kernel source for OpenCL C and CUDA C++.
 *
 * A kernel written with these words, and with nothing that only one of the two
 * languages has, compiles as OpenCL C 1.2 and, under `nvcc -x cu`, as CUDA C++:
 *
 *     #include "portable.h"
 *     #ifndef BLOCK
 *     #define BLOCK 64
 *     #endif
 *     KERNEL_SIZED(BLOCK, 1, 1) scale(GLOBAL const float *RESTRICT x, GLOBAL float *y, int n) {
 *         LOCAL float tile[BLOCK];
 *         const int i = BLOCK_X * BLOCK + THREAD_X;
 *         tile[THREAD_X] = i < n ? x[i] : 0.0f;
 *         BARRIER();
 *         if (i < n) y[i] = 2.0f * tile[THREAD_X];
 *     }
 *
 * Rules that keep a source portable: tuned parameters are macros with defaults; local
 * arrays stand at the top level of the kernel; every thread reaches every barrier (guard
 * the tail of the data, never return early); no double literals (1.0f, not 1.0); vectors
 * are read by component; flags are int; names avoid the words that OpenCL C reserves and C++
 * does not (half, global, local, constant, kernel).
 *
 * A block is OpenCL's work-group, a thread its work-item; LOCAL is CUDA's shared memory.
 */
#ifndef PORTABLE_H
#define PORTABLE_H

/* UNROLL(4), or UNROLL(NAME) where NAME is a macro, above a loop; UNROLL(1) forbids it,
 * and also what the compiler would have unrolled by itself: no UNROLL leaves it the choice.
 * The detour through _Pragma exists because nvcc leaves macros in `#pragma` lines alone. */
#define PORTABLE_PRAGMA(text) _Pragma(#text)
#define UNROLL(times) PORTABLE_PRAGMA(unroll times)

#ifdef __CUDACC__ /* ---------------------------------------------------------- CUDA C++ */

/* KERNEL_SIZED also promises the block's size: a compiler that knows it can hold its
 * registers to what such a block may have. nvcc then ignores -maxrregcount: a kernel for
 * which that is tuned is a KERNEL. */
#define KERNEL extern "C" __global__ void
#define KERNEL_SIZED(x, y, z) KERNEL __launch_bounds__((x) * (y) * (z))
#define DEVICE static __device__ __forceinline__

/* Address spaces. LOCAL declares an array; LOCAL_POINTER qualifies what a pointer to one
 * points to, as GLOBAL does for arguments (CUDA's pointers carry no address space). */
#define GLOBAL
#define LOCAL __shared__
#define LOCAL_POINTER
#define RESTRICT __restrict__
#define ALIGNED(bytes) __align__(bytes)

/* Where a thread stands. All are int, so that index arithmetic is signed. */
#define THREAD_X ((int)threadIdx.x)
#define THREAD_Y ((int)threadIdx.y)
#define THREAD_Z ((int)threadIdx.z)
#define BLOCK_X ((int)blockIdx.x)
#define BLOCK_Y ((int)blockIdx.y)
#define BLOCK_Z ((int)blockIdx.z)
#define GRID_X ((int)gridDim.x)
#define GRID_Y ((int)gridDim.y)
#define GRID_Z ((int)gridDim.z)

/* Waits for the whole block, and makes its writes, local and global, visible to it. */
#define BARRIER() __syncthreads()

/* LOAD4(p, i) is the i-th group of four floats; p must be aligned to 16 bytes. The two
 * spaces need two words, since C has no overloading for OpenCL's address spaces. */
#define FLOAT4(x, y, z, w) make_float4(x, y, z, w)
#define LOAD4(pointer, i) (((const float4 *)(pointer))[i])
#define LOAD4_LOCAL(pointer, i) (((const float4 *)(pointer))[i])
/* The device's own approximation of 1 / sqrt(x), as accurate as the device makes it. */
#define RSQRT(x) rsqrtf(x)

/* The float that an int's bits are. */
#define AS_FLOAT(bits) __int_as_float(bits)

#else /* ---------------------------------------------------------------------- OpenCL C */

#define KERNEL __kernel void
#define KERNEL_SIZED(x, y, z) __kernel __attribute__((reqd_work_group_size(x, y, z))) void
#define DEVICE static inline

#define GLOBAL __global
#define LOCAL __local
#define LOCAL_POINTER __local
#define RESTRICT restrict
#define ALIGNED(bytes) __attribute__((aligned(bytes)))

#define THREAD_X ((int)get_local_id(0))
#define THREAD_Y ((int)get_local_id(1))
#define THREAD_Z ((int)get_local_id(2))
#define BLOCK_X ((int)get_group_id(0))
#define BLOCK_Y ((int)get_group_id(1))
#define BLOCK_Z ((int)get_group_id(2))
#define GRID_X ((int)get_num_groups(0))
#define GRID_Y ((int)get_num_groups(1))
#define GRID_Z ((int)get_num_groups(2))

#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)

#define FLOAT4(x, y, z, w) ((float4)(x, y, z, w))
#define LOAD4(pointer, i) (((__global const float4 *)(pointer))[i])
#define LOAD4_LOCAL(pointer, i) (((__local const float4 *)(pointer))[i])
#define RSQRT(x) native_rsqrt(x)
#define AS_FLOAT(bits) as_float(bits)

#endif
#endif
