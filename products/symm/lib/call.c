/* SPDX-License-Identifier: BSD-3-Clause */
/* call.c - barrier, put_signal and wait_signal */
#include "symm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t limit; /* milliseconds */

static void readLimit(void)
{
	ginParamInfo_t info = GIN_PARAM_INFO_INIT;

	int i = 0;

	do {
		ginParamQuery(i, &info);
		if (!strcmp(info.name, "GIN_TIMEOUT"))
			limit = strtoull(info.value, NULL, 10) * 1000;
	} while (++i < info.count);
}

uint64_t symmTimeout(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, readLimit);
	return limit;
}

static const char *nameOf(uint32_t steps)
{
	if (steps & SYMM_PUT)
		return "put";
	return steps == SYMM_RAISE ? "put_signal" : steps == SYMM_TAKE ? "wait_signal" : "barrier";
}

/* "rank 1, 2" for the ranks with one of `steps` missing. False: there is none. */
static int listRanks(const struct ginSymmGroup *group, const uint8_t *missing, uint32_t steps,
		     char *room, size_t bytes)
{
	size_t used = 0;

	room[0] = 0;
	for (int r = 0; r < group->nRanks && used + 16 < bytes; r++)
		if (missing[r] & steps)
			used += (size_t)snprintf(room + used, bytes - used, "%s%d",
						 used ? ", " : "rank ", r);
	return used > 0;
}

static ginResult_t timedOut(const struct ginSymmGroup *group, const struct symmRecord *record,
			    const uint8_t *missing, uint64_t within)
{
	static const struct {
		uint32_t step;
		const char *what;
	} steps[] = {{SYMM_TAKE, "no signal of"},
		     {SYMM_RAISE, "an earlier signal was not taken by"},
		     {SYMM_PUT | SYMM_FLUSH, "the data did not leave for"}};
	char ranks[160];
	int i = 0;

	while (!listRanks(group, missing, steps[i].step, ranks, sizeof(ranks)) && i < 2)
		i++;
	return symmFail(ginErrorTimeout, "rank %d of %d: %s on channel %u: %s %s within %llu ms",
			group->rank, group->nRanks, nameOf(record->steps), record->channel,
			steps[i].what, ranks, (unsigned long long)within);
}

ginResult_t symmRecordFailed(struct ginSymmGroup *group, uint32_t record, uint64_t within)
{
	struct symmPage *page = group->page;
	struct symmRecord *of = &page->record[record];
	const uint8_t *missing = page->missing + record * (uint32_t)group->nRanks;
	ginResult_t result = (ginResult_t)__atomic_exchange_n(&of->result, 0, __ATOMIC_ACQUIRE);

	if (!result)
		return ginSuccess;
	if (result == ginErrorTimeout)
		return timedOut(group, of, missing, within);
	pthread_mutex_lock(&symmLock); /* the sentence is that of the thread of watch.c */
	symmFail(result, "rank %d of %d: %s on channel %u: %s", group->rank, group->nRanks,
		 nameOf(of->steps), of->channel, group->sentence);
	pthread_mutex_unlock(&symmLock);
	return result;
}

/* A record for a call that the host waits for. */
static ginResult_t takeRecord(struct ginSymmGroup *group, uint32_t *record)
{
	uint32_t r = 1;

	pthread_mutex_lock(&symmLock);
	while (r < SYMM_RECORDS && group->recordsInUse >> r & 1)
		r++;
	if (r < SYMM_RECORDS)
		group->recordsInUse |= 1ull << r;
	pthread_mutex_unlock(&symmLock);
	if (r == SYMM_RECORDS)
		return symmFail(ginErrorInvalidUsage, "rank %d: %d calls of the group wait already",
				group->rank, SYMM_RECORDS - 1);
	*record = r;
	return ginSuccess;
}

static void giveRecord(struct ginSymmGroup *group, uint32_t record)
{
	pthread_mutex_lock(&symmLock);
	group->recordsInUse &= ~(1ull << record);
	pthread_mutex_unlock(&symmLock);
}

static ginResult_t launch(struct ginSymmGroup *group, struct symmCall *call, void *stream,
			  int isWaited)
{
	if (group->gpu)
		return symmGpuLaunch(group->gpu, call, stream, isWaited);
	symmHostRun(call);
	return ginSuccess;
}

/* The host waits for the call, and has its failure. */
static ginResult_t runWaited(struct ginSymmGroup *group, struct symmCall *call, void *stream,
			     uint64_t timeoutMs)
{
	ginResult_t result = takeRecord(group, &call->record);

	if (result)
		return result;
	result = launch(group, call, stream, 1);
	if (!result)
		result = symmRecordFailed(group, call->record, timeoutMs);
	giveRecord(group, call->record);
	return result;
}

static ginResult_t notDirect(struct ginSymmPeers *p, const char *name, int rank)
{
	ginPeerInfo_t info = GIN_PEER_INFO_INIT;

	ginCommQueryPeer(p->group->comm, rank, &info);
	return symmFail(ginErrorUnsupported,
			"%s: rank %d of host %s has no direct route to this rank (%s), so it has "
			"no address here: make a group of the ranks with direct routes, or use "
			"barrier, put_signal, wait_signal and puts into the tensor's window",
			name, rank, info.host, info.why);
}

