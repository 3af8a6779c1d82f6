/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * on_stream.c - puts, signals and waits on a CUDA stream
 *
 * A thread of a kernel makes the device calls (lib/stream/stream.cu): so signals are those of other
 * kernels, a wait ends by the abort line, a captured call is repeated by each replay, and every
 * route works. The driver copies the bytes of a put to a direct peer before the kernel.
 */
#include "devcomm.h"
#include "lib/base/plugin.h"
#include "lib/stream/stream.h"
#include "lib/window.h"

static enum pluginResult openPlugin(const struct streamCalls **calls, char *why, size_t room)
{
	static const struct plugin plugin = {STREAM_PLUGIN, STREAM_SYMBOL,
					     sizeof(struct streamCalls)};
	const void *found = NULL;
	enum pluginResult opened = pluginOpen(&plugin, &found, why, room);

	*calls = found;
	return opened;
}

const struct streamCalls *streamCallsFind(const struct ginComm *comm)
{
	const struct streamCalls *calls;
	char why[160];

	if (openPlugin(&calls, why, sizeof(why)) != pluginFound || !calls->kernels)
		return NULL;
	return comm->device.cuda && !calls->load() ? calls : NULL;
}

int commHasStreams(const struct ginComm *comm)
{
	const struct streamCalls *calls;
	char why[160];

	if (openPlugin(&calls, why, sizeof(why)) != pluginFound)
		return 0;
	return !comm->device.cuda || calls->kernels;
}

ginResult_t devCommStreamCalls(ginComm_t comm, const struct streamCalls **out)
{
	const struct streamCalls *calls;
	char room[160];
	enum pluginResult opened = openPlugin(&calls, room, sizeof(room));
	const char *why = room;

	if (opened == pluginMissing)
		return fail(ginErrorUnsupported,
			    "requirements.streams is set, but %s has no " STREAM_PLUGIN
			    ": install it",
			    room);
	if (opened == pluginFound)
		why = comm->device.cuda ? calls->load() : NULL;
	if (why)
		return fail(ginErrorUnsupported,
			    "requirements.streams is set, but " STREAM_PLUGIN " does not work: %s",
			    why);
	*out = calls;
	return ginSuccess;
}

/* What a call has found about its arguments. The caller of a device call checks none of them. */
struct onStream {
	ginComm_t comm;
	const struct streamCalls *calls;
	struct streamJob job;
	char *dst, *src; /* of a put by the driver; NULL: none */
};

static ginResult_t checkDevComm(const struct devComm *dc, const struct streamJob *job)
{
	if (!dc)
		return ginErrorInvalidArgument;
	if (!dc->stream)
		return fail(ginErrorInvalidUsage,
			    "device communicator %llu was made without requirements.streams",
			    (unsigned long long)dc->device.id);
	if (job->context >= dc->device.contexts)
		return fail(ginErrorInvalidArgument, "context is %u: must be 0 to %u", job->context,
			    dc->device.contexts - 1);
	if (job->value && job->signal >= dc->device.signals)
		return fail(ginErrorInvalidArgument, "signal is %u: must be below %u", job->signal,
			    dc->device.signals);
	return ginSuccess;
}

static ginResult_t checkPeer(ginComm_t comm, const struct devComm *dc, int peer)
{
	if (peer < 0 || peer >= comm->nRanks)
		return fail(ginErrorInvalidArgument, "peer is %d: must be 0 to %d", peer,
			    comm->nRanks - 1);
	if (comm->lost[peer] | dc->lost[peer])
		return fail(ginErrorPeer, "rank %d has failed, or is masked", peer);
	if (dc->unconnected[peer])
		return fail(ginErrorPeer,
			    "device communicator %llu does not connect this rank to rank %d: leave "
			    "it out of requirements.unconnected",
			    (unsigned long long)dc->device.id, peer);
	return ginSuccess;
}

/* Does the failure of a rank end waits that name no peers? */
static ginResult_t checkLine(const struct devComm *dc)
{
	const uint64_t word = dc->lines->abort.word;

	if (!(uint32_t)word || (word >> 32 & 0xffffff) == (GIN_LINE_MASKED & 0xffffff))
		return ginSuccess;
	return fail((ginResult_t)(uint32_t)word, "a rank has failed");
}

/* `bytes` from `at` on are within the part of `rank`. */
static ginResult_t checkPart(const struct window *w, const char *name, int rank, uint64_t at,
			     uint64_t bytes)
{
	if (at <= w->bytes[rank] && bytes <= w->bytes[rank] - at)
		return ginSuccess;
	return fail(ginErrorInvalidArgument,
		    "%s: %llu bytes at offset %llu are not within the %llu of rank %d", name,
		    (unsigned long long)bytes, (unsigned long long)at,
		    (unsigned long long)w->bytes[rank], rank);
}

