/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_device.cuh - device API of libgin: the one header that a kernel includes
 *
 * C++17. nvcc compiles it for kernels and for host threads, NVRTC for kernels, g++ and clang++ for
 * host threads (see gin/host_launch.h). No device globals: everything comes in by the ginDevComm.
 *
 * The contract of these calls is gin_memory_model(7); in short:
 *  - A call sends what its coop could see when it was made.
 *  - Puts are unordered among themselves. A strong signal, once seen at the target, makes its own
 *    put and all earlier puts of the same context to the same peer visible there, those of other
 *    threads that happen before the signalling call included; a weak one its own put.
 *  - flush, wait and counters: source bytes may be reused, bytes of gets are there. They say nothing
 *    of the target.
 *  - A call with a coop is made by all of its threads, with the same arguments, and returns the same
 *    to all of them.
 *  - A call that times out has reserved nothing and can be repeated.
 *  - Calls on a peer that has failed return ginErrorPeer at once; after ginCommAbort(), all calls
 *    return ginErrorAborted.
 *
 * Arguments are not checked here: a peer, context, signal or offset out of range is undefined.
 */
#ifndef GIN_DEVICE_CUH
#define GIN_DEVICE_CUH

#include "gin/barrier.cuh"
#include "gin/context.cuh"
#include "gin/functions.cuh"

#endif
