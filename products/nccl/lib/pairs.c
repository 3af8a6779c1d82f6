/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pairs.c - ncclSend and ncclRecv, by CPUs
 *
 * The calls of a group on one communicator are one job, in which all ranks take part. First the
 * ranks gather the lists of their calls. Each rank matches all lists: send number k of rank a to
 * rank b belongs to receive number k of b from a, and both have one size. So every rank finds a
 * mistake of any rank before data is sent. Then each rank contributes the data of its sends, one
 * after the other, and copies what it receives out of the contributions of the others.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "driver.h"
#include "pairs.h"

#define MAGIC 0x6e636373656e6421 /* no other collective begins with it */

#define ADDRESS(pointer) ((cuAddress)(uintptr_t)(pointer))

/* The first message of a rank. */
struct head {
	uint64_t magic, count, sendBytes;
};

/* A call, for the other ranks. */
struct entry {
	uint64_t bytes;
	int32_t peer, isSend;
};

/* All ranks' calls: those of rank r begin at entry[r * most]. */
struct table {
	int nRanks;
	size_t most; /* calls of one rank */
	uint64_t mostBytes;
	struct head *head;
	struct entry *entry;
};

/* The data of rank `from` that a call of this rank receives. */
struct part {
	int from;
	size_t at, bytes;
	char *out;
};

struct parts {
	size_t count;
	struct part *part;
};

/* Gives bytes `at` to `at + bytes` of a rank's contribution. */
typedef void takeFn(void *arg, int rank, size_t at, const char *data, size_t bytes);

/* Each rank contributes `bytes`: its own `mineBytes`, then zeros. */
static ncclResult_t inPieces(ginComm_t gin, int nRanks, const void *mine, size_t mineBytes,
			     size_t bytes, takeFn *take, void *arg)
{
	ncclResult_t result = ncclSuccess;

	if (!bytes)
		return ncclSuccess;
	char *memory = malloc(((size_t)nRanks + 1) * GIN_ALLGATHER_BYTES);
	if (!memory)
		return ncclCannotMeet(gin);
	char *all = memory + GIN_ALLGATHER_BYTES;
	for (size_t at = 0; at < bytes && result == ncclSuccess; at += GIN_ALLGATHER_BYTES) {
		size_t n = bytes - at < GIN_ALLGATHER_BYTES ? bytes - at : GIN_ALLGATHER_BYTES;
		size_t left = mineBytes > at ? mineBytes - at : 0, own = left < n ? left : n;
		if (own)
			memcpy(memory, (const char *)mine + at, own);
		memset(memory + own, 0, n - own);
		result = ncclFromGin(ginCommAllgather(gin, memory, all, n));
		for (int r = 0; r < nRanks && result == ncclSuccess; r++)
			take(arg, r, at, all + (size_t)r * n, n);
	}
	free(memory);
	return result;
}

static void takeEntries(void *arg, int rank, size_t at, const char *data, size_t bytes)
{
	const struct table *t = arg;

	memcpy((char *)(t->entry + (size_t)rank * t->most) + at, data, bytes);
}

static void takeParts(void *arg, int rank, size_t at, const char *data, size_t bytes)
{
	const struct parts *p = arg;

	for (size_t i = 0; i < p->count; i++) {
		const struct part *one = &p->part[i];
		const size_t end = one->at + one->bytes;
		const size_t from = at > one->at ? at : one->at;
		const size_t to = at + bytes < end ? at + bytes : end;
		if (one->from == rank && from < to)
			memcpy(one->out + (from - one->at), data + (from - at), to - from);
	}
}

static ncclResult_t gatherHeads(ginComm_t gin, const struct ncclPairs *p, struct table *t)
{
	const struct head mine = {MAGIC, p->count, p->sendBytes};

	t->head = calloc((size_t)t->nRanks, sizeof(mine));
	if (!t->head)
		return ncclCannotMeet(gin);
	ncclResult_t result = ncclFromGin(ginCommAllgather(gin, &mine, t->head, sizeof(mine)));
	for (int r = 0; r < t->nRanks && result == ncclSuccess; r++) {
		const struct head *h = &t->head[r];
		if (h->magic != MAGIC)
			result = ncclFail(ncclInvalidUsage,
					  "ncclSend, ncclRecv: rank %d made another call: all "
					  "ranks of the communicator take part in a group of them",
					  r);
		t->most = h->count > t->most ? h->count : t->most;
		t->mostBytes = h->sendBytes > t->mostBytes ? h->sendBytes : t->mostBytes;
	}
	return result;
}

static ncclResult_t gatherEntries(ginComm_t gin, const struct ncclPairs *p, struct table *t)
{
	ncclResult_t result = ncclSuccess;

	if (!t->most)
		return ncclSuccess;
	struct entry *mine = calloc(p->count + 1, sizeof(*mine));
	t->entry = calloc((size_t)t->nRanks * t->most, sizeof(*t->entry));
	if (!mine || !t->entry)
		result = ncclCannotMeet(gin);
	for (size_t i = 0; i < p->count && result == ncclSuccess; i++)
		mine[i] = (struct entry){p->call[i].bytes, p->call[i].peer, p->call[i].isSend};
	if (result == ncclSuccess)
		result = inPieces(gin, t->nRanks, mine, p->count * sizeof(*mine),
				  t->most * sizeof(*mine), takeEntries, t);
	free(mine);
	return result;
}

