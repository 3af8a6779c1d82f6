/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trace.c - GIN_TRACE: takes records of calls from a ring into a file
 *
 * Kernels with -DGIN_TRACE write the records (include/gin/core/trace.cuh) and never wait. The
 * control thread empties the ring, ginDevCommDestroy() for the last time. include/gin/trace.h
 * describes the file. Each part is one write() to a file that is open for appending: ranks may
 * share a file.
 */
#include "trace.h"

#include <limits.h>
#include <string.h>
#include <sys/uio.h>

#include "devcomm.h"
#include "gin/trace.h"
#include "lib/base/clock.h"
#include "lib/base/deadline.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/net/auth.h"
#include "lib/base/param.h"
#include "lib/gpu/pinned.h"
#include "lib/stream/stream.h"

#define PART 256 /* records, at most */
#define PHASE (1ull << 63)
#define LINE 64 /* bytes before the records: `taken` and `lostSeen` */

static struct ginTraceHead headOf(ginComm_t comm, const struct devComm *dc, uint32_t count)
{
	struct ginTraceHead head = {.communicator = siphash(comm->control.key, "trace", 5),
				    .rank = (uint32_t)comm->rank,
				    .nRanks = (uint32_t)comm->nRanks,
				    .devComm = (uint32_t)dc->device.id,
				    .count = count};

	memcpy(head.magic, GIN_TRACE_MAGIC, sizeof(head.magic));
	snprintf(head.host, sizeof(head.host), "%.31s", comm->ranks[comm->rank].host);
	return head;
}

/* After a failure the trace goes on without a file. */
static void writePart(ginComm_t comm, struct devComm *dc, const struct ginTraceRecord *records,
		      uint32_t count)
{
	struct ginTraceHead head = headOf(comm, dc, count);
	struct iovec part[2] = {{&head, sizeof(head)},
				{(void *)(uintptr_t)records, count * sizeof(*records)}};
	ssize_t all = (ssize_t)(part[0].iov_len + part[1].iov_len), written;

	if (!count || dc->trace.fd < 0)
		return;
	do
		written = writev(dc->trace.fd, part, 2);
	while (written < 0 && errno == EINTR);
	if (written == all)
		return;
	logWrite(logWarn, "the trace ends: GIN_TRACE=%s cannot be written: %s",
		 paramText(paramTrace), written < 0 ? strerror(errno) : "no space");
	close(dc->trace.fd);
	dc->trace.fd = -1;
}

/*
 * Takes a record. A word is there when it has the phase of its lap: no word orders another. Z,
 * release end: the slot may be written again when traceDrain() has stored `taken`.
 */
static int traceTake(struct trace *t, struct ginTraceRecord *out)
{
	uint64_t depth = 1ull << t->ring.logDepth;
	const uint64_t *slot = t->ring.records + (t->next & (depth - 1)) * GIN_TRACE_WORDS;
	uint64_t phase = (~(t->next >> t->ring.logDepth) & 1) << 63;

	for (int i = 0; i < GIN_TRACE_WORDS; i++) {
		uint64_t word = __atomic_load_n(slot + i, __ATOMIC_RELAXED);
		if ((word ^ phase) & PHASE)
			return 0;
		out->word[i] = word & ~PHASE;
	}
	t->next++;
	return 1;
}

static void drainLost(ginComm_t comm, struct devComm *dc)
{
	struct ginTraceRecord record = {.word[GIN_TRACE_WHAT] = GIN_TRACE_LOST};
	uint64_t lost = __atomic_load_n(dc->trace.lostSeen, __ATOMIC_RELAXED);

	if (lost <= dc->trace.lost)
		return;
	dc->trace.lost = lost;
	record.word[GIN_TRACE_BYTES] = lost;
	writePart(comm, dc, &record, 1);
}

void traceDrain(ginComm_t comm, struct devComm *dc)
{
	struct ginTraceRecord part[PART];
	struct trace *t = &dc->trace;
	uint64_t end = t->next + (1ull << t->ring.logDepth); /* kernels may go on writing */
	uint32_t count;

	if (!t->pinned)
		return;
	do {
		for (count = 0; count < PART && traceTake(t, &part[count]); count++)
			;
		__atomic_store_n(t->taken, t->next, __ATOMIC_RELEASE); /* Z */
		writePart(comm, dc, part, count);
	} while (count == PART && t->next < end);
	drainLost(comm, dc);
}

