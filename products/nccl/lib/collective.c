/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collective.c - NCCL's collectives, by CPUs
 *
 * For the set-up of programs: any size, in order on the stream, slow. Each is an allgather, of
 * which a rank keeps what it needs; the sends and receives of a group are one job, too (pairs.c).
 * On a GPU the stream copies the data to host memory and then writes the number of the job; a
 * thread of the communicator waits for the number, gathers over the control plane, and writes the
 * number for which the stream waits before it copies the result back. Jobs of one communicator run
 * in one order, whatever their streams are. Without a GPU the call does the work itself.
 *
 * A stream may never reach a job: an earlier kernel does not end, or the context has failed. The
 * thread waits for the stream while the communicator works, and GIN_TIMEOUT seconds from its end
 * on. Memory that a stream may still use is then never freed.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "driver.h"
#include "pairs.h"

/* The number before the first job's: a communicator soon comes to numbers beyond 2^32. */
#define NO_JOB (0u - 3u)

/*
 * Every rank contributes `bytes`. This rank keeps `take` bytes of each rank's contribution, from
 * `skip` on: side by side, or reduced.
 */
struct job {
	struct job *next;
	uint32_t number;
	size_t bytes, skip, take;
	int source; /* the only rank whose contribution is kept; ALL */
	int reduces;
	ncclDataType_t type;
	ncclRedOp_t op;
	struct ncclPairs *pairs; /* NULL: none; otherwise `bytes` are those of the sends */
	char *in;		 /* NULL: zeros */
	char *out;		 /* not used if `take` is 0 */
};

#define ALL (-1)

/* Words that the GPU and the thread write, in pinned memory. */
struct mailbox {
	uint32_t posted; /* by the stream: the inputs of jobs up to this number are there */
	uint32_t pad[15];
	uint32_t done; /* by the thread: the outputs of jobs up to this number are there */
};

/* Why the thread has stopped waiting for a stream. */
enum lost { lostNothing, lostCommunicator, lostContext, lostTime };

struct collectives {
	ginComm_t side; /* for the thread alone: comm->gin is the program's */
	const struct ncclDriver *cuda;
	void *context, *event;
	struct mailbox *mailbox;
	uint32_t last; /* number of the last job */
	struct job *first, **end;
	int isClosing;
	time_t closeBy;	      /* set with isClosing */
	enum lost lost;	      /* by the thread; read after its end */
	pthread_mutex_t lock; /* of the list, isClosing and closeBy */
	pthread_cond_t changed;
	pthread_t thread;
	char *staging; /* the newest and largest; older buffers stay in `old` until the end */
	size_t stagingBytes;
	void **old;
	size_t oldCount;
};

static size_t outBytesOf(const struct job *j, int nRanks)
{
	if (j->pairs)
		return j->pairs->receiveBytes;
	return j->take * (j->reduces || j->source != ALL ? 1 : (size_t)nRanks);
}

/* Keeps what this rank needs of rank `r`'s bytes `at` to `at + bytes`. */
static void keep(const struct job *j, int r, size_t at, const char *data, size_t bytes)
{
	const size_t from = at > j->skip ? at : j->skip, end = j->skip + j->take;
	const size_t to = at + bytes < end ? at + bytes : end;
	char *out = j->out + from - j->skip;

	if (from >= to || (j->source != ALL && j->source != r))
		return;
	data += from - at;
	if (j->reduces && r)
		ncclReduceInto(out, data, (to - from) / ncclTypeSize(j->type), j->type, j->op);
	else
		memcpy(j->reduces || j->source != ALL ? out : out + (size_t)r * j->take, data,
		       to - from);
}