static const struct entry *entriesOf(const struct table *t, int rank)
{
	return t->entry + (size_t)rank * t->most;
}

/* How many of rank's calls before number `end` are like `e`, in kind and peer? */
static size_t countBefore(const struct table *t, int rank, size_t end, const struct entry *e)
{
	const struct entry *all = entriesOf(t, rank);
	size_t count = 0;

	for (size_t i = 0; i < end; i++)
		count += all[i].peer == e->peer && all[i].isSend == e->isSend;
	return count;
}

/* The peer's call that belongs to call `i` of `rank`; NULL: there is none. */
static const struct entry *partnerOf(const struct table *t, int rank, size_t i)
{
	const struct entry *e = entriesOf(t, rank) + i, *of = entriesOf(t, e->peer);
	size_t number = countBefore(t, rank, i, e);

	for (size_t k = 0; k < t->head[e->peer].count; k++)
		if (of[k].peer == rank && of[k].isSend != e->isSend && !number--)
			return &of[k];
	return NULL;
}

static ncclResult_t matchOne(const struct table *t, int rank, size_t i)
{
	const struct entry *e = entriesOf(t, rank) + i, *partner = partnerOf(t, rank, i);
	const size_t number = countBefore(t, rank, i, e);
	const int sender = e->isSend ? rank : e->peer, receiver = e->isSend ? e->peer : rank;

	if (!partner)
		return ncclFail(ncclInvalidUsage,
				"%s: in a group rank %d has call %zu for rank %d without a "
				"counterpart there: each %s needs a %s in the peer's group",
				e->isSend ? "ncclSend" : "ncclRecv", rank, number, e->peer,
				e->isSend ? "ncclSend" : "ncclRecv",
				e->isSend ? "ncclRecv" : "ncclSend");
	if (partner->bytes == e->bytes)
		return ncclSuccess;
	return ncclFail(ncclInvalidArgument,
			"ncclSend, ncclRecv: of call %zu from rank %d to rank %d the sender has "
			"%llu bytes, the receiver %llu: both must give one count and type",
			number, sender, receiver,
			(unsigned long long)(e->isSend ? e->bytes : partner->bytes),
			(unsigned long long)(e->isSend ? partner->bytes : e->bytes));
}

static ncclResult_t match(const struct table *t)
{
	ncclResult_t result = ncclSuccess;

	for (int r = 0; r < t->nRanks; r++)
		for (size_t i = 0; i < t->head[r].count && result == ncclSuccess; i++)
			result = matchOne(t, r, i);
	return result;
}

/* Where the data of a send begins in its rank's contribution. */
static size_t beginOf(const struct table *t, int rank, const struct entry *e)
{
	size_t at = 0;

	for (const struct entry *one = entriesOf(t, rank); one < e; one++)
		at += one->isSend ? one->bytes : 0;
	return at;
}

static void findParts(const struct table *t, const struct ncclPairs *p, int rank, char *out,
		      struct parts *parts)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct ncclPairCall *call = &p->call[i];
		if (call->isSend)
			continue;
		parts->part[parts->count++] =
			(struct part){call->peer, beginOf(t, call->peer, partnerOf(t, rank, i)),
				      call->bytes, out};
		out += call->bytes;
	}
}

static ncclResult_t move(ginComm_t gin, const struct table *t, const struct ncclPairs *p, int rank,
			 const char *in, char *out)
{
	struct parts parts = {0, calloc(p->count + 1, sizeof(struct part))};

	/* A rank without memory takes part nevertheless. */
	if (parts.part)
		findParts(t, p, rank, out, &parts);
	ncclResult_t result =
		inPieces(gin, t->nRanks, in, p->sendBytes, t->mostBytes, takeParts, &parts);
	if (!parts.part && result == ncclSuccess)
		result = ncclFail(ncclSystemError, "no memory");
	free(parts.part);
	return result;
}

ncclResult_t ncclPairsExchange(ginComm_t gin, int rank, int nRanks, const struct ncclPairs *p,
			       const char *in, char *out)
{
	struct table t = {.nRanks = nRanks};
	ncclResult_t result = gatherHeads(gin, p, &t);

	if (result == ncclSuccess)
		result = gatherEntries(gin, p, &t);
	if (result == ncclSuccess)
		result = match(&t);
	if (result == ncclSuccess)
		result = move(gin, &t, p, rank, in, out);
	free(t.head);
	free(t.entry);
	return result;
}

