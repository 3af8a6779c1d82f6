/* SPDX-License-Identifier: BSD-3-Clause */
/* report.c - failures of kernels, and statistics of the queues */
#include <stdio.h>
#include <string.h>

#include "devcomm.h"
#include "lib/base/info.h"
#include "lib/base/log.h"

const char *devCommCallName(uint32_t call)
{
	static const char *const names[] = {"no call",
					    "put",
					    "putValue",
					    "signal",
					    "waitSignal",
					    "get",
					    "atomic",
					    "waitCounter",
					    "barrier",
					    "flush",
					    "waitValue",
					    "send of packets",
					    "receive of packets",
					    "readSignal",
					    "resetSignal",
					    "readCounter",
					    "resetCounter",
					    "readValue",
					    "call on a signal's shadow"};

	static const char *const ofEp[] = {"dispatch of libgin-ep", "combine of libgin-ep",
					   "notify of libgin-ep", "credit of libgin-ep"};
	const uint32_t ep = call - ginCallEpDispatch;

	if (ep < sizeof(ofEp) / sizeof(ofEp[0]))
		return ofEp[ep];
	return call < sizeof(names) / sizeof(names[0]) ? names[call] : "unknown call";
}

static const char *argumentName(uint32_t argument)
{
	static const char *const names[] = {
		"no argument",	"context",	"peer", "target",   "source",	  "signal",
		"counter",	"barrier",	"team", "box",	    "length",	  "coop",
		"options.bits", "options.from", "word", "box.most", "box.signals"};

	return argument < sizeof(names) / sizeof(names[0]) ? names[argument] : "argument";
}

/* The wrong argument that a kernel with -DGIN_DEVICE_CHECKS has found. */
static void formatFault(const ginErrorRecord_t *r, char *out, size_t bytes)
{
	const char *name = argumentName(r->argument);
	unsigned long long seen = r->seen, expected = r->expected;
	int isRank = r->argument == ginArgumentPeer || r->argument == ginArgumentTeam;

	switch (r->fault) {
	case ginFaultRange:
		if (isRank && (long long)seen < 0) {
			snprintf(out, bytes, "%s is %lld: a rank is not negative", name,
				 (long long)seen);
			break;
		}
		snprintf(out, bytes, "%s is %llu: must be below %llu", name, seen, expected);
		break;
	case ginFaultWindow:
		snprintf(out, bytes, "%s: the window is NULL, or of another communicator", name);
		break;
	case ginFaultEnd:
		snprintf(out, bytes, "%s ends at byte %llu of window %u, which has %llu there",
			 name, seen, r->id, expected);
		break;
	case ginFaultAlignment:
		snprintf(out, bytes, "%s: offset %llu of window %u must be a multiple of %llu",
			 name, seen, r->id, expected);
		break;
	case ginFaultBlock:
		snprintf(out, bytes,
			 "coop: thread %llu of a block of %llu threads is in no such coop", seen,
			 expected);
		break;
	case ginFaultBits:
		snprintf(out, bytes, "%s is %llu: must be 1 to %llu", name, seen, expected);
		break;
	case ginFaultGone:
		snprintf(out, bytes,
			 "%s: the handle is of no window: it was deregistered, or never set", name);
		break;
	case ginFaultLocal:
		snprintf(out, bytes,
			 "%s: a window of GIN_WINDOW_LOCAL can only be the source of a put: "
			 "register it on all ranks, without the flag",
			 name);
		break;
	case ginFaultOverlap:
		snprintf(out, bytes, "%s: its %llu bytes overlap the target's", name, seen);
		break;
	case ginFaultBegin:
		snprintf(out, bytes, "%s begins at byte %lld of window %u, which has %llu there",
			 name, (long long)seen, r->id, expected);
		break;
	case ginFaultNoWindow:
		snprintf(out, bytes, "%s: its %llu bytes are in no window of this rank", name,
			 seen);
		break;
	default:
		snprintf(out, bytes,
			 "coop: its %llu threads pass different arguments: thread %llu among them",
			 expected, seen);
	}
}

void devCommFormatWait(const ginErrorRecord_t *r, char *out, size_t bytes)
{
	const char *what = r->call == ginCallWaitSignal	   ? "signal"
			   : r->call == ginCallWaitCounter ? "counter"
			   : r->call == ginCallWaitValue   ? "value"
			   : r->call >= ginCallEpDispatch  ? "tag of rank"
			   : r->call >= ginCallPacketsSend ? "messages"
			   : r->call == ginCallBarrier	   ? "barrier"
							   : NULL;
	char which[32] = " in a window";

	out[0] = '\0';
	if (!what || r->fault)
		return;
	if (r->id != UINT32_MAX)
		snprintf(which, sizeof(which), " %u", r->id);
	snprintf(out, bytes, ", %s%s: expected at least %llu, saw %llu", what, which,
		 (unsigned long long)r->expected, (unsigned long long)r->seen);
}

