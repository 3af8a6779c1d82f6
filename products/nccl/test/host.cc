/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.cc - NCCL's host calls: properties, groups, splits, collectives, refusals, wrong arguments
 */
#include "rig.h"

#include "products/nccl/lib/internal.h"

#include <dlfcn.h>

#include <array>
#include <atomic>

/*
 * The functions that follow are between libgin-nccl.so and libgin.so: they record the requests of
 * ncclDevCommCreate(), count memory, and let calls fail.
 */
static thread_local ginDevCommRequirements_t asked;
static thread_local int allocations; /* of this thread, less what it freed */
static thread_local bool refusesWindows;
static std::atomic<int> failingEnds;

template <class Function> static Function *libgins(const char *name)
{
	return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

#define LIBGINS(name) libgins<decltype(name)>(#name)

extern "C" {
#pragma GCC visibility push(default)

ginResult_t ginDevCommCreateAbi(ginComm_t comm, const ginDevCommRequirements_t *want, uint32_t abi,
				size_t bytes, ginDevComm *dc)
{
	asked = *want;
	return LIBGINS(ginDevCommCreateAbi)(comm, want, abi, bytes, dc);
}

ginResult_t ginMemAlloc(ginComm_t comm, size_t bytes, void **memory)
{
	const ginResult_t result = LIBGINS(ginMemAlloc)(comm, bytes, memory);

	allocations += result == ginSuccess;
	return result;
}

ginResult_t ginMemFree(ginComm_t comm, void *memory)
{
	allocations -= memory != nullptr;
	return LIBGINS(ginMemFree)(comm, memory);
}

ginResult_t ginWindowRegister(ginComm_t comm, void *memory, size_t bytes, int flags,
			      ginWindow_t *window)
{
	return LIBGINS(ginWindowRegister)(comm, refusesWindows ? nullptr : memory, bytes, flags,
					  window);
}

ginResult_t ginCommDestroy(ginComm_t comm)
{
	const ginResult_t result = LIBGINS(ginCommDestroy)(comm);

	return failingEnds-- > 0 ? ginErrorPeer : result;
}

#pragma GCC visibility pop
}

static void *deviceMemory(const Rank &r, size_t bytes)
{
	void *memory = nullptr;
	(void)r;
	CHECK(ncclMemAlloc(&memory, bytes));
	return memory;
}

static void finishStream(const Rank &r)
{
#ifdef __CUDACC__
	if (r.gpu)
		EXPECT(cudaStreamSynchronize(streamOf(r)) == cudaSuccess);
#endif
	(void)r;
}

static void properties(const Rank &r)
{
	ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER, wrong = {};
	ncclResult_t error = ncclInternalError;
	int version = 0, device = -1, nRanks = 0, rank = -1;

	CHECK(ncclCommQueryProperties(r.comm, &p));
	EXPECT(p.rank == r.rank && p.nRanks == r.nRanks && p.size == sizeof(p));
	EXPECT(p.deviceApiSupport && !p.multimemSupport && p.hostRmaSupport);
	EXPECT(p.ginType != NCCL_GIN_TYPE_NONE && p.ginSupport[p.ginType]);
	EXPECT(p.nLsaTeams == r.nRanks / ncclTeamLsa(r.comm).nRanks);
	EXPECT(p.devCommRuntimeVersionSize == sizeof(ncclDevComm));
	EXPECT_FAILS(ncclCommQueryProperties(r.comm, &wrong), ncclInvalidUsage,
		     "NCCL_COMM_PROPERTIES_INITIALIZER");
	wrong = NCCL_COMM_PROPERTIES_INITIALIZER;
	wrong.size = offsetof(ncclCommProperties_t, ginMinStride); /* of an older NCCL */
	memset(reinterpret_cast<char *>(&wrong) + wrong.size, 0x5a, sizeof(wrong) - wrong.size);
	CHECK(ncclCommQueryProperties(r.comm, &wrong));
	EXPECT(wrong.size == offsetof(ncclCommProperties_t, ginMinStride) &&
	       wrong.commHash == p.commHash && wrong.ginMinStride == 0x5a5a5a5a &&
	       wrong.devCommRuntimeVersionSize == 0x5a5a5a5a5a5a5a5a);
	CHECK(ncclGetVersion(&version));
	EXPECT(version == NCCL_VERSION_CODE && version >= NCCL_VERSION(2, 30, 7));
	EXPECT(NCCL_VERSION(2, 8, 1) == 2801 && NCCL_VERSION(2, 9, 1) == 20901);
	CHECK(ncclCommCuDevice(r.comm, &device));
	CHECK(ncclCommCount(r.comm, &nRanks));
	CHECK(pncclCommUserRank(r.comm, &rank));
	EXPECT(device >= 0 && nRanks == r.nRanks && rank == r.rank);
	CHECK(ncclCommGetAsyncError(r.comm, &error));
	EXPECT(error == ncclSuccess);
	EXPECT(strlen(ncclGetErrorString(ncclInvalidUsage)) &&
	       strlen(ncclGetErrorString(ncclNumResults)));
}

/* Pieces beyond the control plane's limit, in place and not. */
static void allGather(const Rank &r, size_t count)
{
	const size_t n = static_cast<size_t>(r.nRanks), me = static_cast<size_t>(r.rank);
	int *all = static_cast<int *>(deviceMemory(r, n * count * sizeof(int)));
	int *mine = static_cast<int *>(deviceMemory(r, count * sizeof(int)));
	std::vector<int> out(count), in(n * count);

	for (size_t i = 0; i < count; i++)
		out[i] = static_cast<int>(me * 1000000 + i);
	copyBytes(mine, out.data(), count * sizeof(int));
	CHECK(ncclAllGather(mine, all, count, ncclInt32, r.comm, streamOf(r)));
	finishStream(r);
	CHECK(ncclAllGather(all + me * count, all, count, ncclInt32, r.comm, streamOf(r)));
	finishStream(r);
	copyBytes(in.data(), all, n * count * sizeof(int));
	for (size_t i = 0; i < n * count; i++)
		EXPECT(in[i] == static_cast<int>(i / count * 1000000 + i % count));
	CHECK(ncclMemFree(all));
	CHECK(ncclMemFree(mine));
}

template <class T>
static void reduceOne(const Rank &r, ncclDataType_t type, ncclRedOp_t op, T expected)
{
	T *word = static_cast<T *>(deviceMemory(r, sizeof(T)));
	T value = static_cast<T>(r.rank + 1);

	copyBytes(word, &value, sizeof(T));
	CHECK(ncclAllReduce(word, word, 1, type, op, r.comm, streamOf(r)));
	finishStream(r);
	copyBytes(&value, word, sizeof(T));
	EXPECT(value == expected);
	CHECK(ncclMemFree(word));
}

template <class T> static void reduceType(const Rank &r, ncclDataType_t type)
{
	T sum = 0, product = 1;
	for (int i = 1; i <= r.nRanks; i++) {
		sum = static_cast<T>(sum + static_cast<T>(i));
		product = static_cast<T>(product * static_cast<T>(i));
	}
	reduceOne<T>(r, type, ncclSum, sum);
	reduceOne<T>(r, type, ncclProd, product);
	reduceOne<T>(r, type, ncclMax, static_cast<T>(r.nRanks));
	reduceOne<T>(r, type, ncclMin, static_cast<T>(1));
	reduceOne<T>(r, type, ncclAvg, static_cast<T>(sum / static_cast<T>(r.nRanks)));
}

/* Three elements of each type, by NCCL's table of their sizes; bytes after the output stay. */
static void gatherTypes(const Rank &r)
{
	static const size_t sizes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
	enum { most = 3 * 8 };
	const size_t n = static_cast<size_t>(r.nRanks), room = (n + 1) * most;
	char *mine = static_cast<char *>(deviceMemory(r, most));
	char *all = static_cast<char *>(deviceMemory(r, room));
	std::vector<char> in(room);

	copyBytes(mine, std::vector<char>(most, static_cast<char>(r.rank + 1)).data(), most);
	for (int type = 0; type < ncclNumTypes; type++) {
		const size_t bytes = 3 * sizes[type];
		copyBytes(all, std::vector<char>(room, 99).data(), room);
		CHECK(ncclAllGather(mine, all, 3, static_cast<ncclDataType_t>(type), r.comm,
				    streamOf(r)));
		finishStream(r);
		copyBytes(in.data(), all, room);
		for (size_t i = 0; i < room; i++)
			EXPECT(in[i] == (i < n * bytes ? static_cast<char>(i / bytes + 1) : 99));
	}
	EXPECT_FAILS(ncclAllGather(mine, all, 3, ncclNumTypes, r.comm, nullptr),
		     ncclInvalidArgument, "the type is unknown");
	CHECK(ncclMemFree(all));
	CHECK(ncclMemFree(mine));
}

static void collectives(const Rank &r)
{
	for (size_t count : {1, 1000, 40000})
		allGather(r, count);
	gatherTypes(r);
	reduceType<signed char>(r, ncclInt8);
	reduceType<unsigned char>(r, ncclUint8);
	reduceType<int32_t>(r, ncclInt);
	reduceType<uint32_t>(r, ncclUint32);
	reduceType<int64_t>(r, ncclInt64);
	reduceType<uint64_t>(r, ncclUint64);
	reduceType<float>(r, ncclFloat);
	reduceType<double>(r, ncclDouble);
	CHECK(ncclAllGather(nullptr, nullptr, 0, ncclInt8, r.comm, nullptr));
	EXPECT_FAILS(ncclAllGather(nullptr, nullptr, 1, ncclInt8, r.comm, nullptr),
		     ncclInvalidArgument, "ncclAllGather");
	EXPECT_FAILS(ncclAllReduce(&r, nullptr, 1, ncclHalf, ncclSum, r.comm, nullptr),
		     ncclInvalidUsage, "ncclAllReduce: type 6");
}

/* Calls of a group run at its end, and in order. */
static void groups(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	ncclWindow_t windows[2] = {};
	ncclDevComm dc;
	void *memory = deviceMemory(r, 8192);
	char *bytes = static_cast<char *>(memory);

	memset(&dc, 0, sizeof(dc));
	CHECK(ncclGroupStart());
	CHECK(ncclGroupStart());
	CHECK(ncclCommWindowRegister(r.comm, bytes, 4096, &windows[0], NCCL_WIN_DEFAULT));
	CHECK(ncclCommWindowRegister(r.comm, bytes + 4096, 4096, &windows[1], NCCL_WIN_GIN_ONLY));
	CHECK(ncclGroupEnd());
	CHECK(ncclDevCommCreate(r.comm, &want, &dc));
	EXPECT(!windows[0] && !dc.nRanks);
	CHECK(ncclGroupEnd());
	EXPECT(windows[0] && windows[1] && windows[0] != windows[1] && dc.nRanks == r.nRanks);
	EXPECT_FAILS(ncclGroupEnd(), ncclInvalidUsage, "ncclGroupStart()");
	CHECK(ncclCommWindowDeregister(r.comm, windows[1]));
	CHECK(ncclCommWindowDeregister(r.comm, windows[0]));
	CHECK(ncclDevCommDestroy(r.comm, &dc));
	CHECK(ncclMemFree(memory));
}

/* One key of a group fails, on another thread: the caller gets its result and its sentence. */
static void failingGroup(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER, wrong = want;
	ncclComm_t part = nullptr;
	ncclDevComm dc, none;

	wrong.ginContextCount = 100000;
	CHECK(ncclCommSplit(r.comm, 0, r.rank, &part, nullptr));
	EXPECT_FAILS(ncclCommCount(r.comm, nullptr), ncclInvalidArgument, "ncclCommCount");
	CHECK(ncclGroupStart());
	CHECK(ncclDevCommCreate(r.comm, &want, &dc));
	CHECK(ncclDevCommCreate(part, &wrong, &none));
	EXPECT_FAILS(ncclGroupEnd(), ncclInvalidArgument, "requirements.contexts is 100000");
	CHECK(ncclDevCommDestroy(r.comm, &dc));
	CHECK(ncclCommDestroy(part));
}

/* Even and odd ranks, each with a window of its own; then a part without rank 0. */
static void splits(const Rank &r)
{
	ncclComm_t part = nullptr;
	CHECK(ncclCommSplit(r.comm, r.rank % 2, -r.rank, &part, nullptr));
	const Rank own = rankOf(part);
	EXPECT(own.nRanks == (r.nRanks + 1 - r.rank % 2) / 2);
	EXPECT(own.rank == own.nRanks - 1 - r.rank / 2);
	allGather(own, 10);
	meet(own);
	CHECK(ncclCommDestroy(part));
	CHECK(ncclCommSplit(r.comm, r.rank ? 0 : NCCL_SPLIT_NOCOLOR, 0, &part, nullptr));
	EXPECT(!part == !r.rank);
	CHECK(ncclCommDestroy(part));
}

/*
 * One thread puts this rank's number to the next rank, and waits for the number of the rank before.
 */
struct Ring {
	ncclDevComm dc;
	uint32_t *failedLine;
	ncclWindow_t w;

	GIN_FN void operator()() const
	{
		ncclGin gin(dc, 0);
		ncclTeam world = ncclTeamWorld(dc);
		auto *words = static_cast<uint64_t *>(ncclGetLocalPointer(w, 0));
		const int n = dc.nRanks;

		words[1] = 100 + static_cast<uint64_t>(dc.rank);
		gin.put(world, (dc.rank + 1) % n, w, 0, w, 8, 8, ncclGin_SignalInc{0});
		gin.waitSignal(ncclCoopThread(), 0, 1);
		KERNEL_EXPECT(words[0] == 100 + static_cast<uint64_t>((dc.rank + n - 1) % n));
		gin.flush(ncclCoopThread());
	}
};

/* A communicator that works: collectives, windows, device communicators. */
static void workWith(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	want.ginSignalCount = 1;
	Buffer buffer(r, 4096);
	Device device(r, want);

	allGather(r, 10);
	launch(r, 1, 1, Ring{device.dc, nullptr, buffer.window});
	meet(r);
}

/* All ranks but the last: the last is excluded. The others keep their numbers. */
static ncclComm_t shrinkWithoutLast(const Rank &r, int flags)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t rest = nullptr;
	int last = r.nRanks - 1;

	config.trafficClass = 9;
	CHECK(ncclCommShrink(r.comm, &last, 1, &rest, &config, flags));
	const Rank own = rankOf(rest);
	EXPECT(own.nRanks == r.nRanks - 1 && own.rank == r.rank);
	return rest;
}