/* `zeros`: the contribution of a rank without input. */
static ncclResult_t gather(ginComm_t gin, const struct job *j, int nRanks, const char *zeros,
			   char *piece)
{
	ncclResult_t result = ncclSuccess;

	for (size_t at = 0; at < j->bytes && result == ncclSuccess; at += GIN_ALLGATHER_BYTES) {
		size_t left = j->bytes - at;
		size_t bytes = left < GIN_ALLGATHER_BYTES ? left : GIN_ALLGATHER_BYTES;
		result = ncclFromGin(
			ginCommAllgather(gin, j->in ? j->in + at : zeros, piece, bytes));
		for (int r = 0; r < nRanks && result == ncclSuccess; r++)
			keep(j, r, at, piece + (size_t)r * bytes, bytes);
	}
	return result;
}

ncclResult_t ncclCannotMeet(ginComm_t gin)
{
	ginCommAllgather(gin, NULL, NULL, 1);
	return ncclFail(ncclSystemError, "no memory");
}

static ncclResult_t doJob(ginComm_t gin, const struct job *j, int rank, int nRanks)
{
	if (j->pairs)
		return ncclPairsExchange(gin, rank, nRanks, j->pairs, j->in, j->out);
	if (!j->bytes)
		return ncclSuccess;
	char *memory = calloc((size_t)nRanks + 1, GIN_ALLGATHER_BYTES);
	if (!memory)
		return ncclCannotMeet(gin);
	ncclResult_t result = gather(gin, j, nRanks, memory, memory + GIN_ALLGATHER_BYTES);
	if (result == ncclSuccess && j->reduces)
		ncclReduceEnd(j->out, j->take / ncclTypeSize(j->type), j->type, j->op, nRanks);
	free(memory);
	return result;
}

static void freeJob(struct job *j)
{
	ncclPairsFree(j->pairs);
	free(j);
}

/* The next job, or NULL at the end. */
static struct job *takeJob(struct collectives *c)
{
	pthread_mutex_lock(&c->lock);
	while (!c->first && !c->isClosing)
		pthread_cond_wait(&c->changed, &c->lock);
	struct job *j = c->first;
	if (j) {
		c->first = j->next;
		if (!c->first)
			c->end = &c->first;
	}
	pthread_mutex_unlock(&c->lock);
	return j;
}

/* Acquire: pairs with the stream's write of `posted`, which follows its copy of the input. */
static int isPosted(const struct collectives *c, uint32_t number)
{
	return (int32_t)(__atomic_load_n(&c->mailbox->posted, __ATOMIC_ACQUIRE) - number) >= 0;
}

static time_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static int isClosing(struct collectives *c, time_t *closeBy)
{
	pthread_mutex_lock(&c->lock);
	int is = c->isClosing;
	*closeBy = c->closeBy;
	pthread_mutex_unlock(&c->lock);
	return is;
}

static int hasFailed(ginComm_t gin)
{
	ginResult_t failed = ginSuccess;

	return ginCommGetAsyncError(gin, &failed) != ginSuccess || failed != ginSuccess;
}

/*
 * Why a stream that does not come is lost; lostNothing: keep waiting. While the communicator is
 * open, no call waits.
 */
static enum lost whatIsLost(ncclComm_t comm)
{
	struct collectives *c = comm->collectives;
	time_t closeBy;

	if (hasFailed(comm->gin) || hasFailed(c->side))
		return lostCommunicator;
	if (!isClosing(c, &closeBy))
		return lostNothing;
	int state = c->event ? c->cuda->eventQuery(c->event) : 0;
	if (state && state != ncclDriverNotReady)
		return lostContext;
	return now() > closeBy ? lostTime : lostNothing;
}

static void pauseShortly(void)
{
	const struct timespec time = {0, 20000};

	nanosleep(&time, NULL);
}

static enum lost waitForInput(ncclComm_t comm, uint32_t number)
{
	enum lost lost = lostNothing;

	while (!isPosted(comm->collectives, number) && lost == lostNothing) {
		pauseShortly();
		lost = whatIsLost(comm);
	}
	return lost;
}

