/* SPDX-License-Identifier: BSD-3-Clause */
/* stats.c - what went through the queues of a device communicator, for callers and for the log */
#include "devcomm.h"
#include "lib/base/info.h"
#include "lib/base/log.h"

static ginResult_t readStats(ginComm_t comm, const struct devComm *dc, uint32_t context,
			     ginStats_t *stats)
{
	struct deviceScope scope;

	if (context >= dc->device.contexts)
		return fail(ginErrorInvalidArgument, "context is %u: must be 0 to %u", context,
			    dc->device.contexts - 1);
	if (!routesContextsAny(&dc->contexts))
		return fail(ginErrorUnsupported,
			    "device communicator %llu has no queues, and so no statistics: every "
			    "peer's route is direct",
			    (unsigned long long)dc->device.id);
	ginResult_t result = deviceEnter(&comm->device, &scope);
	if (result != ginSuccess)
		return result;
	result = routesContextsStats(comm, &dc->contexts, context, stats);
	deviceLeave(&comm->device, &scope);
	return result;
}

ginResult_t ginCommGetStats(ginComm_t comm, const ginDevComm *devComm, uint32_t context,
			    ginStats_t *info)
{
	ginStats_t stats = GIN_STATS_INIT;
	ginResult_t result = commEnter(comm, "ginCommGetStats");

	if (result != ginSuccess)
		return result;
	pthread_mutex_lock(&comm->lock);
	struct devComm **at = devCommFind(comm, devComm);
	result = at ? readStats(comm, *at, context, &stats) : ginErrorInvalidArgument;
	pthread_mutex_unlock(&comm->lock);
	if (result != ginSuccess)
		return result;
	return infoGive(&stats, sizeof(stats), "GIN_STATS_INIT", info);
}

static double mean(const ginHistogram_t *h)
{
	return h->count ? (double)h->sum / (double)h->count : 0;
}

static void logContext(ginComm_t comm, const struct devComm *dc, uint32_t context,
		       const ginStats_t *s)
{
	logWrite(logStats,
		 "rank %d, device communicator %llu, context %u: %llu posted, %llu completed, %llu "
		 "failed; %llu bytes put, %llu got; %llu waits for room; batches of %.1f, at most "
		 "%llu; released in %.1f us, at most %.1f; visible in %.1f us, at most %.1f",
		 comm->rank, (unsigned long long)dc->device.id, context,
		 (unsigned long long)s->posted, (unsigned long long)s->completed,
		 (unsigned long long)s->failed, (unsigned long long)s->putBytes,
		 (unsigned long long)s->getBytes, (unsigned long long)s->waitsForRoom,
		 mean(&s->batch), (unsigned long long)s->batch.most,
		 mean(&s->takenToReleased) / 1e3, (double)s->takenToReleased.most / 1e3,
		 mean(&s->takenToVisible) / 1e3, (double)s->takenToVisible.most / 1e3);
}

void devCommLogStats(ginComm_t comm, const struct devComm *dc)
{
	if (!routesContextsAny(&dc->contexts) || !logWants(logStats))
		return;
	for (uint32_t c = 0; c < dc->device.contexts; c++) {
		ginStats_t stats = GIN_STATS_INIT;
		if (routesContextsStats(comm, &dc->contexts, c, &stats) == ginSuccess &&
		    stats.posted)
			logContext(comm, dc, c, &stats);
	}
}
