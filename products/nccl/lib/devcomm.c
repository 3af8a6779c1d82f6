/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devcomm.c - device communicators: NCCL's requirements as libgin's requirements
 *
 * libgin has one index space for barriers, and an index belongs to one team. Each kind of barrier
 * gets a range of indexes.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "driver.h"

/* bufferAlign of a requirement that asks for `bufferSize` barriers: no alignment has this value. */
#define BARRIER_REQUEST ((size_t)0x6e69672d72616221)
#define LSA_BARRIER_REQUEST (BARRIER_REQUEST + 1)

#define HANDLE_UNIT ((size_t)128) /* of ncclDevResourceHandle */

/* The requirements in libgin's words, and the ncclDevComm that follows from them. */
struct plan {
	ginDevCommRequirements_t want;
	size_t bufferBytes;
	ncclDevComm_t dc; /* with counts and barrier handles */
};

/* The routes that a type of NCCL's allows, including direct. 0: libgin has no such route. */
static uint64_t routesOfType(ncclGinType_t type)
{
	if (type == NCCL_GIN_TYPE_NONE)
		return GIN_ROUTES_ALL;
	if (type == NCCL_GIN_TYPE_PROXY)
		return GIN_ROUTES_DIRECT | GIN_ROUTES_PROXY;
	return type == NCCL_GIN_TYPE_GDAKI ? GIN_ROUTES_DIRECT | GIN_ROUTES_GDAKI : 0;
}

static ncclResult_t checkNetwork(const ncclDevCommRequirements_t *r)
{
	if (!routesOfType(r->ginType))
		return ncclFail(ncclInvalidUsage,
				"ncclDevCommCreate: ginType is %d: libgin has NCCL_GIN_TYPE_PROXY "
				"and NCCL_GIN_TYPE_GDAKI",
				(int)r->ginType);
	return ncclTrafficClassCheck("ncclDevCommCreate", "ginTrafficClass", r->ginTrafficClass);
}

/*
 * A struct of NCCL's headers, which have all members of libgin's up to ginCustomArray, in one
 * order. Versions before 2.32 end before cftCaps, where the struct has padding.
 */
static size_t sharedBytes(const ncclDevCommRequirements_t *given)
{
	const size_t most = given->version >= 23200
				    ? offsetof(ncclDevCommRequirements_t, ginCustomArray)
				    : offsetof(ncclDevCommRequirements_t, cftCaps);

	return given->size < most ? given->size : most;
}

/* Does it come from NCCL's headers, and are the kernels compiled when the program runs? */
static int isForeign(const ncclDevCommRequirements_t *given)
{
	return given->magic == NCCL_API_MAGIC && given->size < sizeof(*given) &&
	       given->size > offsetof(ncclDevCommRequirements_t, useRuntimeVersion) &&
	       given->useRuntimeVersion;
}

/* Is it a struct of this libgin's headers? */
static ncclResult_t checkVersion(const ncclDevCommRequirements_t *r)
{
	if (r->magic != NCCL_API_MAGIC || r->size != sizeof(*r))
		return ncclFail(ncclInvalidUsage,
				"ncclDevCommCreate: initialize the requirements with "
				"NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER of libgin's nccl_device.h; "
				"a program that was compiled with NCCL's headers sets "
				"useRuntimeVersion, and compiles its kernels with libgin's when it "
				"runs");
	if (r->ginDeviceAbi != GIN_DEVICE_ABI)
		return ncclFail(ncclInvalidUsage,
				"ncclDevCommCreate: the program was compiled for device ABI %u, "
				"but libgin-nccl.so has %u: compile the program again",
				r->ginDeviceAbi, GIN_DEVICE_ABI);
	return ncclSuccess;
}

static ncclResult_t checkMultimem(const ncclDevCommRequirements_t *r)
{
	if (r->lsaMultimem)
		return ncclFail(ncclInvalidUsage, "ncclDevCommCreate: lsaMultimem is set, but "
						  "libgin has no multicast memory");
	for (ncclTeamRequirements_t *t = r->teamRequirementsList; t; t = t->next)
		if (t->multimem)
			return ncclFail(ncclInvalidUsage,
					"ncclDevCommCreate: a team asks for multimem, but libgin "
					"has no multicast memory");
	return ncclSuccess;
}