/*
 * After the last job: waits until the streams have read its output. `lost`: why an input did not
 * come.
 */
static enum lost waitForStreams(ncclComm_t comm, enum lost lost)
{
	struct collectives *c = comm->collectives;

	while (c->event && c->cuda->eventQuery(c->event)) {
		if (lost == lostNothing)
			lost = whatIsLost(comm);
		if (lost != lostNothing)
			return lost;
		pauseShortly();
	}
	return lostNothing;
}

static ncclResult_t resultOf(enum lost lost)
{
	static const ncclResult_t results[] = {
		[lostNothing] = ncclSuccess,
		[lostCommunicator] = ncclRemoteError,
		[lostContext] = ncclUnhandledCudaError,
		[lostTime] = ncclTimeout,
	};

	return results[lost];
}

/* The stream goes on after a failure, too: it must not wait forever. */
static void finishJob(ncclComm_t comm, struct job *j)
{
	struct collectives *c = comm->collectives;
	enum lost lost = waitForInput(comm, j->number);
	ncclResult_t result = resultOf(lost);

	if (c->lost == lostNothing)
		c->lost = lost;
	if (result == ncclSuccess)
		result = doJob(c->side, j, comm->rank, comm->nRanks);
	else
		ginCommAbort(c->side); /* no rank waits for this rank's input */
	if (result != ncclSuccess)
		__atomic_store_n(&comm->asyncError, result, __ATOMIC_RELAXED);
	/* Pairs with the stream's wait for `done`, which comes before its copy of the output. */
	__atomic_store_n(&c->mailbox->done, j->number, __ATOMIC_RELEASE);
	freeJob(j);
}

/* The thread queries an event, which must not break a capture of another thread. */
static void *threadMain(void *arg)
{
	ncclComm_t comm = arg;
	struct collectives *c = comm->collectives;
	int mode = ncclDriverRelaxed;
	void *popped;
	struct job *j;

	int isPushed = !c->cuda->ctxPush(c->context);
	c->cuda->exchangeCaptureMode(&mode);
	while ((j = takeJob(c)))
		finishJob(comm, j);
	c->lost = waitForStreams(comm, c->lost);
	if (isPushed)
		c->cuda->ctxPop(&popped);
	return NULL;
}

static ncclResult_t openDriver(ncclComm_t comm, struct collectives *c)
{
	void *memory = NULL;

	c->cuda = ncclDriverLoad();
	if (!c->cuda || c->cuda->primaryRetain(&c->context, comm->device)) {
		c->context = NULL;
		return ncclFail(ncclUnhandledCudaError,
				"the CUDA driver lacks stream memory operations");
	}
	ncclResult_t result = ncclFromGin(ginMemAllocHost(comm->gin, sizeof(*c->mailbox), &memory));
	if (result != ncclSuccess)
		return result;
	c->mailbox = memory;
	c->last = c->mailbox->posted = c->mailbox->done = NO_JOB;
	return ncclSuccess;
}

static void freeCollectives(ncclComm_t comm, struct collectives *c)
{
	/* A stream may still use what was lost. */
	for (size_t i = 0; i < c->oldCount && c->lost == lostNothing; i++)
		ginMemFree(comm->gin, c->old[i]);
	free(c->old);
	if (c->mailbox && c->lost == lostNothing)
		ginMemFree(comm->gin, c->mailbox);
	if (c->context)
		c->cuda->primaryRelease(comm->device);
	free(c);
}

/* ncclCollectivesAbort() reads the pointer. */
static void setCollectives(ncclComm_t comm, struct collectives *c)
{
	pthread_mutex_lock(&comm->lock);
	comm->collectives = c;
	pthread_mutex_unlock(&comm->lock);
}

