/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * windows.cc - windows that kernels find by an address, peers with pointers, and what NCCL 2.31 and
 * 2.32 added to the structs of programs
 */
#include "rig.h"

#include <climits>
#include <cstddef>

/* More windows than a table of the library has. */
enum { WINDOWS = GIN_NCCL_WINDOWS + 9, PIECE = 4096 };

/* Members are in NCCL's order: C++20 compares it with the order of a program's initializers. */
#define ORDER(type, a, b) (offsetof(type, a) < offsetof(type, b))
static_assert(ORDER(ncclDevCommRequirements, ginVaSignalsRequired, ginCustomStride) &&
		      ORDER(ncclDevCommRequirements, ginCustomStride, ginType) &&
		      ORDER(ncclDevCommRequirements, ginType, useRuntimeVersion) &&
		      ORDER(ncclDevCommRequirements, useRuntimeVersion, cftCaps) &&
		      ORDER(ncclDevCommRequirements, cftCaps, cftBarrierCount),
	      "requirements");
static_assert(ORDER(ncclConfig_t, graphStreamOrdering, launchOrderImplicit) &&
		      ORDER(ncclConfig_t, launchOrderImplicit, numRmaSig) &&
		      ORDER(ncclConfig_t, numRmaSig, rmaEagerInit) &&
		      ORDER(ncclConfig_t, rmaEagerInit, hostCftMode) &&
		      ORDER(ncclConfig_t, hostCftMode, nvlsHostMode),
	      "configuration");
static_assert(NCCL_GIN_CONNECTION_CUSTOM_ARRAY == 4 && NCCL_GIN_MAX_TYPES == 6 &&
		      NCCL_CFT_NONE == 0 && NCCL_CFT == 1 && NCCL_CFT_MULTIMEM == 2 &&
		      sizeof(ncclCftCap_t) == 4,
	      "numbers of 2.32");
static_assert(ncclHostCftDefault == INT_MIN && ncclHostCftEnable == 1 && ncclHostCftDisable == 2 &&
		      ncclHostCftFallback == 3 && sizeof(ncclHostCftMode_t) == 4,
	      "CFT of the host");
static_assert(ncclNvlsHostModeDefault == INT_MIN && ncclNvlsHostModeEnable == 0 &&
		      ncclNvlsHostModeDisableTransport == 1 &&
		      ncclNvlsHostModeDisableSymmetricMultimem == 2 &&
		      ncclNvlsHostModeDisable == INT_MAX && sizeof(ncclNvlsHostMode_t) == 4,
	      "NVLS of the host");

/* Each of the `count` pieces is found, but for those whose number `without` divides. */
struct Find : Kernel {
	const ncclWindow_t *windows;
	char *memory;
	int count, without;

	GIN_FN void operator()() const
	{
		ncclCoopCta coop;

		for (int i = 0; i < count; i++) {
			const ncclWindow_t want =
				without && i % without == 0 ? nullptr : windows[i];
			char *const piece = memory + static_cast<size_t>(i) * PIECE;
			KERNEL_EXPECT(ncclFindWindow(coop, dc, piece) == want);
			KERNEL_EXPECT(ncclFindWindow(coop, dc, piece + PIECE - 1) == want);
		}
		KERNEL_EXPECT(!ncclFindWindow(coop, dc, memory - 1));
		KERNEL_EXPECT(
			!ncclFindWindow(coop, dc, memory + static_cast<size_t>(count) * PIECE));
	}
};