static ncclResult_t checkCft(const ncclDevCommRequirements_t *r)
{
	if (r->cftCaps == NCCL_CFT_NONE && r->cftBarrierCount <= 0)
		return ncclSuccess;
	return ncclFail(ncclInvalidUsage,
			"ncclDevCommCreate: cftCaps is %d and cftBarrierCount is %d: libgin has no "
			"CFT, and cftSupport says so",
			r->cftCaps, r->cftBarrierCount);
}

static ncclResult_t checkCounts(const ncclDevCommRequirements_t *r)
{
	if (r->lsaLLA2ABlockCount > 0)
		return ncclFail(ncclInvalidUsage,
				"ncclDevCommCreate: lsaLLA2ABlockCount is %d, "
				"but ncclLLA2ASession is not supported",
				r->lsaLLA2ABlockCount);
	if (r->barrierCount < 0 || r->lsaBarrierCount < 0 || r->railGinBarrierCount < 0 ||
	    r->worldGinBarrierCount < 0 || r->ginSignalCount < 0 || r->ginCounterCount < 0)
		return ncclFail(ncclInvalidArgument, "ncclDevCommCreate: a count is negative");
	return ncclSuccess;
}

static ncclResult_t checkRequirements(const struct ncclComm *comm,
				      const ncclDevCommRequirements_t *r)
{
	ncclResult_t result = checkVersion(r);

	if (result == ncclSuccess)
		result = checkMultimem(r);
	if (result == ncclSuccess)
		result = checkCft(r);
	if (result == ncclSuccess)
		result = ncclConnectionsCheck(comm, r);
	if (result == ncclSuccess)
		result = checkCounts(r);
	return result == ncclSuccess ? checkNetwork(r) : result;
}

/*
 * NCCL 2.28 has no initializer: its programs set the requirements to zeros first. Such a struct
 * does not tell for which device ABI and routes the program was compiled: all are assumed.
 */
static ncclDevCommRequirements_t completed(const ncclDevCommRequirements_t *given)
{
	static const ncclDevCommRequirements_t preset = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	ncclDevCommRequirements_t own = preset;

	if (isForeign(given)) {
		memcpy(&own, given, sharedBytes(given));
		own.size = preset.size;
		return own;
	}
	own = *given;
	if (own.magic || own.size)
		return own;
	own.size = preset.size;
	own.magic = preset.magic;
	own.version = preset.version;
	if (!own.ginContextCount)
		own.ginContextCount = preset.ginContextCount;
	own.ginTrafficClass = preset.ginTrafficClass;
	own.ginStrongSignalsRequired = preset.ginStrongSignalsRequired;
	own.ginVaSignalsRequired = preset.ginVaSignalsRequired;
	own.ginRoutes = preset.ginRoutes;
	own.ginDeviceAbi = preset.ginDeviceAbi;
	return own;
}

static uint32_t atLeastOne(int value)
{
	return value > 0 ? (uint32_t)value : 1;
}

/* Takes `count` barriers, of `width` barriers of libgin each; returns the first. */
static uint32_t takeBarriers(struct plan *plan, int count, uint32_t width)
{
	const uint32_t first = plan->want.barriers;

	plan->want.barriers += (uint32_t)count * width;
	return first;
}

#define TAKE_RANGE(plan, handle, number, width)                                                    \
	do {                                                                                       \
		(plan)->dc.handle.count = (uint32_t)(number);                                      \
		(plan)->dc.handle.first = takeBarriers(plan, number, width);                       \
	} while (0)

/* An LSA barrier has a word for each rank of the domain: width() of ncclLsaBarrierSession. */
static uint32_t lsaWidth(const struct ncclComm *comm)
{
	return ((uint32_t)comm->domainSize + GIN_BARRIER_ROUNDS - 1) / GIN_BARRIER_ROUNDS;
}