/* Collective: by the first call of the communicator. */
static ncclResult_t openCollectives(ncclComm_t comm)
{
	struct collectives *c = calloc(1, sizeof(*c));
	ncclResult_t result = c ? ncclSuccess : ncclFail(ncclSystemError, "no memory");

	if (result == ncclSuccess)
		result = openDriver(comm, c);
	if (result == ncclSuccess)
		result = ncclFromGin(ginCommSplit(comm->gin, 0, comm->rank, &c->side));
	else
		ncclCollectiveMissed(comm);
	if (result != ncclSuccess) {
		if (c)
			freeCollectives(comm, c);
		return result;
	}
	c->end = &c->first;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	setCollectives(comm, c);
	if (!pthread_create(&c->thread, NULL, threadMain, comm))
		return ncclSuccess;
	ncclCollectiveMissed(comm);
	setCollectives(comm, NULL);
	ginCommDestroy(c->side);
	freeCollectives(comm, c);
	return ncclFail(ncclSystemError, "no thread for collectives");
}

void ncclCollectivesAbort(ncclComm_t comm)
{
	pthread_mutex_lock(&comm->lock);
	if (comm->collectives)
		ginCommAbort(comm->collectives->side);
	pthread_mutex_unlock(&comm->lock);
}

/* A wrong call fails on all ranks: it ends calls of the others that open their collectives, too. */
void ncclCollectiveMissed(ncclComm_t comm)
{
	if (comm->collectives)
		ncclCollectivesAbort(comm);
	else
		ginCommAllgather(comm->gin, NULL, NULL, 1);
}

/* GIN_TIMEOUT */
static time_t secondsOfCalls(void)
{
	ginParamInfo_t param = GIN_PARAM_INFO_INIT;

	for (int i = 0; ginParamQuery(i, &param) == ginSuccess; i++)
		if (!strcmp(param.name, "GIN_TIMEOUT"))
			return (time_t)strtol(param.value, NULL, 10);
	return 0;
}

static ncclResult_t failureOf(enum lost lost)
{
	if (lost == lostContext)
		return ncclFail(resultOf(lost), "ncclCommDestroy: the CUDA context of a "
						"collective's stream has failed");
	if (lost == lostTime)
		return ncclFail(resultOf(lost), "ncclCommDestroy: within GIN_TIMEOUT seconds a "
						"stream did not finish its collective");
	return ncclSuccess; /* a failed communicator is destroyed without an error */
}

ncclResult_t ncclCollectivesClose(ncclComm_t comm)
{
	struct collectives *c = comm->collectives;

	if (!c)
		return ncclSuccess;
	pthread_mutex_lock(&c->lock);
	c->isClosing = 1;
	c->closeBy = now() + secondsOfCalls();
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	ncclResult_t result = failureOf(c->lost);
	if (c->event && c->lost == lostNothing)
		c->cuda->eventDestroy(c->event);
	setCollectives(comm, NULL);
	ginCommDestroy(c->side);
	pthread_mutex_destroy(&c->lock);
	pthread_cond_destroy(&c->changed);
	freeCollectives(comm, c);
	return result;
}

/* Pinned memory of at least `bytes`. Earlier jobs may use the memory of an earlier call. */
static ncclResult_t growStaging(ncclComm_t comm, struct collectives *c, size_t bytes)
{
	void *memory = NULL;
	void **old;

	if (bytes <= c->stagingBytes)
		return ncclSuccess;
	old = realloc(c->old, (c->oldCount + 1) * sizeof(*old));
	if (!old)
		return ncclFail(ncclSystemError, "no memory");
	c->old = old;
	ncclResult_t result = ncclFromGin(ginMemAllocHost(comm->gin, bytes, &memory));
	if (result != ncclSuccess)
		return result;
	c->old[c->oldCount++] = c->staging = memory;
	c->stagingBytes = bytes;
	return ncclSuccess;
}

static cuAddress addressOf(const void *pointer)
{
	return (cuAddress)(uintptr_t)pointer;
}

