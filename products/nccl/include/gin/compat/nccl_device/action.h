/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * action.h - actions, tags, options and results of ncclGin's calls, and their counterparts in
 * libgin
 *
 * Signals of the old names, without Strong or Weak, are strong.
 */
#ifndef GIN_COMPAT_NCCL_ACTION_H
#define GIN_COMPAT_NCCL_ACTION_H

#include "gin/core/options.cuh"
#include "core.h"
#include "net_device.h"

/* Memory orders and scopes come from libcu++; without CUDA the names are declared here. */
#if defined(__CUDACC__) || __has_include(<cuda/atomic>)
#include <cuda/atomic>
#else
namespace cuda
{
enum memory_order {
	memory_order_relaxed,
	memory_order_consume,
	memory_order_acquire,
	memory_order_release,
	memory_order_acq_rel,
	memory_order_seq_cst
};
enum thread_scope {
	thread_scope_system,
	thread_scope_device,
	thread_scope_block,
	thread_scope_thread = 10
};
} // namespace cuda
#endif

enum ncclGinOptFlags {
	ncclGinOptFlagsDefault = 0,
	ncclGinOptFlagsMaySkipCreditCheck = 1 << 0, /* no effect */
	ncclGinOptFlagsAggregateRequests = 1 << 1
};

/* The caller's promise: threads of the GPU, threads of one block, or one thread use the context. */
enum ncclGinResourceSharingMode : uint8_t {
	NCCL_GIN_RESOURCE_SHARING_GPU = 0,
	NCCL_GIN_RESOURCE_SHARING_CTA = 1,
	NCCL_GIN_RESOURCE_SHARING_THREAD = 2
};

enum ncclGinSignalOp_t { ncclGinSignalInc = 0, ncclGinSignalAdd = 1 };

/* Shared memory for a descriptor. libgin builds none there. */
struct ncclGinDescriptorSmem {
	alignas(16) char space[64];
};

struct ncclGin_DescriptorSmem {
	ncclGinDescriptorSmem *descriptor;
};

/* What memory a buffer has. libgin's windows know it. */
struct ncclGin_SegmentDevice {
};
struct ncclGin_SegmentMixed {
};
struct ncclGin_SegmentHostNuma {
};

struct ncclGin_None {
};
struct ncclGin_StrongSignalInc {
	ncclGinSignal_t signal;
};
struct ncclGin_WeakSignalInc {
	ncclGinSignal_t signal;
};
struct ncclGin_SignalInc {
	ncclGinSignal_t signal;
};
struct ncclGin_StrongSignalAdd {
	ncclGinSignal_t signal;
	uint64_t value;
};
struct ncclGin_WeakSignalAdd {
	ncclGinSignal_t signal;
	uint64_t value;
};
struct ncclGin_SignalAdd {
	ncclGinSignal_t signal;
	uint64_t value;
};
struct ncclGin_StrongVASignalInc {
	ncclWindow_t signalWindow;
	size_t signalOffset;
};
struct ncclGin_WeakVASignalInc {
	ncclWindow_t signalWindow;
	size_t signalOffset;
};
struct ncclGin_VASignalInc {
	ncclWindow_t signalWindow;
	size_t signalOffset;
};
struct ncclGin_StrongVASignalAdd {
	ncclWindow_t signalWindow;
	size_t signalOffset;
	uint64_t value;
};
struct ncclGin_WeakVASignalAdd {
	ncclWindow_t signalWindow;
	size_t signalOffset;
	uint64_t value;
};
struct ncclGin_VASignalAdd {
	ncclWindow_t signalWindow;
	size_t signalOffset;
	uint64_t value;
};
struct ncclGin_WeakCounterInc {
	ncclGinCounter_t counter;
};
struct ncclGin_CounterInc {
	ncclGinCounter_t counter;
};