ncclResult_t ncclPairsOnHost(ncclComm_t comm, const struct ncclPairs *p)
{
	char *memory = malloc(p->sendBytes + p->receiveBytes + 1), *at = memory;

	if (!memory)
		return ncclCannotMeet(comm->gin);
	for (size_t i = 0; i < p->count; i++)
		if (p->call[i].isSend)
			at = (char *)memcpy(at, p->call[i].buffer, p->call[i].bytes) +
			     p->call[i].bytes;
	ncclResult_t result = ncclPairsExchange(comm->gin, comm->rank, comm->nRanks, p, memory, at);
	for (size_t i = 0; i < p->count && result == ncclSuccess; i++) {
		if (p->call[i].isSend)
			continue;
		memcpy(p->call[i].buffer, at, p->call[i].bytes);
		at += p->call[i].bytes;
	}
	free(memory);
	return result;
}

int ncclPairsCopy(const struct ncclDriver *cuda, const struct ncclPairs *p, int isSend, char *at,
		  void *stream)
{
	int error = 0;

	for (size_t i = 0; i < p->count && !error; i++) {
		const struct ncclPairCall *call = &p->call[i];
		if (call->isSend != isSend)
			continue;
		error = isSend ? cuda->copy(ADDRESS(at), ADDRESS(call->buffer), call->bytes, stream)
			       : cuda->copy(ADDRESS(call->buffer), ADDRESS(at), call->bytes,
					    stream);
		at += call->bytes;
	}
	return error;
}

int ncclPairsJoin(const struct ncclDriver *cuda, const struct ncclPairs *p, void *event, int before)
{
	int error = 0;

	for (size_t i = 0; i < p->count && !error; i++) {
		void *other = p->call[i].stream;
		if (other == p->stream)
			continue;
		if (before)
			error = cuda->eventRecord(event, other);
		if (!error)
			error = cuda->streamWaitEvent(before ? p->stream : other, event, 0);
	}
	return error;
}

void ncclPairsFree(struct ncclPairs *p)
{
	if (p)
		free(p->call);
	free(p);
}

static ncclResult_t addCall(struct ncclPairs *p, const struct ncclPairCall *call)
{
	struct ncclPairCall *more = realloc(p->call, (p->count + 1) * sizeof(*more));

	if (!more)
		return ncclFail(ncclSystemError, "no memory");
	p->call = more;
	more[p->count++] = *call;
	*(call->isSend ? &p->sendBytes : &p->receiveBytes) += call->bytes;
	return ncclSuccess;
}

struct addArgs {
	ncclComm_t comm;
	struct ncclPairCall call;
	void *stream;
};

/* A call without data has no counterpart; its rank takes part. */
static ncclResult_t add(void *args)
{
	const struct addArgs *a = args;

	if (!a->comm->pairs) {
		a->comm->pairs = calloc(1, sizeof(*a->comm->pairs));
		if (!a->comm->pairs)
			return ncclFail(ncclSystemError, "no memory");
		a->comm->pairs->stream = a->stream;
	}
	return a->call.bytes ? addCall(a->comm->pairs, &a->call) : ncclSuccess;
}

/* At the end of a group. `soFar`: of the group's earlier calls. */
static ncclResult_t finish(const void *key, ncclResult_t soFar)
{
	ncclComm_t comm = (ncclComm_t)(uintptr_t)key;
	struct ncclPairs *p = comm->pairs;

	comm->pairs = NULL;
	if (soFar == ncclSuccess)
		return ncclPairsRun(comm, p);
	ncclCollectiveMissed(comm);
	ncclPairsFree(p);
	return soFar;
}

static ncclResult_t pairCall(const char *name, void *buffer, int isSend, size_t count,
			     ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
	const size_t size = ncclTypeSize(type);

	if (!comm || !size)
		return ncclFail(ncclInvalidArgument, "%s: comm is NULL, or the type is unknown",
				name);
	if (peer < 0 || peer >= comm->nRanks)
		return ncclFail(ncclInvalidArgument, "%s: peer is %d: must be 0 to %d", name, peer,
				comm->nRanks - 1);
	if (count > SIZE_MAX / size)
		return ncclFail(ncclInvalidArgument, "%s: count is too large", name);
	if (count && !buffer)
		return ncclFail(ncclInvalidArgument, "%s: the buffer is NULL", name);
	ncclResult_t result = ncclCaptureCheck(name, comm, stream);
	if (result != ncclSuccess)
		return result;
	const struct addArgs args = {comm, {buffer, count * size, peer, isSend, stream}, stream};
	return ncclGroupDoLast(comm, add, finish, &args, sizeof(args));
}

ncclResult_t ncclSend(const void *buffer, size_t count, ncclDataType_t type, int peer,
		      ncclComm_t comm, cudaStream_t stream)
{
	return pairCall("ncclSend", (void *)(uintptr_t)buffer, 1, count, type, peer, comm, stream);
}

ncclResult_t ncclRecv(void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
		      cudaStream_t stream)
{
	return pairCall("ncclRecv", buffer, 0, count, type, peer, comm, stream);
}