static int copyIn(struct collectives *c, const struct job *j, const void *send, void *stream)
{
	if (!j->pairs)
		return j->in ? c->cuda->copy(addressOf(j->in), addressOf(send), j->bytes, stream)
			     : 0;
	int error = ncclPairsJoin(c->cuda, j->pairs, c->event, 1);
	return error ? error : ncclPairsCopy(c->cuda, j->pairs, 1, j->in, stream);
}

/* And makes `event` the end of the job. */
static int copyOut(struct collectives *c, const struct job *j, void *receive, size_t bytes,
		   void *stream)
{
	int error = 0;

	if (j->pairs)
		error = ncclPairsCopy(c->cuda, j->pairs, 0, j->out, stream);
	else if (bytes)
		error = c->cuda->copy(addressOf(receive), addressOf(j->out), bytes, stream);
	if (!error)
		error = c->cuda->eventRecord(c->event, stream);
	return error || !j->pairs ? error : ncclPairsJoin(c->cuda, j->pairs, c->event, 0);
}

/*
 * Enqueues a job's operations on its stream. The device's context is current. Returns 0, or a
 * result of the driver.
 */
static int enqueue(struct collectives *c, const struct job *j, const void *send, void *receive,
		   size_t outBytes, void *stream)
{
	const struct ncclDriver *cuda = c->cuda;
	int error = 0;

	if (c->event)
		error = cuda->streamWaitEvent(stream, c->event, 0); /* staging is free again */
	else
		error = cuda->eventCreate(&c->event, ncclDriverNoTiming);
	if (!error)
		error = copyIn(c, j, send, stream);
	if (!error)
		error = cuda->streamWrite32(stream, addressOf(&c->mailbox->posted), j->number, 0);
	if (!error)
		error = cuda->streamWait32(stream, addressOf(&c->mailbox->done), j->number,
					   ncclDriverWaitGreater);
	return error ? error : copyOut(c, j, receive, outBytes, stream);
}

static void giveJob(struct collectives *c, struct job *j)
{
	pthread_mutex_lock(&c->lock);
	*c->end = j;
	c->end = &j->next;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
}

static ncclResult_t enqueueJob(ncclComm_t comm, struct job *j, const void *send, void *receive,
			       size_t outBytes, void *stream)
{
	struct collectives *c = comm->collectives;
	void *popped;

	j->in = send || j->pairs ? c->staging : NULL;
	j->out = c->staging + j->bytes;
	j->number = c->last + 1;
	int error = c->cuda->ctxPush(c->context);
	if (!error) {
		error = enqueue(c, j, send, receive, outBytes, stream);
		c->cuda->ctxPop(&popped);
	}
	if (error) {
		freeJob(j);
		ncclCollectiveMissed(comm);
		return ncclFail(ncclUnhandledCudaError, "a collective: CUDA driver error %d",
				error);
	}
	c->last++;
	giveJob(c, j);
	return ncclSuccess;
}

struct collectiveArgs {
	ncclComm_t comm;
	const void *send;
	void *receive;
	struct job job;
	void *stream;
};

static ncclResult_t runOnHost(const struct collectiveArgs *a)
{
	struct job j = a->job;

	j.in = (char *)(uintptr_t)a->send;
	j.out = a->receive;
	return doJob(a->comm->gin, &j, a->comm->rank, a->comm->nRanks);
}

/*
 * Makes a job and enqueues it. An input that lies in the output is copied before the output is
 * written.
 */
static ncclResult_t runOnStream(const struct collectiveArgs *a)
{
	ncclComm_t comm = a->comm;
	const size_t outBytes = outBytesOf(&a->job, comm->nRanks);
	ncclResult_t result = ncclSuccess;

	if (!comm->collectives)
		result = openCollectives(comm);
	if (result != ncclSuccess) {
		ncclPairsFree(a->job.pairs);
		return result;
	}
	struct job *j = malloc(sizeof(*j));
	result = j ? growStaging(comm, comm->collectives, a->job.bytes + outBytes)
		   : ncclFail(ncclSystemError, "no memory");
	if (result != ncclSuccess) {
		free(j);
		ncclPairsFree(a->job.pairs);
		ncclCollectiveMissed(comm);
		return result;
	}
	*j = a->job;
	return enqueueJob(comm, j, a->send, a->receive, outBytes, a->stream);
}