/*
 * The known reason for the loss of the record's peer, or why no call reaches the peer, for
 * ginErrorPeer; otherwise NULL. A kernel has written the record: its peer may be no rank. The
 * caller holds comm->lock.
 */
static const char *peerReason(ginComm_t comm, const struct devComm *dc, const ginErrorRecord_t *r)
{
	if (!r->valid || r->result != ginErrorPeer || r->peer < 0)
		return NULL;
	if (r->peer >= comm->nRanks)
		return "a peer failed, but there is no such rank: compile with "
		       "-DGIN_DEVICE_CHECKS, which finds the wrong argument";
	if (dc->unconnected[r->peer] && !comm->lost[r->peer])
		return "this device communicator does not connect this rank to it: leave it out of "
		       "requirements.unconnected";
	if (comm->lost[r->peer] == lostMasked)
		return "this rank has masked it by ginCommMask()";
	return r->peer == dc->whyRank && !comm->lost[r->peer] ? dc->why : NULL;
}

/* Keeps the record in words, for ginGetLastError(). `reason`: of peerReason(). */
static void keepRecord(const ginErrorRecord_t *r, const char *reason)
{
	char text[SENTENCE_BYTES], fault[160], wait[128], where[32] = "";

	if (r->fault) {
		formatFault(r, fault, sizeof(fault));
		reason = fault;
	} else if (!reason) {
		reason = ginGetErrorString((ginResult_t)r->result);
	}
	devCommFormatWait(r, wait, sizeof(wait));
	if (r->peer >= 0)
		snprintf(where, sizeof(where), ", rank %d", r->peer);
	snprintf(text, sizeof(text), "%s in context %u%s%s: %s", devCommCallName(r->call),
		 r->context, wait, where, reason);
	failAs((ginResult_t)r->result, text);
}

ginResult_t ginDevCommGetError(ginComm_t comm, const ginDevComm *devComm, ginErrorRecord_t *record)
{
	ginErrorRecord_t copy = {0};
	char why[SENTENCE_BYTES];
	const char *reason = NULL;
	ginResult_t result = commEnter(comm, "ginDevCommGetError");

	if (result != ginSuccess)
		return result;
	if (!record)
		return fail(ginErrorInvalidArgument, "record is NULL");
	pthread_mutex_lock(&comm->lock);
	struct devComm **at = devCommFind(comm, devComm);
	/* E, acquire end: pairs with ginErrorPublish of the device. */
	if (at && __atomic_load_n(&(*at)->lines->error.valid, __ATOMIC_ACQUIRE))
		copy = (*at)->lines->error;
	if (at)
		reason = peerReason(comm, *at, &copy);
	if (reason)
		reason = strcpy(why, reason);
	pthread_mutex_unlock(&comm->lock);
	if (!at)
		return ginErrorInvalidArgument;
	if (copy.valid)
		keepRecord(&copy, reason);
	*record = copy;
	return ginSuccess;
}

ginResult_t devCommStats(ginComm_t comm, const struct devComm *dc, uint32_t context,
			 ginStats_t *stats)
{
	struct deviceScope scope;

	if (context >= dc->device.contexts)
		return fail(ginErrorInvalidArgument, "context is %u: must be 0 to %u", context,
			    dc->device.contexts - 1);
	ginResult_t result = deviceEnter(&comm->device, &scope);
	if (result != ginSuccess)
		return result;
	result = queuesStats(comm, &dc->queues, context, stats);
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
	result = at ? devCommStats(comm, *at, context, &stats) : ginErrorInvalidArgument;
	pthread_mutex_unlock(&comm->lock);
	if (result != ginSuccess)
		return result;
	return infoGive(&stats, sizeof(stats), "GIN_STATS_INIT", info);
}

/*
 * Kernels with -DGIN_TRACE count posts to direct peers, copies by copy engines among them, and
 * bytes on routes that count posts only. The caller has entered the device's scope.
 */
