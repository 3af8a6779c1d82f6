/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gin_device.cuh - device API of libgin: the one header that a kernel includes
 *
 * C++17. nvcc compiles it for kernels and for host threads, NVRTC for kernels, g++ and clang++ for
 * host threads (see gin/core/host_launch.h). No device globals: every call works on a ginDevComm.
 *
 * gin_memory_model(7) is the contract of the calls. In short:
 *  - A call sends what its coop can see at the call.
 *  - Puts are unordered among themselves. A strong signal, once seen at the target, makes its own
 *    put and all earlier puts of the context to that peer visible there, also puts of other threads
 *    that happen before the signalling call, and puts of other contexts whose flush happens before
 *    the call. A weak signal covers its own put only.
 *  - flush, wait and counters promise that source bytes may be reused and that bytes of gets are
 *    there. They promise nothing about the target.
 *  - All threads of a coop make a call with equal arguments, and get one result.
 *  - A call that times out has reserved nothing and can be repeated.
 *  - Calls on a peer that has failed return ginErrorPeer at once. After ginCommAbort() all calls
 *    return ginErrorAborted.
 *
 * Arguments are not checked: a peer, context, signal or offset out of range is undefined behaviour.
 * A kernel that is compiled with -DGIN_DEVICE_CHECKS checks them: the call changes nothing, returns
 * ginErrorInvalidArgument on all threads of the coop, and ginDevCommGetError() names the argument.
 */
#ifndef GIN_DEVICE_CUH
#define GIN_DEVICE_CUH

#include "gin/barrier.cuh"
#include "gin/context.cuh"
#include "gin/functions.cuh"
#include "gin/packets.cuh"

#endif