static ncclResult_t runCollective(void *args)
{
	const struct collectiveArgs *a = args;
	ncclResult_t result = ncclEndKept(a->comm);

	if (result != ncclSuccess || !a->job.bytes)
		return result;
	return a->comm->device < 0 ? runOnHost(a) : runOnStream(a);
}

ncclResult_t ncclPairsRun(ncclComm_t comm, struct ncclPairs *p)
{
	struct collectiveArgs args = {
		.comm = comm, .job = {.bytes = p->sendBytes, .pairs = p}, .stream = p->stream};
	ncclResult_t result = ncclEndKept(comm);

	if (result == ncclSuccess && comm->device >= 0)
		return runOnStream(&args);
	if (result == ncclSuccess)
		result = ncclPairsOnHost(comm, p);
	ncclPairsFree(p);
	return result;
}

/* The arguments that all collectives have. */
struct call {
	const char *name;
	size_t count;
	ncclDataType_t type;
	ncclComm_t comm;
	cudaStream_t stream;
};

static size_t blockBytes(const struct call *call)
{
	return call->count * ncclTypeSize(call->type);
}

/* The rank's own block of contributions that have a block for each rank. */
static struct job blockJob(const struct call *call)
{
	const size_t block = blockBytes(call);

	return (struct job){.bytes = block * (size_t)call->comm->nRanks,
			    .skip = block * (size_t)call->comm->rank,
			    .take = block,
			    .source = ALL};
}

ncclResult_t ncclCaptureCheck(const char *name, ncclComm_t comm, void *stream)
{
	const struct ncclDriver *cuda = comm->device < 0 ? NULL : ncclDriverLoad();
	int state = ncclDriverNoCapture;

	/* The driver names its own failures later. */
	if (!cuda || cuda->streamIsCapturing(stream, &state) || state == ncclDriverNoCapture)
		return ncclSuccess;
	return ncclFail(ncclInvalidUsage,
			"%s: the stream is being captured into a CUDA graph, but libgin-nccl's "
			"collectives go over CPUs, for set-up: call it outside of captures",
			name);
}

/* `send` NULL: this rank contributes nothing. */
static ncclResult_t start(const struct call *call, const struct job *job, const void *send,
			  void *receive)
{
	struct collectiveArgs args = {call->comm, send, receive, *job, call->stream};

	args.job.type = call->type;
	if (call->count && job->take && !receive)
		return ncclFail(ncclInvalidArgument, "%s: the buffer to receive is NULL",
				call->name);
	ncclResult_t result = ncclCaptureCheck(call->name, call->comm, call->stream);
	if (result != ncclSuccess)
		return result;
	return ncclGroupDo(call->comm, runCollective, &args, sizeof(args));
}

static ncclResult_t check(const struct call *call, int isSender, const void *send)
{
	const size_t size = ncclTypeSize(call->type);

	if (!call->comm || !size)
		return ncclFail(ncclInvalidArgument, "%s: comm is NULL, or the type is unknown",
				call->name);
	if (call->count > SIZE_MAX / size / (size_t)call->comm->nRanks)
		return ncclFail(ncclInvalidArgument, "%s: count is too large", call->name);
	if (call->count && isSender && !send)
		return ncclFail(ncclInvalidArgument, "%s: the buffer to send is NULL", call->name);
	return ncclSuccess;
}