ginResult_t ginSymmNeedDirect(ginSymmPeers_t p, const char *name)
{
	for (int r = 0; r < p->group->nRanks; r++)
		if (!p->pads[r])
			return notDirect(p, name, r);
	return ginSuccess;
}

static ginResult_t check(struct ginSymmPeers *p, const struct symmCall *call, int channel, int rank)
{
	int nRanks = p->group->nRanks;
	long channels = symmChannels(p->group, p->padBytes);
	const char *name = nameOf(call->steps);

	if (channel < 0 || channel >= channels)
		return symmFail(ginErrorInvalidArgument,
				"%s: channel %d: the maximum supported channel is %ld", name,
				channel, channels - 1);
	if (rank < 0 || rank >= nRanks)
		return symmFail(ginErrorInvalidArgument, "%s: rank must be in [0, %d) (got %d)",
				name, nRanks, rank);
	return ginSuccess;
}

/* What calls to peers without a direct route need. */
static void addFar(struct ginSymmPeers *p, struct symmCall *call)
{
	size_t first = call->channel * call->nRanks;

	call->dc = p->group->devComm.self;
	call->padWindow = p->padWindow;
	call->window = p->window;
	call->counts = p->pad->counts + first;
	call->countsAt = symmCountsAt(p->padBytes) + first * sizeof(struct symmCount);
}

/* The group's host calls take `rank` 0 for a barrier, which is of all ranks. */
static ginResult_t run(struct ginSymmPeers *p, struct symmCall call, int rank, int channel,
		       size_t timeoutMs, void *stream)
{
	struct ginSymmGroup *group = p->group;
	ginResult_t result = symmGroupStopped(group);

	if (result || (result = check(p, &call, channel, rank)))
		return result;
	uint64_t within = timeoutMs ? timeoutMs : symmTimeout();
	call.pads = (uint32_t *const *)p->pad->padsDev;
	call.page = group->page;
	call.timeout = within * 1000000;
	call.rank = (uint32_t)group->rank;
	call.nRanks = (uint32_t)group->nRanks;
	call.channel = (uint32_t)channel;
	call.first = (uint32_t)rank;
	addFar(p, &call);
	if (call.steps == (SYMM_RAISE | SYMM_TAKE))
		call.done = p->pad->done + (size_t)channel * (size_t)group->nRanks;
	if (!group->gpu || (timeoutMs && !symmGpuIsCapturing(group->gpu, stream)))
		return runWaited(group, &call, stream, within);
	call.record = symmLater;
	return launch(group, &call, stream, 0);
}

ginResult_t ginSymmBarrier(ginSymmPeers_t peers, int channel, size_t timeoutMs, void *stream)
{
	struct symmCall call = {.steps = SYMM_RAISE | SYMM_TAKE,
				.count = (uint32_t)peers->group->nRanks};

	return run(peers, call, 0, channel, timeoutMs, stream);
}

ginResult_t ginSymmPutSignal(ginSymmPeers_t peers, int rank, int channel, size_t timeoutMs,
			     void *stream)
{
	struct symmCall call = {.steps = SYMM_RAISE, .count = 1};

	return run(peers, call, rank, channel, timeoutMs, stream);
}

ginResult_t ginSymmWaitSignal(ginSymmPeers_t peers, int rank, int channel, size_t timeoutMs,
			      void *stream)
{
	struct symmCall call = {.steps = SYMM_TAKE, .count = 1};

	return run(peers, call, rank, channel, timeoutMs, stream);
}

static int isWithin(const ginSymmPeers_t p, size_t at, size_t bytes)
{
	return at <= p->block->bytes && bytes <= p->block->bytes - at;
}

/* Is the range in a block that has met the group? A put's source is in a window. */
static int hasWindow(struct ginSymmGroup *group, const void *source, size_t bytes)
{
	pthread_mutex_lock(&symmLock);
	const struct symmBlock *block = symmBlockAround(source);
	const struct ginSymmPeers *p = block ? block->peers : NULL;
	while (p && p->group != group)
		p = p->nextOfBlock;
	int fits = p && bytes <= block->bytes - (size_t)((const char *)source -
							 (const char *)block->memory.base);
	pthread_mutex_unlock(&symmLock);
	return fits;
}

ginResult_t ginSymmPut(ginSymmPeers_t peers, int rank, size_t at, const void *source, size_t bytes,
		       size_t timeoutMs, void *stream)
{
	struct symmCall call = {.steps = SYMM_PUT | SYMM_FLUSH, .count = 1};
	int nRanks = peers->group->nRanks;

	if (rank < 0 || rank >= nRanks)
		return symmFail(ginErrorInvalidArgument, "put: rank must be in [0, %d) (got %d)",
				nRanks, rank);
	if (peers->pads[rank])
		return symmFail(ginErrorInvalidUsage,
				"put: rank %d has a direct route: copy to its address", rank);
	if (!isWithin(peers, at, bytes))
		return symmFail(ginErrorInvalidArgument,
				"put: %zu bytes at offset %zu are not within the %zu of rank %d's "
				"tensor",
				bytes, at, peers->block->bytes, rank);
	if (!hasWindow(peers->group, source, bytes))
		return symmFail(
			ginErrorInvalidArgument,
			"put: rank %d has no direct route to this rank, so the source is to "
			"be symmetric memory of the group, after its rendezvous",
			rank);
	call.source = source;
	call.at = at;
	call.bytes = bytes;
	return run(peers, call, rank, 0, timeoutMs, stream);
}
