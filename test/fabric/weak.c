/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weak.c - libgin-weak.so, a network between the ranks of one process that is as weak as fabric.h
 * allows: GIN_TRANSPORT=weak
 *
 * Writes, reads and messages are "in the air" for a random time and arrive in random order;
 * messages arrive twice now and then; one call in four finds no room. An ordered fabric has
 * immediates. A fabric whose regions of memory are not all removed ends the process.
 *
 *	WEAK_SEED=N	the seed, which is printed
 *	WEAK_ORDERED=1	an ordered fabric; its reads are late nevertheless
 *	WEAK_STRANGERS=1	messages carry proofs, and there are no immediates
 *	WEAK_PAIRS=odd	serves pairs of ranks whose numbers differ by an odd number only
 *	WEAK_FAIL=N	the N-th write fails
 *	WEAK_CUT=BYTES	the last bytes of each write are lost
 *	WEAK_LOSE=1	messages are lost
 *	WEAK_SLOW=N	between ends 0 and 1 all is N times as long in the air
 *	WEAK_MOST=BYTES	most bytes of one write or read
 *	WEAK_GPU=1	reaches "GPU memory" of this process, where CPUs do, too
 *	WEAK_REUSE=1	numbers of ends are used again: for programs that open many in sequence
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/proxy/network/fabric.h"
#include "backends/rdma/rdma.h"

#define AIR 96 /* operations of an endpoint in flight */
#define ENDS 4096

enum weakKind { weakWrite, weakRead, weakMessage };

struct weakOp {
	enum weakKind kind;
	uint32_t delay; /* polls */
	uint64_t from, peer;
	struct fabricPiece piece;
	void *context;
	char *copy; /* of a write that is done before it arrives */
	int hasImmediate;
	uint32_t immediate;
	uint32_t bytes;
	unsigned char message[FABRIC_MESSAGE];
};

struct weakInbox {
	pthread_mutex_t lock;
	struct fabricEvent *event;
	uint32_t count, room;
};

struct fabric {
	uint64_t regions; /* of memory */
};

struct fabricRegion {
	struct fabric *fabric;
	char *at;
	size_t bytes;
	uint64_t key;
	struct fabricRegion *next;
};

struct fabricEnd {
	uint64_t number, random;
	uint32_t inAir;
	struct weakOp air[AIR];
	struct weakInbox inbox;
};

static struct {
	pthread_mutex_t lock; /* also held while memory is copied, so that it stays registered */
	pthread_once_t once;
	struct fabricEnd *end[ENDS];
	struct fabricRegion *regions;
	uint64_t ends, keys, probes, writes;
	uint64_t seed, most, fail, cut, slow;
	int ordered, odd, reuse, lose, strangers;
} net = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void endHere(int number)
{
	_exit(128 + number);
}

/* As libraries that libfabric loads: pluginOpen() gives the program its signals back. */
__attribute__((constructor)) static void takeSignals(void)
{
	signal(SIGINT, endHere);
}

static uint64_t number(const char *name, uint64_t preset)
{
	const char *text = getenv(name);

	return text ? strtoull(text, NULL, 0) : preset;
}

static void readEnvironment(void)
{
	const char *pairs = getenv("WEAK_PAIRS");

	net.seed = number("WEAK_SEED", (uint64_t)time(NULL) << 16 ^ (uint64_t)getpid());
	net.most = number("WEAK_MOST", 4096);
	net.fail = number("WEAK_FAIL", 0);
	net.cut = number("WEAK_CUT", 0);
	net.slow = number("WEAK_SLOW", 1);
	net.ordered = number("WEAK_ORDERED", 0) != 0;
	net.lose = number("WEAK_LOSE", 0) != 0;
	net.reuse = number("WEAK_REUSE", 0) != 0;
	net.strangers = number("WEAK_STRANGERS", 0) != 0;
	net.odd = pairs && !strcmp(pairs, "odd");
	fprintf(stderr, "weak: WEAK_SEED=%llu%s\n", (unsigned long long)net.seed,
		net.ordered ? ", ordered" : "");
}

/* Below `below`. */
static uint32_t chance(struct fabricEnd *end, uint32_t below)
{
	end->random ^= end->random << 13;
	end->random ^= end->random >> 7;
	end->random ^= end->random << 17;
	return (uint32_t)(end->random >> 16) % below;
}