static ginResult_t checkWindows(struct onStream *s)
{
	const struct streamJob *job = &s->job;
	const struct window *dst = windowFind(s->comm, job->dst);
	const struct window *src = dst ? windowFind(s->comm, job->src) : NULL;

	if (!src)
		return ginErrorInvalidArgument;
	if (dst->isLocal)
		return fail(ginErrorInvalidArgument,
			    "dstWin is a window of GIN_WINDOW_LOCAL: register it on all ranks, "
			    "without the flag");
	ginResult_t result = checkPart(dst, "dstWin", job->peer, job->dstOff, job->bytes);
	if (result == ginSuccess)
		result = checkPart(src, "srcWin", s->comm->rank, job->srcOff, job->bytes);
	if (result != ginSuccess || !job->bytes)
		return result;
	if (s->comm->device.cuda && s->comm->routes[job->peer] == ginRouteDirect) {
		s->dst = windowAddress(s->comm, dst, job->peer) + job->dstOff;
		s->src = windowAddress(s->comm, src, s->comm->rank) + job->srcOff;
	}
	return ginSuccess;
}

/* The caller holds comm->lock. */
static ginResult_t checkAll(struct onStream *s, const ginDevComm *devComm)
{
	struct devComm **at = devCommFind(s->comm, devComm);
	const struct devComm *dc = at ? *at : NULL;
	ginResult_t result = checkDevComm(dc, &s->job);

	if (result == ginSuccess)
		result = s->job.step == streamWait ? checkLine(dc)
						   : checkPeer(s->comm, dc, s->job.peer);
	if (result == ginSuccess && s->job.step == streamPut)
		result = checkWindows(s);
	if (result != ginSuccess)
		return result;
	s->calls = dc->stream;
	s->job.dc = dc->device.self;
	return ginSuccess;
}

/* What is left for the kernel after the driver's copy: the signal, or nothing. */
static ginResult_t copyFirst(struct onStream *s, void *stream)
{
	const struct cuda *cuda = s->comm->device.cuda;
	cuResult result = cuda->copy((cuPtr)(uintptr_t)s->dst, (cuPtr)(uintptr_t)s->src,
				     s->job.bytes, stream);

	s->job.step = streamSignal;
	return result ? cudaFail(cuda, "cuMemcpyAsync", result) : ginSuccess;
}

static ginResult_t enqueue(struct onStream *s, void *stream)
{
	struct deviceScope scope;
	ginResult_t result = deviceEnter(&s->comm->device, &scope);
	const char *why = NULL;

	if (result != ginSuccess)
		return result;
	if (s->dst)
		result = copyFirst(s, stream);
	if (result == ginSuccess && (s->job.step == streamPut || s->job.value))
		why = s->calls->launch(&s->job, stream);
	deviceLeave(&s->comm->device, &scope);
	return why ? fail(ginErrorCuda, "a kernel of one thread: %s", why) : result;
}

static ginResult_t run(ginComm_t comm, const char *call, const ginDevComm *devComm,
		       struct streamJob job, void *stream)
{
	struct onStream s = {.comm = comm, .job = job};
	ginResult_t result = commEnter(comm, call);

	if (result != ginSuccess)
		return result;
	pthread_mutex_lock(&comm->lock);
	result = checkAll(&s, devComm);
	pthread_mutex_unlock(&comm->lock);
	if (result == ginErrorPeer || result == ginErrorAborted) /* the cause, if it is known */
		controlError(&comm->control);
	if (result != ginSuccess)
		return result;
	if (comm->device.cuda)
		return enqueue(&s, stream);
	s.calls->run(&s.job);
	return ginSuccess;
}

static struct streamJob putJob(uint32_t context, int peer, ginWindow_t dstWin, size_t dstOff,
			       ginWindow_t srcWin, size_t srcOff, size_t bytes)
{
	return (struct streamJob){.step = streamPut,
				  .context = context,
				  .peer = peer,
				  .dst = dstWin,
				  .src = srcWin,
				  .dstOff = dstOff,
				  .srcOff = srcOff,
				  .bytes = bytes};
}

ginResult_t ginPutOnStream(ginComm_t comm, const ginDevComm *devComm, uint32_t context, int peer,
			   ginWindow_t dstWin, size_t dstOff, ginWindow_t srcWin, size_t srcOff,
			   size_t bytes, void *stream)
{
	return run(comm, "ginPutOnStream", devComm,
		   putJob(context, peer, dstWin, dstOff, srcWin, srcOff, bytes), stream);
}

ginResult_t ginPutSignalOnStream(ginComm_t comm, const ginDevComm *devComm, uint32_t context,
				 int peer, ginWindow_t dstWin, size_t dstOff, ginWindow_t srcWin,
				 size_t srcOff, size_t bytes, uint32_t signal, uint64_t value,
				 void *stream)
{
	struct streamJob job = putJob(context, peer, dstWin, dstOff, srcWin, srcOff, bytes);

	job.signal = signal;
	job.value = value;
	return run(comm, "ginPutSignalOnStream", devComm, job, stream);
}

ginResult_t ginSignalOnStream(ginComm_t comm, const ginDevComm *devComm, uint32_t context, int peer,
			      uint32_t signal, uint64_t value, void *stream)
{
	const struct streamJob job = {.step = streamSignal,
				      .context = context,
				      .signal = signal,
				      .peer = peer,
				      .value = value};

	return run(comm, "ginSignalOnStream", devComm, job, stream);
}

ginResult_t ginWaitSignalOnStream(ginComm_t comm, const ginDevComm *devComm, uint32_t context,
				  uint32_t signal, uint64_t value, void *stream)
{
	const struct streamJob job = {
		.step = streamWait, .context = context, .signal = signal, .value = value};

	return run(comm, "ginWaitSignalOnStream", devComm, job, stream);
}