/* The remote action in libgin. */
GIN_FN constexpr GinNone ginNcclRemote(ncclGin_None)
{
	return {};
}
GIN_FN constexpr GinSignalInc ginNcclRemote(ncclGin_StrongSignalInc a)
{
	return {a.signal};
}
GIN_FN constexpr GinSignalInc ginNcclRemote(ncclGin_SignalInc a)
{
	return {a.signal};
}
GIN_FN constexpr GinWeakSignalInc ginNcclRemote(ncclGin_WeakSignalInc a)
{
	return {a.signal};
}
GIN_FN constexpr GinSignalAdd ginNcclRemote(ncclGin_StrongSignalAdd a)
{
	return {a.signal, a.value};
}
GIN_FN constexpr GinSignalAdd ginNcclRemote(ncclGin_SignalAdd a)
{
	return {a.signal, a.value};
}
GIN_FN constexpr GinWeakSignalAdd ginNcclRemote(ncclGin_WeakSignalAdd a)
{
	return {a.signal, a.value};
}
GIN_FN GinSignalIncAt ginNcclRemote(ncclGin_StrongVASignalInc a)
{
	return {ginNcclWindow(a.signalWindow), a.signalOffset};
}
GIN_FN GinSignalIncAt ginNcclRemote(ncclGin_VASignalInc a)
{
	return {ginNcclWindow(a.signalWindow), a.signalOffset};
}
GIN_FN GinWeakSignalIncAt ginNcclRemote(ncclGin_WeakVASignalInc a)
{
	return {ginNcclWindow(a.signalWindow), a.signalOffset};
}
GIN_FN GinSignalAddAt ginNcclRemote(ncclGin_StrongVASignalAdd a)
{
	return {ginNcclWindow(a.signalWindow), a.signalOffset, a.value};
}
GIN_FN GinSignalAddAt ginNcclRemote(ncclGin_VASignalAdd a)
{
	return {ginNcclWindow(a.signalWindow), a.signalOffset, a.value};
}
GIN_FN GinWeakSignalAddAt ginNcclRemote(ncclGin_WeakVASignalAdd a)
{
	return {ginNcclWindow(a.signalWindow), a.signalOffset, a.value};
}

/* The local action in libgin. */
GIN_FN constexpr GinNone ginNcclLocal(ncclGin_None)
{
	return {};
}
GIN_FN constexpr GinCounterInc ginNcclLocal(ncclGin_WeakCounterInc a)
{
	return {a.counter};
}
GIN_FN constexpr GinCounterInc ginNcclLocal(ncclGin_CounterInc a)
{
	return {a.counter};
}

GIN_FN constexpr ginScope ginNcclScope(cuda::thread_scope scope)
{
	return scope == cuda::thread_scope_system   ? ginScopeSystem
	       : scope == cuda::thread_scope_device ? ginScopeDevice
	       : scope == cuda::thread_scope_block  ? ginScopeCta
						    : ginScopeThread;
}

GIN_FN ginOptions ginNcclOptions(cuda::thread_scope given, cuda::thread_scope required,
				 uint32_t flags)
{
	ginOptions options;
	options.given = ginNcclScope(given);
	options.required = ginNcclScope(required);
	options.aggregate = (flags & ncclGinOptFlagsAggregateRequests) != 0;
	return options;
}

/* Of a barrier with this order: one that does not release counts as released before. */
GIN_FN ginOptions ginNcclReleased(cuda::memory_order order)
{
	ginOptions options;
	if (order == cuda::memory_order_relaxed || order == cuda::memory_order_acquire)
		options.given = ginScopeSystem;
	return options;
}

GIN_FN ginOptions ginNcclBits(int bits)
{
	ginOptions options;
	options.bits = static_cast<uint32_t>(bits);
	return options;
}

/* The low bits of a value. */
GIN_FN uint64_t ginNcclLow(uint64_t value, int bits)
{
	return value & UINT64_MAX >> (64 - bits);
}

/* A timeout in nanoseconds, at least 1, from cycles of the GPU's clock. */
GIN_FN uint64_t ginNcclNanoseconds(ncclDevComm const &dc, uint64_t cycles)
{
	const uint64_t rate = dc.nanosecondsPer1024Cycles;
	if (cycles >> 50)
		return GIN_FOREVER;
	return (cycles >> 10) * rate + ((cycles & 1023) * rate >> 10) + 1;
}

/* Results of calls with a timeout. */
GIN_FN ncclResult_t ginNcclResult(ginResult_t result)
{
	switch (result) {
	case ginSuccess:
		return ncclSuccess;
	case ginErrorTimeout:
		return ncclTimeout;
	case ginErrorAborted:
	case ginErrorPeer:
		return ncclRemoteError;
	case ginErrorUnsupported:
		return ncclInvalidUsage;
	default:
		return ncclInternalError;
	}
}

#endif