static int weakProbe(const struct fabricWanted *want, struct fabricAbout *about, char *why)
{
	(void)want, (void)why;
	pthread_once(&net.once, readEnvironment);
	*about = (struct fabricAbout){.name = "weak", .kind = (uint64_t)getpid()};
	about->mostBytes = net.most;
	about->ordered = net.ordered != 0;
	about->immediates = about->ordered;
	about->hasStrangers = net.strangers != 0;
	about->id = __atomic_fetch_add(&net.probes, 1, __ATOMIC_RELAXED);
	return fabricOk;
}

static int weakReaches(uint64_t mine, uint64_t theirs)
{
	return !net.odd || ((mine + theirs) & 1);
}

static int weakOpen(const struct fabricWanted *want, struct fabric **out, char *why)
{
	(void)want, (void)why;
	*out = calloc(1, sizeof(**out));
	return *out ? fabricOk : fabricFailed;
}

static void weakClose(struct fabric *fabric)
{
	if (fabric->regions) {
		fprintf(stderr, "weak.c:%d: %llu regions of memory stay\n", __LINE__,
			(unsigned long long)fabric->regions);
		abort();
	}
	free(fabric);
}

static int weakEndOpen(struct fabric *fabric, struct fabricEnd **out, void *address, char *why)
{
	struct fabricEnd *end = calloc(1, sizeof(*end));

	(void)fabric;
	pthread_mutex_lock(&net.lock);
	uint64_t n = net.reuse ? 0 : net.ends;
	while (n < net.ends && net.end[n])
		n++;
	net.ends += n == net.ends && n < ENDS;
	if (end && n < ENDS)
		net.end[n] = end;
	pthread_mutex_unlock(&net.lock);
	if (!end || n == ENDS) {
		free(end);
		snprintf(why, FABRIC_WHY, "too many ends");
		return fabricFailed;
	}
	end->number = n;
	end->random = (net.seed + n) * 0x9e3779b97f4a7c15ull | 1;
	pthread_mutex_init(&end->inbox.lock, NULL);
	memcpy(address, &n, sizeof(n));
	*out = end;
	return fabricOk;
}

static void weakEndClose(struct fabricEnd *end)
{
	pthread_mutex_lock(&net.lock);
	net.end[end->number] = NULL;
	pthread_mutex_unlock(&net.lock);
	pthread_mutex_destroy(&end->inbox.lock);
	for (uint32_t i = 0; i < end->inAir; i++)
		free(end->air[i].copy);
	free(end->inbox.event);
	free(end);
}

static int weakConnect(struct fabricEnd *end, const void *address, uint64_t *peer, char *why)
{
	(void)end, (void)why;
	memcpy(peer, address, sizeof(*peer));
	return fabricOk;
}

static int weakMemoryAdd(struct fabric *fabric, void *at, size_t bytes, struct fabricRegion **out,
			 struct fabricKey *key, char *why)
{
	struct fabricRegion *region = calloc(1, sizeof(*region));

	(void)why;
	if (!region)
		return fabricFailed;
	pthread_mutex_lock(&net.lock);
	*region = (struct fabricRegion){fabric, at, bytes, ++net.keys, net.regions};
	fabric->regions++;
	net.regions = region;
	pthread_mutex_unlock(&net.lock);
	*key = (struct fabricKey){(uintptr_t)at, region->key};
	*out = region;
	return fabricOk;
}

static int weakGpuMemoryAdd(struct fabric *fabric, const struct rdmaMemory *memory,
			    struct fabricRegion **out, struct fabricKey *key, const char **how,
			    char *why)
{
	if (!number("WEAK_GPU", 0)) {
		snprintf(why, FABRIC_WHY, "WEAK_GPU is unset");
		return fabricFailed;
	}
	*how = memory->dmabuf < 0 ? "nvidia-peermem" : "dma-buf";
	return weakMemoryAdd(fabric, memory->address, memory->bytes, out, key, why);
}

static void weakMemoryRemove(struct fabricRegion *region)
{
	pthread_mutex_lock(&net.lock);
	struct fabricRegion **at = &net.regions;
	while (*at != region)
		at = &(*at)->next;
	*at = region->next;
	region->fabric->regions--;
	pthread_mutex_unlock(&net.lock);
	free(region);
}