static uint64_t hashOf(ncclComm_t comm)
{
	ncclCommProperties_t about = NCCL_COMM_PROPERTIES_INITIALIZER;

	CHECK(ncclCommQueryProperties(comm, &about));
	return about.commHash;
}

static void workAndDestroy(ncclComm_t comm)
{
	workWith(rankOf(comm));
	EXPECT(asked.trafficClass == 9);
	CHECK(ncclCommDestroy(comm));
}

static void refusedShrinks(const Rank &r)
{
	ncclConfig_t wrong = NCCL_CONFIG_INITIALIZER;
	ncclComm_t rest = nullptr;
	int none = 0;

	wrong.magic = 0;
	EXPECT_FAILS(ncclCommShrink(nullptr, nullptr, 0, &rest, nullptr, 0), ncclInvalidArgument,
		     "comm is NULL");
	EXPECT_FAILS(ncclCommShrink(r.comm, nullptr, 0, nullptr, nullptr, 0), ncclInvalidArgument,
		     "the new communicator is NULL");
	EXPECT_FAILS(ncclCommShrink(r.comm, nullptr, 1, &rest, nullptr, 0), ncclInvalidArgument,
		     "their number is 1");
	EXPECT_FAILS(ncclCommShrink(r.comm, &none, 0, &rest, nullptr, 2), ncclInvalidArgument,
		     "the flags are 0x2");
	EXPECT_FAILS(ncclCommRevoke(r.comm, 1), ncclInvalidArgument, "the flags are 0x1");
	EXPECT_FAILS(ncclCommRevoke(nullptr, 0), ncclInvalidArgument, "comm is NULL");
	EXPECT_FAILS(ncclCommShrink(r.comm, &none, 0, &rest, &wrong, 0), ncclInvalidArgument,
		     "NCCL_CONFIG_INITIALIZER");
}

