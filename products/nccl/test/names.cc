/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * names.cc - NCCL's constants and types that the other tests do not need
 *
 * Programs keep the numbers in tables of their own, and hand them on. products/nccl/test/every-name
 * finds names of the headers that no test has.
 */
#include "rig.h"

#include <climits>
#include <sys/wait.h>
#include <type_traits>
#include <unistd.h>

template <class A, class B> constexpr bool is = std::is_same<A, B>::value;

static_assert(ncclChar == 0 && ncclUint8 == 1 && ncclInt32 == 2 && ncclUint32 == 3 &&
		      ncclInt64 == 4 && ncclUint64 == 5 && ncclFloat16 == 6 && ncclFloat32 == 7 &&
		      ncclFloat64 == 8 && ncclBfloat16 == 9 && ncclFloat8e4m3 == 10 &&
		      ncclFloat8e5m2 == 11 && ncclNumTypes == 12,
	      "types");
static_assert(ncclUnhandledCudaError == 1 && ncclSystemError == 2 && ncclInternalError == 3 &&
		      ncclInvalidArgument == 4 && ncclInvalidUsage == 5 && ncclRemoteError == 6 &&
		      ncclInProgress == 7 && ncclTimeout == 8,
	      "results");
static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4 &&
		      ncclNumOps == 5 && ncclScalarDevice == 0,
	      "operations");
static_assert(sizeof(ncclTeam_t) == 12 && sizeof(ncclUniqueId) == 128 &&
		      sizeof(ncclGinRequest_t) == 16 && sizeof(ncclDevComm_t) <= 1024,
	      "sizes");
static_assert(NCCL_MAJOR == 2 && NCCL_MINOR >= 30 && NCCL_PATCH < 100 && sizeof(NCCL_SUFFIX) == 1,
	      "version");
static_assert(NCCL_UNIQUE_ID_BYTES == sizeof(ncclUniqueId) && NCCL_API_MAGIC == 0xcafebeef,
	      "structs");
static_assert(NCCL_CONFIG_UNDEF_INT == INT_MIN && NCCL_UNDEF_FLOAT < 0 && NCCL_SUSPEND_MEM == 1,
	      "configuration");
static_assert(NCCL_CTA_POLICY_DEFAULT == 0 && NCCL_CTA_POLICY_EFFICIENCY == 1 &&
		      NCCL_CTA_POLICY_ZERO == 2,
	      "CTA policies");
static_assert(NCCL_WIN_STRICT_ORDERING == 2 && NCCL_WIN_CFT_COUNTED == 8 &&
		      NCCL_WIN_REQUIRED_ALIGNMENT == 4096,
	      "windows");
static_assert(NCCL_GIN_CONNECTION_NONE == 0 && NCCL_GIN_CONNECTION_FULL == 1 &&
		      NCCL_GIN_CONNECTION_RAIL == 2 && NCCL_GIN_CONNECTION_CUSTOM_STRIDE == 3,
	      "connections");
static_assert(NCCL_GIN_TYPE_NONE == 0 && NCCL_GIN_TYPE_PROXY == 2 && NCCL_GIN_TYPE_GDAKI == 3 &&
		      NCCL_GIN_TYPE_GPI == 4 && NCCL_GIN_TYPE_EFA_GDA == 5 &&
		      NCCL_GIN_TYPE_EFA_GDA < NCCL_GIN_TYPES,
	      "types of networks");
static_assert(NCCL_GIN_RESOURCE_SHARING_GPU == 0 && NCCL_GIN_RESOURCE_SHARING_CTA == 1 &&
		      NCCL_GIN_RESOURCE_SHARING_THREAD == 2 &&
		      is<decltype(NCCL_GIN_RESOURCE_SHARING_GPU), ncclGinResourceSharingMode>,
	      "sharing");
static_assert(NCCL_NET_DEVICE_HOST == 0 && NCCL_NET_DEVICE_UNPACK == 1 &&
		      NCCL_NET_DEVICE_GIN_PROXY == 2 && NCCL_NET_DEVICE_GIN_GDAKI == 3 &&
		      NCCL_NET_DEVICE_GIN_GPI == 4 && NCCL_NET_DEVICE_GIN_EFA_GDA == 5 &&
		      is<decltype(NCCL_NET_DEVICE_HOST), ncclNetDeviceType>,
	      "network devices");
static_assert(NCCL_GIN_PROXY_ENABLE && NCCL_GIN_GDAKI_ENABLE &&
		      is<ncclGin, ncclGin_BackendMask<NCCL_GIN_BACKEND_MASK_ALL>>,
	      "a kernel has the code of both network backends");
static_assert(ncclGinSignalInc == 0 && ncclGinSignalAdd == 1 &&
		      is<decltype(ncclGinSignalInc), ncclGinSignalOp_t>,
	      "signals");
static_assert(ncclMaxRedOp == 0x7fffffff && is<decltype(ncclScalarDevice), ncclScalarResidence_t>,
	      "operations");
