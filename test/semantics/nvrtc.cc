/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nvrtc.cc - kernels that make every device call and every WQE compile at run time, by NVRTC
 *
 * The compiler is loaded, not linked: it may be missing, and it needs no GPU.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include <vector>

static const char *const kernel = R"(
#include "gin_device.cuh"
extern "C" __global__ void all(ginDevComm dc, ginWindow_t w, char *p, unsigned long long *out)
{
	Gin gin(dc, 0, ginSharingCta);
	GinCta cta;
	uint64_t before, delta, old;
	gin.put(1, w, 0, w, 8, 100, GinSignalInc{0}, GinCounterInc{0}, cta, ginTimeout(5));
	gin.putFrom(ginTeamWorld(dc), 1, w, 0, p, 4, GinWeakSignalAddAt{w, 0, 2}, GinNone{},
		    GinWarp{});
	gin.putValue(1, w, 0, 3.5, GinSignalAdd{1, 2}, GinTile<8>{});
	gin.get(1, w, 0, w, 64, 33, GinWarpSpan{0, 1, 1});
	gin.signal(1, GinWeakSignalInc{2}, GinLanes{0xffffffff});
	gin.atomicFetchAdd(1, w, 0, 1u);
	gin.atomicCompareSwap<uint64_t>(1, w, 0, 1, 2, &old);
	gin.atomicSwap(ginTeamRail(dc), 0, w, 0, 7u);
	gin.wait(gin.flushAsync(1, cta), cta);
	gin.flush(cta);
	gin.waitSignal(0, 1, cta);
	gin.waitSignal(w, 8, 1, GinWarp{});
	gin.waitSignalMeetShadow(0, cta);
	gin.waitSignalFollowShadow(0, 1, &before, &delta, cta);
	gin.increaseSignalShadow(0, 1);
	gin.waitCounter(0, 1, cta);
	out[0] = gin.readSignal(0) + gin.readSignal(w, 8) + gin.readCounter(0) + before + delta;
	gin.resetSignal(0);
	gin.resetSignal(w, 8);
	gin.resetCounter(0);
	GinBarrier(dc, ginTeamDomain(dc), 0).sync(cta);
	out[1] = ginPut(&dc, 0, 1, w.table, 0, w.table, 0, 8, 0, nullptr, 0, 0, UINT32_MAX, 0, 0);
	out[2] = reinterpret_cast<uint64_t>(ginPeerPointer(w, 0, 1));
}

#include "mlx5_encoders.h"
extern "C" __global__ void wqes(ginMlx5Slot slot, ginMlx5Memory there, ginMlx5Memory here,
				ginMlx5Wqebb *out, ginMlx5TwoWqebbs *two, uint32_t *words)
{
	ginMlx5StoreWqebb(out, ginMlx5Nop(slot));
	ginMlx5Store(out[13].segment, ginMlx5SegmentOf(out[0], slot.index));
	out[1] = ginMlx5Dump(slot, here, 1);
	out[2] = ginMlx5Write(slot, there, here, 8);
	out[3] = ginMlx5WriteImmediate(slot, there, here, 8, 5);
	out[4] = ginMlx5Read(slot, there, here, 8);
	out[5] = ginMlx5WriteInline4(slot, there, 1);
	out[6] = ginMlx5WriteInline8(slot, there, 1);
	out[7] = ginMlx5WriteInline(slot, there, words, 28);
	out[8] = ginMlx5FetchAdd(slot, there, here, 1);
	out[9] = ginMlx5CompareSwap(slot, there, here, 1, 2);
	out[10] = ginMlx5MaskedFetchAdd4(slot, there, here, 1, 0);
	out[11] = ginMlx5MaskedFetchAdd8(slot, there, here, 1, 0);
	out[12] = ginMlx5MaskedCompareSwap4(slot, there, here, {1, ~0u, 2, ~0u});
	two[0] = ginMlx5WriteInline32(slot, there, words);
	two[1] = ginMlx5MaskedCompareSwap8(slot, there, here, {1, ~0ul, 2, ~0ul});
	words[8] = ginMlx5RecordWord(slot.index) + ginMlx5Key(1) +
		   static_cast<uint32_t>(ginMlx5Doorbell(ginMlx5Queue(2), 3)) +
		   ginMlx5CqeCounter(words[0]) + ginMlx5CqeSyndrome(words[1]) + ginMlx5CqeEmpty();
}
)";

typedef void *Program;

template <class Function> static Function find(void *library, const char *name)
{
	void *address = dlsym(library, name);
	if (!address) {
		fprintf(stderr, "NVRTC has no %s\n", name);
		exit(1);
	}
	return reinterpret_cast<Function>(address);
}

// The named library, otherwise any that the loader finds: without a toolkit its name has a number.
static void *openCompiler(const char *named)
{
	for (const char *name : {named, "libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"}) {
		void *library = name ? dlopen(name, RTLD_NOW) : nullptr;
		if (library)
			return library;
	}
	printf("there is no libnvrtc.so\n");
	exit(77);
}

static void printVersion(void *library)
{
	int major, minor;
	if (!find<int (*)(int *, int *)>(library, "nvrtcVersion")(&major, &minor))
		printf("NVRTC %d.%d\n", major, minor);
}

static int compile(void *library, const char *arch)
{
	auto create = find<int (*)(Program *, const char *, const char *, int, const char **,
				   const char **)>(library, "nvrtcCreateProgram");
	auto build = find<int (*)(Program, int, const char **)>(library, "nvrtcCompileProgram");
	auto logSize = find<int (*)(Program, size_t *)>(library, "nvrtcGetProgramLogSize");
	auto log = find<int (*)(Program, char *)>(library, "nvrtcGetProgramLog");
	auto codeSize = find<int (*)(Program, size_t *)>(library, "nvrtcGetPTXSize");
	const char *options[] = {"-std=c++17", "-Iinclude", "-Itest/common", arch};
	Program program;
	size_t bytes = 0;

	if (create(&program, kernel, "all.cu", 0, nullptr, nullptr))
		return 1;
	int failed = build(program, 4, options);
	logSize(program, &bytes);
	std::vector<char> text(bytes + 1);
	log(program, text.data());
	if (failed || text[0])
		fprintf(stderr, "%s: %s\n", arch, text.data());
	codeSize(program, &bytes);
	return failed || bytes < 1000;
}

int main(int argc, char **argv)
{
	void *library = openCompiler(argc > 1 ? argv[1] : nullptr);
	printVersion(library);
	return compile(library, "--gpu-architecture=compute_75") ||
	       compile(library, "--gpu-architecture=compute_90");
}