/* Puts an operation into the air. One call in four finds no room. */
static struct weakOp *launch(struct fabricEnd *end, enum weakKind kind, uint64_t peer)
{
	if (end->inAir == AIR || !chance(end, 4))
		return NULL;
	struct weakOp *op = &end->air[end->inAir++];
	*op = (struct weakOp){.kind = kind, .from = end->number, .peer = peer};
	op->delay = chance(end, chance(end, 8) ? 4 : 60);
	if (end->number <= 1 && peer <= 1)
		op->delay = (op->delay + 1) * (uint32_t)net.slow - 1;
	return op;
}

static struct weakOp *transfer(struct fabricEnd *end, enum weakKind kind, uint64_t peer,
			       const struct fabricPiece *piece, void *context)
{
	struct weakOp *op = launch(end, kind, peer);

	if (op) {
		op->piece = *piece;
		op->context = context;
	}
	return op;
}

/* The caller holds the inbox's lock. */
static struct fabricEvent *newEvent(struct weakInbox *in)
{
	if (in->count == in->room) {
		in->room = in->room ? in->room * 2 : 64;
		in->event = realloc(in->event, in->room * sizeof(*in->event));
	}
	return &in->event[in->count++];
}

/* A message covers it, so that its source may change now. */
static void doneEarly(struct fabricEnd *end, struct weakOp *op)
{
	op->copy = malloc(op->piece.bytes);
	op->piece.local = memcpy(op->copy, op->piece.local, op->piece.bytes);
	pthread_mutex_lock(&end->inbox.lock);
	*newEvent(&end->inbox) = (struct fabricEvent){.kind = fabricDone, .context = op->context};
	pthread_mutex_unlock(&end->inbox.lock);
}

static int weakWriteTo(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece,
		       const uint32_t *immediate, void *context)
{
	struct weakOp *op = transfer(end, weakWrite, peer, piece, context);

	if (op && immediate) {
		op->hasImmediate = 1;
		op->immediate = *immediate;
	}
	if (op && piece->isCovered && net.ordered && !net.fail)
		doneEarly(end, op);
	return op ? fabricOk : fabricBusy;
}

static int weakReadFrom(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece,
			void *context)
{
	return transfer(end, weakRead, peer, piece, context) ? fabricOk : fabricBusy;
}

static int weakSend(struct fabricEnd *end, uint64_t peer, const void *message, size_t bytes)
{
	struct weakOp *op = bytes <= FABRIC_MESSAGE ? launch(end, weakMessage, peer) : NULL;

	if (!op)
		return bytes <= FABRIC_MESSAGE ? fabricBusy : fabricFailed;
	op->bytes = (uint32_t)bytes;
	memcpy(op->message, message, bytes);
	return fabricOk;
}

/* Stores whole aligned words, so that a reader never sees a word of 4 or 8 bytes in part. */
static void copy(char *to, const char *from, size_t bytes)
{
	while (bytes) {
		size_t step = bytes >= 8 && (uintptr_t)to % 8 == 0   ? 8
			      : bytes >= 4 && (uintptr_t)to % 4 == 0 ? 4
								     : 1;
		uint64_t word = 0;
		memcpy(&word, from, step);
		if (step == 8)
			__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELAXED);
		else if (step == 4)
			__atomic_store_n((uint32_t *)(void *)to, (uint32_t)word, __ATOMIC_RELAXED);
		else
			__atomic_store_n(to, (char)word, __ATOMIC_RELAXED);
		to += step;
		from += step;
		bytes -= step;
	}
}

/* The memory that a key names, or NULL. The lock is held. */
static char *find(const struct fabricKey *key, uint64_t bytes)
{
	for (struct fabricRegion *r = net.regions; r; r = r->next) {
		uint64_t offset = key->address - (uintptr_t)r->at;
		if (r->key == key->key)
			return offset <= r->bytes && bytes <= r->bytes - offset ? r->at + offset
										: NULL;
	}
	return NULL;
}