static void find(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	std::vector<ncclWindow_t> all(WINDOWS);
	Buffer list(r, WINDOWS * sizeof(ncclWindow_t));
	void *memory = nullptr;
	Device device(r, want);

	CHECK(ncclMemAlloc(&memory, (WINDOWS + 2) * PIECE));
	char *const first = static_cast<char *>(memory) + PIECE;
	const auto add = [&](size_t i) {
		CHECK(ncclCommWindowRegister(r.comm, first + i * PIECE, PIECE, &all[i], 0));
	};
	const auto look = [&](int without) {
		copyBytes(list.ptr, all.data(), WINDOWS * sizeof(ncclWindow_t));
		launch(r, 1, 2,
		       Find{{device.dc, nullptr},
			    static_cast<const ncclWindow_t *>(list.ptr),
			    first,
			    WINDOWS,
			    without});
	};
	for (size_t i = 0; i < WINDOWS; i++)
		add(i);
	look(0);
	for (size_t i = 0; i < WINDOWS; i += 5)
		CHECK(ncclCommWindowDeregister(r.comm, all[i]));
	meet(r); /* the calls of ranks in one process take effect */
	look(5);
	for (size_t i = 0; i < WINDOWS; i += 5)
		add(i);
	look(0);
	for (ncclWindow_t window : all)
		CHECK(ncclCommWindowDeregister(r.comm, window));
	CHECK(ncclMemFree(memory));
}

/* The answer holds for every window. */
struct Peers : Kernel {
	ncclWindow_t w;

	GIN_FN void operator()() const
	{
		const ncclTeam world = ncclTeamWorld(dc), lsa = ncclTeamLsa(dc);

		for (int p = 0; p < dc.nRanks; p++) {
			const bool can = ncclDevCommCanGetPeerPointer(dc, p);
			KERNEL_EXPECT(can == (ncclGetPeerPointer(w, 0, p) != nullptr));
			KERNEL_EXPECT(can || !ncclTeamRankIsMember(lsa, world, p));
		}
		KERNEL_EXPECT(ncclDevCommCanGetPeerPointer(dc, dc.rank));
	}
};

/* Arguments without a meaning are refused. */
static void badConnections(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	int ranks[] = {0, r.nRanks};
	ncclDevComm dc;

	want.ginConnectionType = NCCL_GIN_CONNECTION_CUSTOM_STRIDE;
	want.ginCustomStride = 0;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &want, &dc), ncclInvalidArgument,
		     "ginCustomStride is 0");
	want.ginCustomStride = r.nRanks + 1;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &want, &dc), ncclInvalidArgument, "divisor");
	want.ginConnectionType = NCCL_GIN_CONNECTION_CUSTOM_ARRAY;
	want.ginCustomArrayCount = 2;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &want, &dc), ncclInvalidArgument, "is NULL");
	want.ginCustomArray = ranks;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &want, &dc), ncclInvalidArgument,
		     "ginCustomArray[1]");
	want.ginConnectionType = static_cast<ncclGinConnectionType_t>(5);
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &want, &dc), ncclInvalidArgument, "Type is 5");
}

/* What libgin lacks is false, and refused. */
static void cft(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	ncclCommProperties_t p = NCCL_COMM_PROPERTIES_INITIALIZER;
	ncclDevComm dc;

	p.cftSupport = p.cftMulticastSupport = p.cftCountedSupport = true;
	CHECK(ncclCommQueryProperties(r.comm, &p));
	EXPECT(!p.cftSupport && !p.cftMulticastSupport && !p.cftCountedSupport);
	want.cftCaps = NCCL_CFT;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &want, &dc), ncclInvalidUsage, "cftSupport");
	want.cftCaps = NCCL_CFT_NONE;
	want.cftBarrierCount = 1;
	EXPECT_FAILS(ncclDevCommCreate(r.comm, &want, &dc), ncclInvalidUsage, "cftSupport");
}

static void peers(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	Buffer buffer(r, 4096);
	Device device(r, want);

	launch(r, 1, 1, Peers{{device.dc, nullptr}, buffer.window});
}

static void run(const Rank &r)
{
	find(r);
	peers(r);
	badConnections(r);
	cft(r);
}

int main(int argc, char **argv)
{
	setenv("GIN_LOG", "none", 0); /* failures are meant */
	return rigMain(argc, argv, "nccl windows", run);
}