/* A program that asks for hybrid barriers alone may use barriers of the other kinds, too. */
static int orHybrid(int own, const ncclDevCommRequirements_t *r)
{
	return own > r->barrierCount ? own : r->barrierCount;
}

static void planBarriers(struct plan *plan, uint32_t lsa, const ncclDevCommRequirements_t *r)
{
	TAKE_RANGE(plan, lsaBarrier, orHybrid(r->lsaBarrierCount, r), lsa);
	TAKE_RANGE(plan, railGinBarrier, orHybrid(r->railGinBarrierCount, r), 1);
	TAKE_RANGE(plan, worldGinBarrier, orHybrid(r->worldGinBarrierCount, r), 1);
	TAKE_RANGE(plan, hybridLsaBarrier, r->barrierCount, lsa);
	TAKE_RANGE(plan, hybridRailGinBarrier, r->barrierCount, 1);
	TAKE_RANGE(plan, hybridWorldGinBarrier, r->barrierCount, 1);
}

static void planBuffer(struct plan *plan, const ncclDevResourceRequirements_t *r)
{
	const size_t align = r->bufferAlign > HANDLE_UNIT ? r->bufferAlign : HANDLE_UNIT;
	const size_t at = (plan->bufferBytes + align - 1) / align * align;

	if (r->outBufferHandle)
		*r->outBufferHandle = (ncclDevResourceHandle)(at / HANDLE_UNIT);
	plan->bufferBytes = at + r->bufferSize;
}

static void planResource(struct plan *plan, uint32_t lsa, const ncclDevResourceRequirements_t *r)
{
	if (r->bufferAlign == BARRIER_REQUEST || r->bufferAlign == LSA_BARRIER_REQUEST) {
		*r->outBufferHandle = takeBarriers(plan, (int)r->bufferSize,
						   r->bufferAlign == BARRIER_REQUEST ? 1 : lsa);
		return;
	}
	planBuffer(plan, r);
	if (r->outGinSignalStart)
		*r->outGinSignalStart = plan->want.signals;
	if (r->outGinCounterStart)
		*r->outGinCounterStart = plan->want.counters;
	plan->want.signals += (uint32_t)(r->ginSignalCount > 0 ? r->ginSignalCount : 0);
	plan->want.counters += (uint32_t)(r->ginCounterCount > 0 ? r->ginCounterCount : 0);
}

/* The requirement; without one, the communicator's; without both, GIN_NIC_TC. */
static void planTrafficClass(struct plan *plan, const struct ncclComm *comm, int required)
{
	const int chosen =
		required == NCCL_CONFIG_UNDEF_INT ? comm->choices.trafficClass : required;

	if (chosen != NCCL_CONFIG_UNDEF_INT)
		plan->want.trafficClass = chosen;
}

static void makePlan(struct plan *plan, const struct ncclComm *comm,
		     const ncclDevCommRequirements_t *r)
{
	*plan = (struct plan){.want = GIN_DEV_COMM_REQUIREMENTS_INIT};
	plan->want.contexts = atLeastOne(r->ginContextCount);
	plan->want.signals = (uint32_t)r->ginSignalCount;
	plan->want.counters = (uint32_t)r->ginCounterCount;
	plan->want.barriers = 0;
	if (r->ginQueueDepth > 0)
		plan->want.queueDepth = (uint32_t)r->ginQueueDepth;
	planTrafficClass(plan, comm, r->ginTrafficClass);
	uint64_t routes = r->ginRoutes & routesOfType(r->ginType);
	if (routes != GIN_ROUTES_ALL)
		plan->want.routes = routes;
	planBarriers(plan, lsaWidth(comm), r);
	for (ncclDevResourceRequirements_t *one = r->resourceRequirementsList; one; one = one->next)
		planResource(plan, lsaWidth(comm), one);
	plan->bufferBytes = (plan->bufferBytes + HANDLE_UNIT - 1) / HANDLE_UNIT * HANDLE_UNIT;
}