static_assert(is<ncclComm_t, ncclComm *> && is<ncclWindow_t, ncclWindow_vidmem *> &&
		      is<ncclConfig_t, ncclConfig> &&
		      is<ncclCommProperties_t, ncclCommProperties> &&
		      is<ncclDevResourceHandle, ncclDevResourceHandle_t> &&
		      is<ncclMultimemHandle, ncclMultimemHandle_t> &&
		      is<ncclLsaBarrierHandle, ncclLsaBarrierHandle_t> &&
		      is<ncclGinBarrierHandle, ncclGinBarrierHandle_t> &&
		      is<ncclDevCommRequirements, ncclDevCommRequirements_t> &&
		      is<ncclDevResourceRequirements, ncclDevResourceRequirements_t> &&
		      is<ncclTeamRequirements, ncclTeamRequirements_t>,
	      "each struct has two names");
static_assert(is<decltype(ncclDevCommRequirements::ginConnectionType), ncclGinConnectionType_t> &&
		      is<decltype(ncclDevCommRequirements::ginType), ncclGinType_t>,
	      "enumerations of requirements");
static_assert(std::is_empty<ncclGin_SegmentDevice>::value &&
		      is<decltype(ncclGinOptFlagsDefault), ncclGinOptFlags>,
	      "options of a put");

/* A barrier by multicast memory, which libgin lacks, ends the program. */
static bool endsBySignal(bool multimem)
{
	static const ncclDevComm dc = {};
	int status = 0;
	const pid_t child = fork();

	if (child == 0) {
		ncclLsaBarrierSession<ncclCoopThread> session({}, dc, ncclTeamTagLsa(), 0,
							      multimem);
		_exit(session.team.nRanks);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status);
}

using namespace nccl::utility;

static_assert(divUp(7, 2) == 4 && roundUp(7, 4) == 8 && roundUp(8, 4) == 8 && roundDown(7, 4) == 4,
	      "any divisor");
static_assert(alignUp(5u, 4u) == 8 && alignDown(7ull, 4) == 4 && isPow2(64) && !isPow2(96),
	      "powers of two");

static void arithmetic()
{
	alignas(16) static char bytes[32];
	static const struct {
		double number;
	} constant = {1.5};
	static const uint32_t edges[] = {1,   2,     3,	    5,		7,	   10,
					 641, 65535, 65536, 0x7fffffff, 0xffffffff};

	EXPECT(alignUp(bytes + 1, size_t{16}) == bytes + 16 &&
	       alignDown(bytes + 17, size_t{16}) == bytes + 16);
	EXPECT(rollingLessEq(3u, 3u) && rollingLessEq(0xfffffffeu, 1u) &&
	       !rollingLessEq(1u, 0xfffffffeu));
	EXPECT(rollingLessEq(14ull, 1ull, 4) && !rollingLessThan(3u, 3u) &&
	       rollingLessThan(3u, 4u) && rollingLessThan(14ull, 1ull, 4));
	for (uint32_t y : edges)
		for (uint32_t x : edges)
			EXPECT(idivFast32(x, y, idivRcp32(y)) == x / y &&
			       imodFast32(x, y, idivRcp32(y)) == x % y);
	/* Of the second, fourth, ... rank the first and third are others. */
	EXPECT(ncclTeamRankInDifference({4, 3, 2}, {2, 1, 4}, 0) == 0 &&
	       ncclTeamRankInDifference({4, 3, 2}, {2, 1, 4}, 1) == 2);
	EXPECT(loadConst(&constant).number == 1.5);
	EXPECT(lane() >= 0 && lanemask_lt() == (1u << lane()) - 1);
}

/* A timeout in cycles of a clock of 1.5 GHz, and of a nanosecond each. */
static void timeouts()
{
	ncclDevComm dc = {};

	dc.nanosecondsPer1024Cycles = 682;
	EXPECT(ginNcclNanoseconds(dc, 0) == 1 && ginNcclNanoseconds(dc, 1536) == 1024);
	EXPECT(ginNcclNanoseconds(dc, 1ull << 49) == (682ull << 39) + 1);
	EXPECT(ginNcclNanoseconds(dc, 1ull << 50) == GIN_FOREVER);
	dc.nanosecondsPer1024Cycles = 1024;
	EXPECT(ginNcclNanoseconds(dc, 1024) == 1025 && ginNcclNanoseconds(dc, 7) == 8);
}

/* Which barriers release: on host threads all do, whatever the options say. */
static void orders()
{
	for (auto order : {cuda::memory_order_relaxed, cuda::memory_order_acquire})
		EXPECT(ginNcclReleased(order).given == ginScopeSystem);
	for (auto order :
	     {cuda::memory_order_release, cuda::memory_order_acq_rel, cuda::memory_order_seq_cst})
		EXPECT(ginNcclReleased(order).given == ginOptions().given);
}

int main()
{
	ncclComm_t none = NCCL_COMM_NULL;
	const void *unset = NCCL_CONFIG_UNDEF_PTR;

	EXPECT(!none && !unset);
	arithmetic();
	timeouts();
	orders();
	EXPECT(!endsBySignal(false) && endsBySignal(true));
	puts("nccl names: ok");
	return 0;
}