void traceWaiting(ginComm_t comm, struct devComm *dc, const struct ginWaitRecord *r,
		  uint64_t waited, int rank)
{
	struct ginTraceRecord record = {{
		[GIN_TRACE_BEGIN] = r->now - waited,
		[GIN_TRACE_END] = r->now,
		[GIN_TRACE_WHAT] =
			GIN_TRACE_WAITING | r->call << 8 | (uint64_t)(r->context & 0xffff) << 32,
		[GIN_TRACE_WHOM] = ((uint32_t)rank & GIN_TRACE_NONE) |
				   (uint64_t)(r->id & GIN_TRACE_NONE) << 31,
		[GIN_TRACE_BYTES] = r->seen & ~PHASE,
		[GIN_TRACE_VALUE] = r->expected & ~PHASE,
	}};

	if (dc->trace.pinned)
		writePart(comm, dc, &record, 1);
}

static uint64_t realNow(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

/*
 * Asks a kernel of libgin-stream.so for the GPU's clock; 0: there is none. The answer that comes
 * soonest counts: it was given halfway between the question and its arrival.
 */
static int readGpuClock(ginComm_t comm, struct devComm *dc, uint64_t *gpu, uint64_t *host)
{
	const struct streamCalls *calls = streamCallsFind(comm);
	struct streamClock *clock = (struct streamClock *)(void *)(dc->trace.lostSeen + 1);
	const struct cuda *cuda = comm->device.cuda;
	uint64_t best = SECOND;
	cuStream stream;

	if (!calls || cuda->streamCreate(&stream, cuNonBlocking))
		return 0;
	*clock = (struct streamClock){0};
	const char *refused = calls->clock(clock, stream);
	uint64_t end = clockNow() + SECOND, limit = deadlineToTell();
	if (limit < end)
		end = limit;
	for (uint32_t i = 1; !refused && i <= STREAM_CLOCK_ROUNDS; i++) {
		uint64_t asked = clockNow(), now = asked;
		__atomic_store_n(&clock->asked, i, __ATOMIC_RELEASE);
		while (__atomic_load_n(&clock->answered, __ATOMIC_ACQUIRE) != i && now < end)
			now = clockNow();
		now = clockNow();
		if (now < end && now - asked < best) {
			best = now - asked;
			*gpu = clock->now;
			*host = asked + best / 2;
		}
	}
	if (!refused && clock->answered == STREAM_CLOCK_ROUNDS)
		cuda->streamSynchronize(stream);
	else if (!refused)
		dc->trace.isKept = 1; /* the GPU is busy; the kernel ends some time */
	cuda->streamDestroy(stream);
	return best < SECOND;
}

static void writeClock(ginComm_t comm, struct devComm *dc)
{
	uint64_t host = clockNow(), real = realNow(), kernel = host, flags = 0;

	if (comm->device.cuda && !readGpuClock(comm, dc, &kernel, &host)) {
		kernel = real;
		flags = GIN_TRACE_GUESS;
	}
	const struct ginTraceRecord record = {
		{[GIN_TRACE_BEGIN] = kernel,
		 [GIN_TRACE_END] = host,
		 [GIN_TRACE_WHAT] = GIN_TRACE_CLOCK | flags << 24,
		 [GIN_TRACE_BYTES] = 1ull << dc->trace.ring.logEvery,
		 [GIN_TRACE_VALUE] = realNow() - (clockNow() - host)}};
	writePart(comm, dc, &record, 1);
}

static int openFile(ginComm_t comm)
{
	char path[PATH_MAX];

	errno = ENAMETOOLONG;
	if (!logPath(path, paramText(paramTrace), comm->rank))
		return -1;
	return fileAboveStandard(open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
}

/* The next power of two, at least 2^log. */
static uint64_t logOf(enum param number, uint64_t log)
{
	while (1ull << log < paramNumber(number))
		log++;
	return log;
}

static ginResult_t makeRecords(ginComm_t comm, struct trace *t)
{
	uint64_t log = logOf(paramTraceRecords, 4);
	ginResult_t result =
		pinnedAlloc(&comm->device, LINE + (sizeof(struct ginTraceRecord) << log),
			    comm->device.numaNode, &t->pinned);

	if (result != ginSuccess)
		return result;
	t->taken = t->pinned;
	t->lostSeen = t->taken + 1;
	t->ring = (struct ginTraceRing){.records = t->taken + LINE / sizeof(uint64_t),
					.taken = t->taken,
					.lostSeen = t->lostSeen,
					.logDepth = log,
					.logEvery = logOf(paramTraceEvery, 0)};
	return ginSuccess;
}

size_t traceRingBytes(int nRanks)
{
	return sizeof(struct ginTraceRing) + (size_t)nRanks * sizeof(struct ginTraceCount);
}

/* The counts of the peers follow the ring. */
static ginResult_t makeRing(ginComm_t comm, struct devComm *dc)
{
	void *at = NULL;
	ginResult_t result = poolAlloc(&comm->pool, traceRingBytes(comm->nRanks), &at);

	if (result != ginSuccess)
		return result;
	dc->device.trace = at;
	dc->trace.ring.peers = (struct ginTraceCount *)(dc->device.trace + 1);
	result = deviceWrite(&comm->device, at, NULL, traceRingBytes(comm->nRanks));
	return result == ginSuccess
		       ? deviceWrite(&comm->device, at, &dc->trace.ring, sizeof(dc->trace.ring))
		       : result;
}

/* A file that cannot be opened is warned of, and there is no trace. */
static ginResult_t openRecords(ginComm_t comm, struct trace *t)
{
	if (!*paramText(paramTrace))
		return ginSuccess;
	t->fd = openFile(comm);
	if (t->fd >= 0)
		return makeRecords(comm, t);
	logWrite(logWarn, "there is no trace: GIN_TRACE=%s cannot be opened: %m",
		 paramText(paramTrace));
	return ginSuccess;
}

ginResult_t traceOpen(ginComm_t comm, struct devComm *dc)
{
	ginResult_t result = openRecords(comm, &dc->trace);

	if (result == ginSuccess)
		result = makeRing(comm, dc);
	if (result == ginSuccess && dc->trace.pinned)
		writeClock(comm, dc);
	return result;
}

/* Of words that kernels change: in one copy from a GPU, else word by word. */
static ginResult_t readWords(ginComm_t comm, uint64_t *out, const void *from, size_t words)
{
	const uint64_t *word = from;

	if (comm->device.cuda)
		return deviceRead(&comm->device, out, from, words * sizeof(*out));
	for (size_t i = 0; i < words; i++)
		out[i] = __atomic_load_n(&word[i], __ATOMIC_RELAXED);
	return ginSuccess;
}

ginResult_t traceCount(ginComm_t comm, const struct devComm *dc, int peer,
		       struct ginTraceCount *count)
{
	const struct ginTraceRing *ring = dc->device.trace;
	uint64_t counts = 0, word[sizeof(*count) / sizeof(uint64_t)] = {0};
	ginResult_t result = readWords(comm, &counts, &ring->counts, 1);

	if (result == ginSuccess && counts)
		result = readWords(comm, word, dc->trace.ring.peers + peer, sizeof(word) / 8);
	if (result != ginSuccess || !counts)
		return result != ginSuccess ? result : ginErrorUnsupported;
	memcpy(count, word, sizeof(*count));
	return ginSuccess;
}

void traceClose(ginComm_t comm, struct devComm *dc)
{
	struct trace *t = &dc->trace;

	if (t->pinned) {
		traceDrain(comm, dc);
		writeClock(comm, dc);
		if (t->lost)
			logWrite(logWarn,
				 "the trace of device communicator %llu lacks %llu calls: set "
				 "GIN_TRACE_RECORDS to more than %llu",
				 (unsigned long long)dc->device.id, (unsigned long long)t->lost,
				 1ull << t->ring.logDepth);
	}
	poolFree(&comm->pool, dc->device.trace, traceRingBytes(comm->nRanks));
	if (!t->isKept)
		pinnedFree(&comm->device, t->pinned);
	if (t->fd > 0)
		close(t->fd);
}