static ncclResult_t waitForError(ncclComm_t comm)
{
	ncclResult_t error = ncclSuccess;

	for (int i = 0; i < 3000 && error == ncclSuccess; i++) {
		CHECK(ncclCommGetAsyncError(comm, &error));
		usleep(10000);
	}
	return error;
}

/*
 * The older communicator keeps working, with its windows and device communicators. Two shrunk from
 * it differ, and end in any order.
 */
static void shrinks(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	want.ginSignalCount = 1;
	Buffer buffer(r, 4096);
	Device device(r, want);

	if (r.rank < r.nRanks - 1) {
		ncclComm_t first = shrinkWithoutLast(r, NCCL_SHRINK_DEFAULT);
		ncclComm_t second = shrinkWithoutLast(r, NCCL_SHRINK_DEFAULT);
		EXPECT(hashOf(first) != hashOf(second) && hashOf(first) != hashOf(r.comm));
		CHECK(ncclCommDestroy(first));
		workAndDestroy(second);
	}
	launch(r, 1, 1, Ring{device.dc, nullptr, buffer.window});
	allGather(r, 10);
}

/*
 * Ends the older communicator before the shrink, or by it. The excluded rank sees that it has
 * ended. The new communicator has no windows: the memory of the older one's windows and device
 * communicators may be freed.
 */