/*
 * Writes the table of _ginHandle, after the buffers. A kernel may poll a signal's word only if one
 * class of agents, GPUs or NICs, raises all signals.
 */
static int writeHandles(int device, const struct plan *plan, char *memory)
{
	const ginDevComm *gin = &plan->dc.gin;
	const size_t bytes = gin->contexts * sizeof(struct ncclGinGdakiGPUContext);
	struct ncclGinGdakiGPUContext *table = malloc(bytes);
	uint64_t *words = gin->signal[gin->signal[ginWriterGpu] ? ginWriterGpu : ginWriterNic];

	if (!table)
		return -1;
	if (gin->signal[ginWriterCpu] || (gin->signal[ginWriterGpu] && gin->signal[ginWriterNic]))
		words = NULL;
	for (uint32_t c = 0; c < gin->contexts; c++)
		table[c].signals_table.buffer = words ? words + (size_t)c * gin->signals : NULL;
	int failed = ncclDriverWrite(device, memory + plan->bufferBytes, table, bytes);
	free(table);
	return failed;
}

/* Memory for the buffers and the table, and a window over both. Collective. */
static ncclResult_t makeWindow(ncclComm_t comm, struct plan *plan)
{
	const size_t bytes =
		plan->bufferBytes + plan->want.contexts * sizeof(struct ncclGinGdakiGPUContext);
	ginWindow_t window;
	void *memory = NULL;
	int failed = ginMemAlloc(comm->gin, bytes, &memory) != ginSuccess ||
		     ncclDriverClear(comm->device, memory, bytes) ||
		     writeHandles(comm->device, plan, memory);

	/* A rank that failed registers NULL: the collective call then fails on all ranks. */
	ginResult_t result =
		ginWindowRegister(comm->gin, failed ? NULL : memory, bytes, 0, &window);
	if (result != ginSuccess) {
		ncclFromGin(result);
		ginMemFree(comm->gin, memory);
		return failed ? ncclFail(ncclSystemError,
					 "ncclDevCommCreate: no memory for resource buffers")
			      : ncclSystemError;
	}
	plan->dc.resourceWindow = (ncclWindow_t)(void *)window.table;
	plan->dc.ginHandle =
		(struct ncclGinGdakiGPUContext *)(void *)((char *)memory + plan->bufferBytes);
	return ncclWindowNote(comm, memory, 0, plan->dc.resourceWindow);
}

/* Host threads have no clock of a GPU: a cycle is a nanosecond. */
static uint32_t nanosecondsPer1024Cycles(int device)
{
	const struct ncclDriver *cuda = ncclDriverLoad();
	int kilohertz = 0;

	if (device < 0 || !cuda ||
	    cuda->deviceGetAttribute(&kilohertz, ncclDriverClockKilohertz, device) ||
	    kilohertz <= 0)
		return 1024;
	return (uint32_t)(1024000000ull / (unsigned)kilohertz);
}

static void fillDevComm(ncclComm_t comm, struct plan *plan)
{
	ncclDevComm_t *dc = &plan->dc;

	dc->rank = comm->rank;
	dc->nRanks = comm->nRanks;
	dc->lsaRank = (int)dc->gin.domainRank;
	dc->lsaSize = (int)dc->gin.domainSize;
	dc->ginContextCount = (int)plan->want.contexts;
	dc->ginSignalCount = (int)plan->want.signals;
	dc->ginCounterCount = (int)plan->want.counters;
	dc->ginConnectionCount = 1;
	dc->nanosecondsPer1024Cycles = nanosecondsPer1024Cycles(comm->device);
}

struct createArgs {
	ncclComm_t comm;
	ncclDevCommRequirements_t requirements;
	ncclDevComm_t *out;
};