static ginResult_t addTraced(ginComm_t comm, const struct devComm *dc, int peer,
			     ginPeerStats_t *stats)
{
	struct ginTraceCount count;
	int isDirect = stats->route == ginRouteDirect;
	ginResult_t result = ginErrorUnsupported;

	if (stats->route != ginRouteProxy)
		result = traceCount(comm, dc, peer, &count);
	if (result == ginErrorUnsupported)
		stats->counted &= isDirect ? 0 : ~0u;
	if (result != ginSuccess)
		return result == ginErrorUnsupported ? ginSuccess : result;
	stats->counted = GIN_COUNTED_POSTS | GIN_COUNTED_BYTES;
	stats->putBytes = count.putBytes;
	stats->getBytes = count.getBytes;
	if (!isDirect)
		return ginSuccess;
	stats->posted = count.posted;
	stats->failed = count.failed;
	stats->completed = count.posted - count.failed;
	return ginSuccess;
}

ginResult_t devCommPeerStats(ginComm_t comm, const struct devComm *dc, int peer,
			     ginPeerStats_t *stats)
{
	struct deviceScope scope;

	if (peer < 0 || peer >= comm->nRanks)
		return fail(ginErrorInvalidArgument, "peer is %d: must be 0 to %d", peer,
			    comm->nRanks - 1);
	ginResult_t result = deviceEnter(&comm->device, &scope);
	if (result != ginSuccess)
		return result;
	stats->route = comm->routes[peer];
	result = queuesPeerStats(comm, &dc->queues, peer, stats);
	if (result == ginSuccess)
		result = addTraced(comm, dc, peer, stats);
	deviceLeave(&comm->device, &scope);
	return result;
}

ginResult_t ginCommGetPeerStats(ginComm_t comm, const ginDevComm *devComm, int peer,
				ginPeerStats_t *info)
{
	ginPeerStats_t stats = GIN_PEER_STATS_INIT;
	ginResult_t result = commEnter(comm, "ginCommGetPeerStats");

	if (result != ginSuccess)
		return result;
	pthread_mutex_lock(&comm->lock);
	struct devComm **at = devCommFind(comm, devComm);
	result = at ? devCommPeerStats(comm, *at, peer, &stats) : ginErrorInvalidArgument;
	pthread_mutex_unlock(&comm->lock);
	if (result != ginSuccess)
		return result;
	return infoGive(&stats, sizeof(stats), "GIN_PEER_STATS_INIT", info);
}

static double mean(const ginHistogram_t *h)
{
	return h->count ? (double)h->sum / (double)h->count : 0;
}

static void logContext(const struct devComm *dc, uint32_t context, const ginStats_t *s)
{
	logWrite(logStats,
		 "device communicator %llu, context %u: %llu posted, %llu completed, %llu "
		 "failed; %llu bytes put, %llu got; %llu waits for room; batches of %.1f, at most "
		 "%llu; released in %.1f us, at most %.1f; visible in %.1f us, at most %.1f",
		 (unsigned long long)dc->device.id, context, (unsigned long long)s->posted,
		 (unsigned long long)s->completed, (unsigned long long)s->failed,
		 (unsigned long long)s->putBytes, (unsigned long long)s->getBytes,
		 (unsigned long long)s->waitsForRoom, mean(&s->batch),
		 (unsigned long long)s->batch.most, mean(&s->takenToReleased) / 1e3,
		 (double)s->takenToReleased.most / 1e3, mean(&s->takenToVisible) / 1e3,
		 (double)s->takenToVisible.most / 1e3);
}

/* Direct peers: the contexts have the other ones. */
static void logPeer(ginComm_t comm, const struct devComm *dc, int peer)
{
	ginPeerStats_t s = GIN_PEER_STATS_INIT;

	s.route = comm->routes[peer];
	if (s.route != ginRouteDirect || addTraced(comm, dc, peer, &s) != ginSuccess || !s.posted)
		return;
	logWrite(logStats,
		 "device communicator %llu, to rank %d by direct: %llu posted, %llu failed; %llu "
		 "bytes put, %llu got",
		 (unsigned long long)dc->device.id, peer, (unsigned long long)s.posted,
		 (unsigned long long)s.failed, (unsigned long long)s.putBytes,
		 (unsigned long long)s.getBytes);
}

void devCommLogStats(ginComm_t comm, const struct devComm *dc)
{
	if (!logWants(logStats))
		return;
	for (uint32_t c = 0; queuesAny(&dc->queues) && c < dc->device.contexts; c++) {
		ginStats_t stats = GIN_STATS_INIT;
		if (queuesStats(comm, &dc->queues, c, &stats) == ginSuccess && stats.posted)
			logContext(dc, c, &stats);
	}
	for (int r = 0; r < comm->nRanks; r++)
		logPeer(comm, dc, r);
}