static void shrinkAborts(const Rank &r, bool revokes)
{
	const int flags = revokes ? NCCL_SHRINK_DEFAULT : NCCL_SHRINK_ABORT;
	ncclComm_t older = nullptr, rest = nullptr;
	void *memory = deviceMemory(r, 4096);
	ncclWindow_t window;
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	ncclDevComm dc;

	CHECK(ncclCommSplit(r.comm, 0, r.rank, &older, nullptr));
	CHECK(ncclDevCommCreate(older, &want, &dc));
	CHECK(ncclCommWindowRegister(older, memory, 4096, &window, NCCL_WIN_DEFAULT));
	if (revokes && !r.rank)
		CHECK(ncclCommRevoke(older, NCCL_REVOKE_DEFAULT));
	if (revokes)
		EXPECT(waitForError(older) == ncclRemoteError);
	if (r.rank < r.nRanks - 1)
		rest = shrinkWithoutLast(rankOf(older), flags);
	else
		EXPECT(waitForError(older) == ncclRemoteError);
	CHECK(ncclDevCommDestroy(older, &dc));
	CHECK(ncclCommWindowDeregister(older, window));
	CHECK(ncclMemFree(memory));
	CHECK(ncclCommAbort(older));
	if (rest)
		workAndDestroy(rest);
}

