/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rma.c - ncclPutSignal(), ncclSignal() and ncclWaitSignal(): libgin's operations on streams
 *
 * A communicator has a device communicator for them, in which signal r * n + i of a context counts
 * signal i of rank r; n is config.numRmaSig. It is made with the communicator, because the calls
 * themselves are not collective.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

/* Can every rank put operations on streams? Collective. */
static int canAll(ncclComm_t comm)
{
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	uint8_t mine = 0, *all = malloc((size_t)comm->nRanks);
	int can = 1;

	if (all && ginCommQuery(comm->gin, &info) == ginSuccess)
		mine = info.streams != 0;
	/* Without memory the rank takes part, and ends the call on all ranks. */
	if (ginCommAllgather(comm->gin, all ? &mine : NULL, all, sizeof(mine)) != ginSuccess)
		can = 0;
	for (int r = 0; r < comm->nRanks && can; r++)
		can = all[r];
	free(all);
	return can;
}

/* A pair has a signal for each direction. No kernel but that of the operations uses a queue. */
void ncclRmaOpen(ncclComm_t comm)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm made;

	if (!canAll(comm))
		return;
	want.contexts = (uint32_t)comm->choices.rmaContexts;
	want.signals = (uint32_t)comm->choices.rmaSignals * (uint32_t)comm->nRanks;
	want.counters = want.barriers = 0;
	want.queueDepth = 64;
	want.streams = 1;
	if (comm->choices.trafficClass != NCCL_CONFIG_UNDEF_INT)
		want.trafficClass = comm->choices.trafficClass;
	if (ginDevCommCreate(comm->gin, &want, &made) == ginSuccess)
		comm->rma = made;
}

ncclResult_t ncclRmaClose(ncclComm_t comm)
{
	return comm->rma.size ? ncclFromGin(ginDevCommDestroy(comm->gin, &comm->rma)) : ncclSuccess;
}

ncclResult_t ncclRmaReport(ncclComm_t comm)
{
	ginErrorRecord_t record = {0};

	if (!comm->rma.size || ginDevCommGetError(comm->gin, &comm->rma, &record) != ginSuccess ||
	    !record.valid)
		return ncclSuccess;
	return ncclFromGin((ginResult_t)record.result);
}

/* The arguments that all operations have. */
struct operation {
	const char *name;
	ncclComm_t comm;
	int peer, signal, context;
	unsigned flags;
	cudaStream_t stream;
};

/* A call that may be kept for the end of a group. */
struct rmaCall {
	ncclComm_t comm;
	void *stream;
	enum { rmaPut, rmaSignal, rmaWait } kind;
	uint32_t context, signal;
	int peer;
	uint64_t count; /* of a wait */
	ginWindow_t dst, src;
	size_t dstOff, srcOff, bytes;
};

static ncclResult_t run(void *args)
{
	const struct rmaCall *c = args;
	ginComm_t gin = c->comm->gin;
	const ginDevComm *dc = &c->comm->rma;

	switch (c->kind) {
	case rmaPut:
		return ncclFromGin(ginPutSignalOnStream(gin, dc, c->context, c->peer, c->dst,
							c->dstOff, c->src, c->srcOff, c->bytes,
							c->signal, 1, c->stream));
	case rmaSignal:
		return ncclFromGin(
			ginSignalOnStream(gin, dc, c->context, c->peer, c->signal, 1, c->stream));
	case rmaWait:
		return ncclFromGin(
			ginWaitSignalOnStream(gin, dc, c->context, c->signal, c->count, c->stream));
	}
	return ncclInternalError;
}

static ncclResult_t checkRange(const char *name, const char *what, int value, int limit)
{
	if (value >= 0 && value < limit)
		return ncclSuccess;
	return ncclFail(ncclInvalidArgument, "%s: %s is %d: must be 0 to %d", name, what, value,
			limit - 1);
}

static ncclResult_t checkComm(const char *name, ncclComm_t comm)
{
	if (!comm)
		return ncclFail(ncclInvalidArgument, "%s: comm is NULL", name);
	if (comm->rma.size)
		return ncclSuccess;
	return ncclFail(ncclInvalidUsage,
			"%s: hostRmaSupport is false: libgin-stream.so is missing on some rank, or "
			"libgin was built without nvcc",
			name);
}