/* A rank that has failed passes NULL: the collective call then fails on all ranks. */
static ncclResult_t createGin(ncclComm_t comm, struct plan *plan,
			      const ncclDevCommRequirements_t *r)
{
	struct ncclConnections *c = malloc(sizeof(*c) + (size_t)comm->nRanks);
	const int count = c ? ncclConnectionsRead(comm, r, c) : 0;

	if (count)
		plan->want.unconnected = c->unconnected;
	ncclResult_t result =
		ncclFromGin(ginDevCommCreate(comm->gin, c ? &plan->want : NULL, &plan->dc.gin));
	if (!c)
		return ncclFail(ncclSystemError, "no memory");
	if (result == ncclSuccess && count)
		ncclConnectionsNote(comm, c, &plan->dc.gin);
	else
		free(c);
	return result;
}

static ncclResult_t runCreate(void *args)
{
	const struct createArgs *a = args;
	struct plan plan;
	ncclResult_t result = ncclEndKept(a->comm);

	if (result != ncclSuccess)
		return result;
	makePlan(&plan, a->comm, &a->requirements);
	result = createGin(a->comm, &plan, &a->requirements);
	if (result != ncclSuccess)
		return result;
	fillDevComm(a->comm, &plan);
	plan.dc.windows = ncclWindowTables(a->comm);
	result = plan.dc.windows ? makeWindow(a->comm, &plan)
				 : ncclFail(ncclSystemError, "no memory");
	if (result != ncclSuccess) {
		ncclConnectionsForget(a->comm, &plan.dc.gin);
		ginDevCommDestroy(a->comm->gin, &plan.dc.gin);
		return result;
	}
	*a->out = plan.dc;
	return ncclSuccess;
}

ncclResult_t ncclDevCommCreate(ncclComm_t comm, ncclDevCommRequirements_t const *requirements,
			       ncclDevComm_t *devComm)
{
	struct createArgs args = {.comm = comm, .out = devComm};
	ncclResult_t result;

	if (!comm || !devComm || !requirements)
		return ncclFail(ncclInvalidArgument, "ncclDevCommCreate: %s is NULL",
				!comm	   ? "comm"
				: !devComm ? "devComm"
					   : "requirements");
	args.requirements = completed(requirements);
	if ((result = checkRequirements(comm, &args.requirements)) != ncclSuccess)
		return result;
	return ncclGroupDo(comm, runCreate, &args, sizeof(args));
}

ncclResult_t ncclDevCommDestroy(ncclComm_t comm, ncclDevComm_t const *devComm)
{
	struct ending ending = {.kind = endingOfDevComm};

	if (!comm || !devComm)
		return ncclFail(ncclInvalidArgument, "ncclDevCommDestroy: %s is NULL",
				comm ? "devComm" : "comm");
	ending.devComm = *devComm;
	return ncclEnd(comm, &ending);
}

/* `first` and `have`: the fields of a handle. */
static ncclResult_t requireBarriers(const char *call, size_t request, int count, uint32_t *first,
				    uint32_t *have, ncclDevResourceRequirements_t *out)
{
	if (count < 0 || !first || !out)
		return ncclFail(ncclInvalidArgument,
				"%s: the count is negative, or handle or requirement is NULL",
				call);
	*have = (uint32_t)count;
	*out = (ncclDevResourceRequirements_t){
		.bufferSize = (size_t)count, .bufferAlign = request, .outBufferHandle = first};
	return ncclSuccess;
}

ncclResult_t ncclLsaBarrierCreateRequirement(ncclTeam_t team, int count,
					     ncclLsaBarrierHandle_t *handle,
					     ncclDevResourceRequirements_t *requirement)
{
	(void)team;
	return requireBarriers("ncclLsaBarrierCreateRequirement", LSA_BARRIER_REQUEST, count,
			       handle ? &handle->first : NULL, handle ? &handle->count : NULL,
			       requirement);
}

ncclResult_t ncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int count,
					     ncclGinBarrierHandle_t *handle,
					     ncclDevResourceRequirements_t *requirement)
{
	(void)comm;
	(void)team;
	return requireBarriers("ncclGinBarrierCreateRequirement", BARRIER_REQUEST, count,
			       handle ? &handle->first : NULL, handle ? &handle->count : NULL,
			       requirement);
}