/* The process of the last rank ends; the others go on. Ranks are processes. */
static void shrinkAfterDeath(const Rank &r)
{
	Buffer buffer(r, 4096);

	if (r.rank == r.nRanks - 1)
		_exit(0);
	EXPECT(waitForError(r.comm) == ncclRemoteError);
	workAndDestroy(
		shrinkWithoutLast(r, r.nRanks % 2 ? NCCL_SHRINK_ABORT : NCCL_SHRINK_DEFAULT));
}

/* Windows and device communicators are made and ended while this thread captures a stream. */
static void captures(const Rank &r)
{
#ifdef __CUDACC__
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	cudaStream_t stream = streamOf(r);
	cudaGraph_t graph = nullptr;
	ncclWindow_t window;
	ncclDevComm dc;

	if (!r.gpu)
		return;
	EXPECT(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
	void *memory = deviceMemory(r, 4096);
	CHECK(ncclCommWindowRegister(r.comm, memory, 4096, &window, NCCL_WIN_DEFAULT));
	CHECK(ncclDevCommCreate(r.comm, &want, &dc));
	CHECK(ncclDevCommDestroy(r.comm, &dc));
	CHECK(ncclCommWindowDeregister(r.comm, window));
	CHECK(ncclMemFree(memory));
	EXPECT(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
	EXPECT(cudaGraphDestroy(graph) == cudaSuccess);
#endif
	(void)r;
}

static bool areProcesses;

/*
 * Memory whose window begins within it: a rank that is alone in its process frees at once, another
 * one keeps both ends until its next collective call. A call that fails on all ranks keeps nothing.
 */
static void lifetimes(const Rank &r)
{
	const bool isAlone = areProcesses || r.nRanks == 1;
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	ncclWindow_t window;
	ncclDevComm dc;
	void *bytes, *none;

	meet(r);
	CHECK(ncclDevCommCreate(r.comm, &want, &dc));
	const int before = allocations;
	bytes = deviceMemory(r, 8192);
	CHECK(ncclCommWindowRegister(r.comm, static_cast<char *>(bytes) + 4096, 4096, &window, 0));
	CHECK(ncclCommWindowDeregister(r.comm, window));
	CHECK(ncclMemFree(bytes));
	EXPECT(allocations == before + !isAlone);
	CHECK(ncclDevCommDestroy(r.comm, &dc));
	EXPECT(allocations == before + (isAlone ? -1 : 1));
	if (isAlone) /* another rank of the process may get a window of this address */
		EXPECT_FAILS(ncclGetPeerDevicePointer(dc.resourceWindow, 0, r.rank, &none),
			     ncclInvalidArgument, "ncclGetPeerDevicePointer: the window is not");
	refusesWindows = true;
	want.ginConnectionType = NCCL_GIN_CONNECTION_CUSTOM_ARRAY; /* of nobody */
	EXPECT(ncclDevCommCreate(r.comm, &want, &dc) != ncclSuccess);
	refusesWindows = false;
	EXPECT(allocations == before - 1 && !r.comm->connections);
}

static void memory(const Rank &r)
{
	void *handle = &handle;
	Buffer buffer(r, 4096);

	CHECK(ncclCommRegister(r.comm, buffer.ptr, 4096, &handle));
	EXPECT(!handle);
	CHECK(ncclCommDeregister(r.comm, handle));
	CHECK(ncclMemFree(nullptr));
	EXPECT_FAILS(ncclMemFree(buffer.ptr), ncclInvalidUsage, "in a registered window");
	EXPECT_FAILS(ncclCommWindowDeregister(r.comm, nullptr), ncclInvalidArgument,
		     "not registered");
	EXPECT_FAILS(ncclGetPeerDevicePointer(nullptr, 0, 0, &handle), ncclInvalidArgument,
		     "not registered");
	EXPECT_FAILS(ncclGetLsaDevicePointer(buffer.window, 0, 99, &handle), ncclInvalidArgument,
		     "lsaRank is 99");
	EXPECT_FAILS(ncclGetLsaMultimemDevicePointer(buffer.window, 0, &handle), ncclInvalidUsage,
		     "multicast");
	EXPECT_FAILS(ncclGetMultimemDevicePointer(buffer.window, 0, {}, &handle), ncclInvalidUsage,
		     "multicast");
}

/* Each of the calls that libgin refuses names itself. */
static void refusals(const Rank &r)
{
	ncclComm_t c = r.comm;
	ncclRedOp_t op = ncclSum;
	ncclUniqueId id = {};
	float scalar = 1;
	const ncclResult_t no = ncclInvalidUsage;

	EXPECT_FAILS(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat, ncclScalarHostImmediate, c),
		     no, "ncclRedOpCreatePreMulSum:");
	EXPECT_FAILS(ncclRedOpDestroy(op, c), no, "ncclRedOpDestroy:");
	EXPECT_FAILS(ncclCommGrow(c, 2, nullptr, 0, &c, nullptr), no, "ncclCommSplit()");
	EXPECT_FAILS(ncclCommGetUniqueId(c, &id), no, "ncclCommGetUniqueId:");
	EXPECT_FAILS(ncclCommSuspend(c, 0), no, "ncclCommSuspend:");
	EXPECT_FAILS(ncclCommResume(c), no, "ncclCommResume:");
}

/* The type that the properties name, and one that some pair of ranks does not have. */
static void typedDevComms(const Rank &r)
{
	ncclCommProperties_t about = NCCL_COMM_PROPERTIES_INITIALIZER;
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	ncclDevComm dc;

	CHECK(ncclCommQueryProperties(r.comm, &about));
	want.ginType = about.ginType;
	want.ginQueueDepth = 193;
	CHECK(ncclDevCommCreate(r.comm, &want, &dc));
	CHECK(ncclDevCommDestroy(r.comm, &dc));
	EXPECT(asked.contexts == 4 && asked.queueDepth == 193 && asked.trafficClass == -1);
	EXPECT(asked.routes ==
	       (GIN_ROUTES_DIRECT |
		(about.ginType == NCCL_GIN_TYPE_PROXY ? GIN_ROUTES_PROXY : GIN_ROUTES_GDAKI)));
	if (about.ginType != NCCL_GIN_TYPE_PROXY)
		return;
	want.ginType = NCCL_GIN_TYPE_GDAKI;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &want, &dc), ncclInvalidUsage,
		     "by a route that requirements.routes leaves out");
}

