/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * numa.cc - windows over memory of a NUMA node of the host, and over pieces of GPU and host memory
 *
 * nccl-tests and DeepEP make such memory by cuMemCreate(). Each rank puts to the next rank; a
 * kernel writes and checks the data. Without a GPU there is nothing to test.
 */
#include "rig.h"

#ifdef __CUDACC__
#include <cuda.h>
#include <dlfcn.h>

/* A call of the driver, which is loaded: the runtime has loaded it. */
template <class Function> static Function *driverCall(Function *, const char *name)
{
	static void *const library = dlopen("libcuda.so.1", RTLD_NOW);
	void *found = library ? dlsym(library, name) : nullptr;

	if (!found)
		stop(__FILE__, __LINE__, name, "the driver does not have it");
	return reinterpret_cast<Function *>(found);
}

#define DRIVER(name, ...)                                                                          \
	do {                                                                                       \
		CUresult error = driverCall(&name, #name)(__VA_ARGS__);                            \
		if (error != CUDA_SUCCESS)                                                         \
			stop(__FILE__, __LINE__, #name, "failed");                                 \
	} while (0)

static CUmemLocation onGpu()
{
	CUmemLocation where = {};
	EXPECT(cudaGetDevice(&where.id) == cudaSuccess);
	where.type = CU_MEM_LOCATION_TYPE_DEVICE;
	return where;
}

static CUmemLocation onNode()
{
	CUmemLocation where = {};
	where.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	return where;
}

static CUmemAllocationProp propOf(CUmemLocation where)
{
	CUmemAllocationProp prop = {};
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location = where;
	return prop;
}

enum { PIECE = 1 << 21 };

/* One piece at `at`, for kernels of this GPU; on a node also for CPUs, as NICs need it. */
static void mapPiece(CUdeviceptr at, CUmemLocation where)
{
	const CUmemAllocationProp prop = propOf(where);
	CUmemAccessDesc access[2] = {};
	CUmemGenericAllocationHandle handle;

	access[0].location = onGpu();
	access[1].location = onNode();
	access[0].flags = access[1].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	DRIVER(cuMemCreate, &handle, PIECE, &prop, 0);
	DRIVER(cuMemMap, at, PIECE, 0, handle, 0);
	DRIVER(cuMemSetAccess, at, PIECE, access,
	       where.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ? 2 : 1);
	DRIVER(cuMemRelease, handle);
}

/* Word i of a message from rank `from`. */
GIN_FN uint64_t wordOf(int from, size_t i)
{
	return static_cast<uint64_t>(from + 1) << 40 | i;
}

/* The first half of the window is the source, the second half the target. */
struct PutNext {
	ncclDevComm dc;
	uint32_t *failedLine;
	ncclWindow_t w;
	size_t bytes; /* of a half */

	GIN_FN uint64_t *words(size_t offset) const
	{
		return static_cast<uint64_t *>(ncclGetLocalPointer(w, offset));
	}

	GIN_FN void operator()() const
	{
		ncclGin gin{dc, 0};
		const size_t count = bytes / 8, threads = ginBlockSize();
		const int next = (dc.rank + 1) % dc.nRanks;
		const int last = (dc.rank + dc.nRanks - 1) % dc.nRanks;

		for (size_t i = ginThreadIndex(); i < count; i += threads)
			words(0)[i] = wordOf(dc.rank, i);
		gin.put(ncclTeamWorld(dc), next, w, bytes, w, 0, bytes, ncclGin_SignalInc{0},
			ncclGin_None{}, ncclCoopCta());
		gin.waitSignal(ncclCoopCta(), 0, 1);
		for (size_t i = ginThreadIndex(); i < count; i += threads)
			KERNEL_EXPECT(words(bytes)[i] == wordOf(last, i));
		gin.flush(ncclCoopCta());
	}
};

static void putIn(const Rank &r, CUdeviceptr at, size_t bytes)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	want.ginSignalCount = 1;
	ncclWindow_t window;

	CHECK(ncclCommWindowRegister(r.comm, reinterpret_cast<void *>(at), bytes, &window,
				     NCCL_WIN_GIN_ONLY));
	{
		Device device(r, want);
		launch(r, 1, 256, PutNext{device.dc, nullptr, window, bytes / 2});
		meet(r);
	}
	CHECK(ncclCommWindowDeregister(r.comm, window));
	meet(r); /* no peer has the memory mapped */
}

/* A NIC registers memory of the GPU or of the host, not both at once. */
static bool hasNics(const Rank &r)
{
	ncclCommProperties_t about = NCCL_COMM_PROPERTIES_INITIALIZER;

	CHECK(ncclCommQueryProperties(r.comm, &about));
	return about.nLsaTeams > 1 && about.ginType == NCCL_GIN_TYPE_GDAKI;
}

static void refuseIn(const Rank &r, CUdeviceptr at, size_t bytes)
{
	ncclWindow_t window;

	EXPECT_FAILS(ncclCommWindowRegister(r.comm, reinterpret_cast<void *>(at), bytes, &window,
					    NCCL_WIN_GIN_ONLY),
		     ncclSystemError, "cannot be registered");
}

/* Two pieces side by side. */
static void windowIn(const Rank &r, const char *what, CUmemLocation first, CUmemLocation second)
{
	CUdeviceptr at = 0;

	DRIVER(cuMemAddressReserve, &at, 2 * PIECE, 0, 0, 0);
	mapPiece(at, first);
	mapPiece(at + PIECE, second);
	if (first.type != second.type && hasNics(r))
		refuseIn(r, at, 2 * PIECE);
	else
		putIn(r, at, 2 * PIECE);
	DRIVER(cuMemUnmap, at, PIECE);
	DRIVER(cuMemUnmap, at + PIECE, PIECE);
	DRIVER(cuMemAddressFree, at, 2 * PIECE);
	if (!r.rank)
		printf("ok: a window %s\n", what);
}
#endif

static void run(const Rank &r)
{
	if (!r.gpu) {
		if (!r.rank)
			printf("not here: there is no GPU\n");
		return;
	}
#ifdef __CUDACC__
	windowIn(r, "on the GPU", onGpu(), onGpu());
	windowIn(r, "on a NUMA node", onNode(), onNode());
	windowIn(r, "on the GPU and on a NUMA node", onGpu(), onNode());
#endif
}

int main(int argc, char **argv)
{
	return rigMain(argc, argv, "windows on NUMA nodes", run);
}