/* Also checks `send`, if this rank is the root or `allSend`. */
static ncclResult_t checkRoot(const struct call *call, int root, int allSend, const void *send)
{
	ncclResult_t result = check(call, allSend, send);

	if (result != ncclSuccess)
		return result;
	if (root < 0 || root >= call->comm->nRanks)
		return ncclFail(ncclInvalidArgument, "%s: root is %d: must be 0 to %d", call->name,
				root, call->comm->nRanks - 1);
	return check(call, root == call->comm->rank, send);
}

#define CALL(name) ((struct call){name, count, type, comm, stream})

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type,
			   ncclComm_t comm, cudaStream_t stream)
{
	const struct call call = CALL("ncclAllGather");
	const struct job job = {
		.bytes = blockBytes(&call), .take = blockBytes(&call), .source = ALL};
	ncclResult_t result = check(&call, 1, send);

	return result == ncclSuccess ? start(&call, &job, send, receive) : result;
}

ncclResult_t ncclGather(const void *send, void *receive, size_t count, ncclDataType_t type,
			int root, ncclComm_t comm, cudaStream_t stream)
{
	const struct call call = CALL("ncclGather");
	struct job job = {.bytes = blockBytes(&call), .source = ALL};
	ncclResult_t result = checkRoot(&call, root, 1, send);

	if (result != ncclSuccess)
		return result;
	if (root == comm->rank)
		job.take = job.bytes;
	return start(&call, &job, send, receive);
}

ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type,
			   int root, ncclComm_t comm, cudaStream_t stream)
{
	const struct call call = CALL("ncclBroadcast");
	const size_t bytes = blockBytes(&call);
	const struct job job = {.bytes = bytes, .take = bytes, .source = root};
	ncclResult_t result = checkRoot(&call, root, 0, send);

	if (result != ncclSuccess)
		return result;
	return start(&call, &job, root == comm->rank ? send : NULL, receive);
}

ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
		       cudaStream_t stream)
{
	return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

ncclResult_t ncclScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
			 int root, ncclComm_t comm, cudaStream_t stream)
{
	const struct call call = CALL("ncclScatter");
	ncclResult_t result = checkRoot(&call, root, 0, send);

	if (result != ncclSuccess)
		return result;
	struct job job = blockJob(&call);
	job.source = root;
	return start(&call, &job, root == comm->rank ? send : NULL, receive);
}

ncclResult_t ncclAlltoAll(const void *send, void *receive, size_t count, ncclDataType_t type,
			  ncclComm_t comm, cudaStream_t stream)
{
	const struct call call = CALL("ncclAlltoAll");
	ncclResult_t result = check(&call, 1, send);

	if (result != ncclSuccess)
		return result;
	const struct job job = blockJob(&call);
	return start(&call, &job, send, receive);
}

/* `root` NULL: all ranks receive. */
static ncclResult_t reduceAll(const struct call *call, const void *send, void *receive,
			      ncclRedOp_t op, const int *root)
{
	struct job job = {.bytes = blockBytes(call), .source = ALL, .reduces = 1, .op = op};
	ncclResult_t result = ncclReduceCheck(call->name, call->type, op);

	if (result == ncclSuccess)
		result = root ? checkRoot(call, *root, 1, send) : check(call, 1, send);
	if (result != ncclSuccess)
		return result;
	if (!root || *root == call->comm->rank)
		job.take = job.bytes;
	return start(call, &job, send, receive);
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
			   ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	return reduceAll(&CALL("ncclAllReduce"), send, receive, op, NULL);
}

ncclResult_t ncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
			ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	return reduceAll(&CALL("ncclReduce"), send, receive, op, &root);
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
			       ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	const struct call call = CALL("ncclReduceScatter");
	ncclResult_t result = ncclReduceCheck(call.name, type, op);

	if (result == ncclSuccess)
		result = check(&call, 1, send);
	if (result != ncclSuccess)
		return result;
	struct job job = blockJob(&call);
	job.reduces = 1;
	job.op = op;
	return start(&call, &job, send, receive);
}