static int trafficClassOf(ncclComm_t comm, int required)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	ncclDevComm dc;

	want.ginTrafficClass = required;
	CHECK(ncclDevCommCreate(comm, &want, &dc));
	CHECK(ncclDevCommDestroy(comm, &dc));
	return asked.trafficClass;
}

/*
 * A requirement goes before the communicator's configuration, which parts of the communicator
 * inherit.
 */
static void trafficClasses(const Rank &r)
{
	const int none = NCCL_CONFIG_UNDEF_INT;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER, wrong = config;
	ncclComm_t part = nullptr, inner = nullptr;

	EXPECT(trafficClassOf(r.comm, none) == -1 && trafficClassOf(r.comm, 42) == 42);
	config.trafficClass = 255;
	config.numRmaCtx = config.numRmaSig = 0;
	config.size = offsetof(ncclConfig_t, numRmaCtx); /* of an older NCCL */
	CHECK(ncclCommSplit(r.comm, 0, r.rank, &part, &config));
	EXPECT(asked.trafficClass == 255); /* of puts by the host */
	EXPECT(trafficClassOf(part, none) == 255 && trafficClassOf(part, 0) == 0);
	CHECK(ncclCommSplit(part, 0, r.rank, &inner, nullptr));
	EXPECT(trafficClassOf(inner, none) == 255);
	CHECK(ncclCommDestroy(inner));
	CHECK(ncclCommDestroy(part));
	wrong.trafficClass = 256;
	EXPECT_FAILS(ncclCommSplit(r.comm, 0, 0, &part, &wrong), ncclInvalidArgument,
		     "ncclCommSplit: config.trafficClass is 256");
	wrong.magic = 0;
	EXPECT_FAILS(ncclCommSplit(r.comm, 0, 0, &part, &wrong), ncclInvalidArgument,
		     "NCCL_CONFIG_INITIALIZER");
}