static ncclResult_t check(const struct operation *o)
{
	ncclResult_t result = checkComm(o->name, o->comm);

	if (result == ncclSuccess)
		result = checkRange(o->name, "peer", o->peer, o->comm->nRanks);
	if (result == ncclSuccess)
		result = checkRange(o->name, "sigIdx", o->signal, o->comm->choices.rmaSignals);
	if (result == ncclSuccess)
		result = checkRange(o->name, "ctx", o->context, o->comm->choices.rmaContexts);
	if (result == ncclSuccess && o->flags)
		return ncclFail(ncclInvalidArgument, "%s: flags is 0x%x: must be 0", o->name,
				o->flags);
	return result;
}

/* `from`: the rank that raises the signal. */
static struct rmaCall callOf(const struct operation *o, int from)
{
	return (struct rmaCall){
		.comm = o->comm,
		.stream = o->stream,
		.context = (uint32_t)o->context,
		.peer = o->peer,
		.signal = (uint32_t)from * (uint32_t)o->comm->choices.rmaSignals +
			  (uint32_t)o->signal,
	};
}

ncclResult_t ncclSignal(int peer, int signal, int context, unsigned int flags, ncclComm_t comm,
			cudaStream_t stream)
{
	const struct operation o = {"ncclSignal", comm, peer, signal, context, flags, stream};
	ncclResult_t result = check(&o);

	if (result != ncclSuccess)
		return result;
	struct rmaCall call = callOf(&o, comm->rank);
	call.kind = rmaSignal;
	return ncclGroupDo(comm, run, &call, sizeof(call));
}

/* A put of no bytes needs no source. */
static ncclResult_t findSource(const char *name, const void *source, struct rmaCall *call)
{
	call->src = call->dst;
	if (!call->bytes ||
	    ncclWindowAround(call->comm, source, call->bytes, &call->src, &call->srcOff))
		return ncclSuccess;
	return ncclFail(ncclInvalidArgument,
			"%s: the %zu bytes of the source are in no window of this communicator: "
			"register them by ncclCommWindowRegister()",
			name, call->bytes);
}

ncclResult_t ncclPutSignal(const void *source, size_t count, ncclDataType_t type, int peer,
			   ncclWindow_t window, size_t offset, int signal, int context,
			   unsigned int flags, ncclComm_t comm, cudaStream_t stream)
{
	const struct operation o = {"ncclPutSignal", comm, peer, signal, context, flags, stream};
	const size_t size = ncclTypeSize(type);
	ncclResult_t result = check(&o);

	if (result != ncclSuccess)
		return result;
	if (!size || count > SIZE_MAX / size)
		return ncclFail(ncclInvalidArgument,
				"ncclPutSignal: the type is unknown, or the bytes are too many");
	struct rmaCall call = callOf(&o, comm->rank);
	call.kind = rmaPut;
	call.dst.table = (struct ginWindowTable *)(void *)window;
	call.dstOff = offset;
	call.bytes = count * size;
	result = findSource(o.name, source, &call);
	return result == ncclSuccess ? ncclGroupDo(comm, run, &call, sizeof(call)) : result;
}

static struct operation operationOf(const ncclWaitSignalDesc_t *d, ncclComm_t comm,
				    cudaStream_t stream)
{
	return (struct operation){"ncclWaitSignal", comm, d->peer, d->sigIdx, d->ctx, 0, stream};
}

static ncclResult_t checkWait(const ncclWaitSignalDesc_t *d, ncclComm_t comm)
{
	const struct operation o = operationOf(d, comm, NULL);
	ncclResult_t result = check(&o);

	if (result == ncclSuccess && d->opCnt < 0)
		return ncclFail(ncclInvalidArgument,
				"ncclWaitSignal: opCnt is %d: must be 0 or more", d->opCnt);
	return result;
}

static ncclResult_t wait(const ncclWaitSignalDesc_t *d, ncclComm_t comm, cudaStream_t stream)
{
	const struct operation o = operationOf(d, comm, stream);
	struct rmaCall call = callOf(&o, d->peer);

	call.kind = rmaWait;
	call.count = (uint64_t)d->opCnt;
	return ncclGroupDo(comm, run, &call, sizeof(call));
}

ncclResult_t ncclWaitSignal(int count, ncclWaitSignalDesc_t *list, ncclComm_t comm,
			    cudaStream_t stream)
{
	ncclResult_t result = checkComm("ncclWaitSignal", comm);

	if (result == ncclSuccess && (count < 0 || (count && !list)))
		return ncclFail(ncclInvalidArgument,
				"ncclWaitSignal: nDesc is %d, and signalDescs is %s", count,
				list ? "set" : "NULL");
	for (int i = 0; i < count && result == ncclSuccess; i++)
		result = checkWait(&list[i], comm);
	for (int i = 0; i < count && result == ncclSuccess; i++)
		result = wait(&list[i], comm, stream);
	return result;
}