/* Messages and immediates to a closed end are lost. The global lock keeps the end open. */
static void deliver(const struct weakOp *op)
{
	pthread_mutex_lock(&net.lock);
	struct fabricEnd *to = net.lose ? NULL : net.end[op->peer];
	if (to) {
		struct weakInbox *in = &to->inbox;
		pthread_mutex_lock(&in->lock);
		struct fabricEvent *event = newEvent(in);
		event->kind = op->hasImmediate ? fabricImmediate : fabricMessage;
		event->immediate = op->immediate;
		event->peer = op->from;
		event->bytes = op->bytes;
		memcpy(event->message, op->message, op->bytes);
		pthread_mutex_unlock(&in->lock);
	}
	pthread_mutex_unlock(&net.lock);
}

static void move(const struct weakOp *op, struct fabricEvent *event)
{
	pthread_mutex_lock(&net.lock);
	char *there = find(&op->piece.remote, op->piece.bytes);
	int fails = !there || (op->kind == weakWrite && ++net.writes == net.fail);
	if (!fails && op->kind == weakWrite)
		copy(there, op->piece.local,
		     op->piece.bytes > net.cut ? op->piece.bytes - net.cut : 0);
	else if (!fails)
		copy(op->piece.local, there, op->piece.bytes);
	pthread_mutex_unlock(&net.lock);
	if (!fails && op->hasImmediate)
		deliver(op);
	*event = (struct fabricEvent){.kind = fabricDone, .error = fails, .context = op->context};
}

/* The operation of the air that arrives when chance points to `at`. */
static uint32_t firstOf(const struct fabricEnd *end, uint32_t at)
{
	uint32_t first = 0;

	if (!net.ordered || end->air[at].kind == weakRead)
		return at;
	while (end->air[first].peer != end->air[at].peer || end->air[first].kind == weakRead)
		first++;
	return first;
}

static void take(struct fabricEnd *end, uint32_t at)
{
	end->inAir--;
	if (net.ordered)
		memmove(&end->air[at], &end->air[at + 1], (end->inAir - at) * sizeof(end->air[0]));
	else
		end->air[at] = end->air[end->inAir];
}

/* Returns 1 if it has made an event. */
static int arrive(struct fabricEnd *end, struct fabricEvent *event)
{
	uint32_t at = firstOf(end, chance(end, end->inAir));
	struct weakOp *op = &end->air[at];

	if (op->delay) {
		op->delay--;
		return 0;
	}
	if (op->kind != weakMessage) {
		char *copied = op->copy;
		move(op, event);
		free(copied);
		take(end, at);
		return !copied;
	}
	deliver(op);
	if (net.ordered || chance(end, 8))
		take(end, at); /* otherwise it arrives once more */
	return 0;
}

static int receive(struct fabricEnd *end, struct fabricEvent *event)
{
	struct weakInbox *in = &end->inbox;
	int has;

	pthread_mutex_lock(&in->lock);
	has = in->count != 0;
	if (has) {
		uint32_t at = net.ordered ? 0 : chance(end, in->count);
		*event = in->event[at];
		in->count--;
		if (net.ordered)
			memmove(in->event, in->event + 1, in->count * sizeof(*in->event));
		else
			in->event[at] = in->event[in->count];
	}
	pthread_mutex_unlock(&in->lock);
	return has;
}

static int weakPoll(struct fabricEnd *end, struct fabricEvent *events, int most)
{
	uint32_t rounds = 1 + chance(end, 24);
	int count = 0;

	for (uint32_t i = 0; i < rounds && count < most; i++) {
		if (end->inAir)
			count += arrive(end, &events[count]);
		if (count < most && chance(end, 3))
			count += receive(end, &events[count]);
	}
	return count;
}

__attribute__((visibility("default"))) const struct fabricCalls ginFabric = {
	.size = sizeof(ginFabric),
	.probe = weakProbe,
	.reaches = weakReaches,
	.open = weakOpen,
	.close = weakClose,
	.endOpen = weakEndOpen,
	.endClose = weakEndClose,
	.connect = weakConnect,
	.memoryAdd = weakMemoryAdd,
	.memoryRemove = weakMemoryRemove,
	.gpuMemoryAdd = weakGpuMemoryAdd,
	.write = weakWriteTo,
	.read = weakReadFrom,
	.send = weakSend,
	.poll = weakPoll,
};