/* As programs for NCCL 2.28 do it, which has no initializer. */
static void requirementsOfZeros(const Rank &r)
{
	ncclDevCommRequirements want;
	ncclDevComm dc;

	memset(&want, 0, sizeof(want));
	want.lsaBarrierCount = 2;
	want.ginSignalCount = 3;
	want.ginForceEnable = true;
	CHECK(ncclDevCommCreate(r.comm, &want, &dc));
	EXPECT(dc.ginContextCount == 4 && dc.ginSignalCount >= 3 && dc.rank == r.rank &&
	       asked.trafficClass == -1);
	CHECK(ncclDevCommDestroy(r.comm, &dc));
	EXPECT(!want.size && !want.magic);
}

static void refusedDevComms(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER, wrong = want;
	ncclTeamRequirements_t team = {nullptr, ncclTeamWorld(r.comm), true, nullptr};
	ncclDevComm dc;

	wrong.magic = 0;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &wrong, &dc), ncclInvalidUsage, "INITIALIZER");
	EXPECT_FAILS(ncclDevCommCreate(r.comm, nullptr, &dc), ncclInvalidArgument,
		     "requirements is NULL");
	wrong = want, wrong.ginDeviceAbi++;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &wrong, &dc), ncclInvalidUsage, "device ABI");
	wrong = want, wrong.lsaMultimem = true;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &wrong, &dc), ncclInvalidUsage, "lsaMultimem");
	wrong = want, wrong.teamRequirementsList = &team;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &wrong, &dc), ncclInvalidUsage, "multimem");
	wrong = want, wrong.lsaLLA2ABlockCount = 1;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &wrong, &dc), ncclInvalidUsage, "LLA2A");
	wrong = want, wrong.ginType = NCCL_GIN_TYPE_GPI;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &wrong, &dc), ncclInvalidUsage, "ginType is 4");
	wrong = want, wrong.ginTrafficClass = 256;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &wrong, &dc), ncclInvalidArgument,
		     "ginTrafficClass is 256");
	wrong = want, wrong.ginSignalCount = -1;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &wrong, &dc), ncclInvalidArgument, "negative");
	wrong = want, wrong.ginContextCount = 100000;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &wrong, &dc), ncclInvalidArgument,
		     "requirements.contexts is 100000");
	EXPECT_FAILS(ncclDevCommCreate(nullptr, &want, &dc), ncclInvalidArgument, "comm is NULL");
	EXPECT_FAILS(ncclDevCommDestroy(r.comm, nullptr), ncclInvalidArgument, "devComm is NULL");
}

static void nulls()
{
	ncclComm_t comm;
	ncclUniqueId id = {};
	int out;

	EXPECT_FAILS(ncclGetUniqueId(nullptr), ncclInvalidArgument, "id is NULL");
	EXPECT_FAILS(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidArgument, "id is not from");
	EXPECT_FAILS(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument, "comm is NULL");
	EXPECT_FAILS(ncclCommInitAll(nullptr, 1, nullptr), ncclInvalidArgument, "ncclCommInitAll");
	EXPECT_FAILS(ncclCommInitRankScalable(&comm, 1, 0, 0, &id, nullptr), ncclInvalidArgument,
		     "no id");
	EXPECT_FAILS(ncclCommSplit(nullptr, 0, 0, &comm, nullptr), ncclInvalidArgument,
		     "comm is NULL");
	EXPECT_FAILS(ncclCommCount(nullptr, &out), ncclInvalidArgument, "ncclCommCount");
	EXPECT_FAILS(ncclCommFinalize(nullptr), ncclInvalidArgument, "comm is NULL");
	CHECK(ncclCommDestroy(nullptr));
	CHECK(ncclCommAbort(nullptr));
}

/* One thread for all ranks, which end different windows and device communicators. */
static void differentEnds()
{
	ncclDevCommRequirements needs = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	std::vector<ncclComm_t> comms(gpuCount() ? static_cast<size_t>(gpuCount()) : 3);
	const int n = static_cast<int>(comms.size());
	std::vector<std::array<ncclDevComm, 2>> made(comms.size());
	std::vector<ncclWindow_t> windows(comms.size());
	std::vector<void *> memory(comms.size());

	CHECK(ncclCommInitAll(comms.data(), n, nullptr));
	for (void *&own : memory)
		CHECK(ncclMemAlloc(&own, 4096));
	for (size_t i = 0; i < 2; i++) {
		CHECK(ncclGroupStart());
		for (size_t r = 0; r < comms.size(); r++)
			CHECK(ncclDevCommCreate(comms[r], &needs, &made[r][i]));
		CHECK(ncclGroupEnd());
	}
	CHECK(ncclGroupStart());
	for (size_t r = 0; r < comms.size(); r++)
		CHECK(ncclCommWindowRegister(comms[r], memory[r], 4096, &windows[r], 0));
	CHECK(ncclGroupEnd());
	CHECK(ncclDevCommDestroy(comms[0], &made[0][0]));
	for (size_t r = 1; r < comms.size(); r++) {
		CHECK(ncclDevCommDestroy(comms[r], &made[r][1]));
		CHECK(ncclCommWindowDeregister(comms[r], windows[r]));
		CHECK(ncclMemFree(memory[r]));
	}
	for (ncclComm_t comm : comms)
		CHECK(ncclCommDestroy(comm));
	CHECK(ncclMemFree(memory[0]));
}

/* One thread for three communicators, and one that is aborted. */
static void initAll()
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER, wrong = config;
	std::vector<ncclComm_t> comms(gpuCount() ? static_cast<size_t>(gpuCount()) : 3);
	ncclUniqueId id = {};
	int rank = -1;

	CHECK(ncclCommInitAll(comms.data(), static_cast<int>(comms.size()), nullptr));
	for (size_t i = 0; i < comms.size(); i++) {
		CHECK(ncclCommUserRank(comms[i], &rank));
		EXPECT(rank == static_cast<int>(i));
	}
	failingEnds = comms.size() > 1; /* the last call waits for all, and reports it */
	for (size_t i = 0; i + 1 < comms.size(); i++)
		CHECK(ncclCommDestroy(comms[i]));
	if (comms.size() > 1)
		EXPECT_FAILS(ncclCommDestroy(comms.back()), ncclRemoteError,
			     "a rank of this process");
	else
		CHECK(ncclCommDestroy(comms.back()));
	failingEnds = 0;
	CHECK(ncclGetUniqueId(&id));
	wrong.magic = 0;
	EXPECT_FAILS(ncclCommInitRankConfig(&comms[0], 1, id, 0, &wrong), ncclInvalidArgument,
		     "NCCL_CONFIG_INITIALIZER");
	config.trafficClass = 17;
	CHECK(ncclCommInitRankConfig(&comms[0], 1, id, 0, &config));
	EXPECT(trafficClassOf(comms[0], NCCL_CONFIG_UNDEF_INT) == 17);
	CHECK(ncclCommAbort(comms[0]));
}

static void run(const Rank &r)
{
	properties(r);
	collectives(r);
	groups(r);
	failingGroup(r);
	splits(r);
	memory(r);
	lifetimes(r);
	refusals(r);
	requirementsOfZeros(r);
	refusedDevComms(r);
	typedDevComms(r);
	trafficClasses(r);
	refusedShrinks(r);
	if (r.nRanks < 2)
		return;
	shrinks(r);
	shrinkAborts(r, false);
	shrinkAborts(r, true);
	if (areProcesses) /* a capture in one thread restricts others */
		captures(r);
	if (areProcesses)
		shrinkAfterDeath(r);
}

int main(int argc, char **argv)
{
	setenv("GIN_LOG", "none", 0); /* failures are meant */
	areProcesses = argc == 3 && !strcmp(argv[1], "--forks");
	if (!areProcesses) { /* CUDA does not survive fork() */
		nulls();
		initAll();
		differentEnds();
	}
	return rigMain(argc, argv, "nccl host calls", run);
}
