/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_verbs.c - completion entries, as the proxy's network verbs take them from a completion queue
 *
 * An endpoint with three peers and, in half of the inputs, a queue pair of flushes. An input is a
 * list of steps: work requests are posted, entries are written, the endpoint is polled. An entry
 * names a work request that was posted once, or a receive that is posted; its status, opcode,
 * length, and immediate are any. Each work request has one event at most, in the order of posting;
 * a message comes from the buffer of its receive; after the death of a peer all its work requests
 * have an event.
 */
/* HEADERS: libibverbs */
#include "fuzz.h"

#include <arpa/inet.h>

#include "backends/proxy/verbs/flush.c"
#include "backends/proxy/verbs/poll.c"

#define PEERS 4
#define SLOTS 16 /* work requests of a queue pair, and receives of it */
#define ENTRIES 64
#define SPARE 16 /* more than one poll returns */

static struct fabric fabric;
static struct fabricRegion gpu;
static struct fabricEnd end;
static struct verbsPeer peers[PEERS], *peerAt[PEERS];
static struct ibv_qp qps[PEERS];
static struct verbsOp ops[PEERS][SLOTS];
static unsigned char messages[PEERS][SLOTS][VERBS_MESSAGE], buffers[PEERS][SLOTS][VERBS_MESSAGE];
static struct verbsHeld held[PEERS * SLOTS];
static uint8_t isPosted[PEERS][SLOTS]; /* the receive */
static uint32_t reported[PEERS];       /* contexts of events so far */
static uint32_t deaths[PEERS];
static struct ibv_wc entry[ENTRIES];
static int entries;
static int refusesReceives, refusesFlushes;

/* The functions that the included files call. */

int verbsFail(char *why, const char *reason)
{
	snprintf(why, FABRIC_WHY, "%s", reason);
	return fabricFailed;
}

int verbsFailErrno(char *why, const char *what, int error)
{
	snprintf(why, FABRIC_WHY, "%s: %d", what, error);
	return fabricFailed;
}

int verbsPairOpen(struct fabricEnd *of, void *pair, uint64_t *peer, char *why)
{
	(void)of, (void)pair, (void)peer;
	return verbsFail(why, "not here");
}

int verbsPairConnect(struct fabricEnd *of, uint64_t peer, const void *address, const void *theirs,
		     char *why)
{
	(void)of, (void)peer, (void)address, (void)theirs;
	return verbsFail(why, "not here");
}

void verbsGoDown(struct fabric *f, const char *text)
{
	(void)f, (void)text;
}

int verbsTakeEvent(struct fabricEnd *of, struct fabricEvent *event)
{
	static unsigned calls;

	(void)of;
	*event = (struct fabricEvent){.kind = fabricNotice, .why = "news"};
	return ++calls % 2;
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return status <= IBV_WC_GENERAL_ERR ? "a status that has a name" : "unknown";
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
	(void)channel, (void)cq, (void)context;
	return -1;
}

int verbsReceivePost(struct verbsPeer *peer, uint32_t index)
{
	EXPECT(index < SLOTS && !isPosted[peer->index][index]);
	if (refusesReceives)
		return ENOMEM;
	isPosted[peer->index][index] = 1;
	return 0;
}

/* `context`: of a transfer, as post.c keeps it. */
static int begin(struct verbsPeer *peer, enum verbsKind kind, uint32_t bytes, int intoGpu)
{
	if (peer->isDead || peer->begun - peer->reported >= SLOTS)
		return fabricBusy;
	void *context = kind == verbsWrite || kind == verbsRead
				? (void *)(uintptr_t)(peer->begun + 1)
				: NULL;
	peer->op[peer->begun % SLOTS] = (struct verbsOp){.context = context,
							 .bytes = bytes,
							 .kind = (uint8_t)kind,
							 .intoGpu = intoGpu && kind == verbsRead};
	peer->posted = ++peer->begun;
	return fabricOk;
}

int verbsPostFlush(struct fabricEnd *of, const struct fabricRegion *region, void *to)
{
	EXPECT(region == &gpu && to);
	return refusesFlushes ? fabricBusy : begin(of->self, verbsFlush, 8, 0);
}

static int pollCq(struct ibv_cq *cq, int most, struct ibv_wc *out)
{
	int count = most < entries ? most : entries;

	(void)cq;
	EXPECT(most >= 0);
	memcpy(out, entry, (size_t)count * sizeof(*entry));
	memmove(entry, entry + count, (size_t)(entries - count) * sizeof(*entry));
	entries -= count;
	return count;
}

static int armCq(struct ibv_cq *cq, int solicited)
{
	(void)cq, (void)solicited;
	return 0;
}

static void openEnd(uint8_t how)
{
	static struct ibv_context context = {.ops = {.poll_cq = pollCq, .req_notify_cq = armCq}};
	static struct ibv_cq cq = {.context = &context};

	memset(peers, 0, sizeof(peers));
	memset(reported, 0, sizeof(reported));
	memset(deaths, 0, sizeof(deaths));
	memset(isPosted, 1, sizeof(isPosted));
	entries = refusesReceives = refusesFlushes = 0;
	memset(&fabric, 0, sizeof(fabric));
	end = (struct fabricEnd){.fabric = &fabric,
				 .cq = &cq,
				 .depth = SLOTS,
				 .receives = SLOTS,
				 .wait = -1,
				 .room = PEERS,
				 .peers = PEERS,
				 .peer = peerAt,
				 .held = held};
	uint32_t first = how & 2 ? UINT32_MAX - 5 : 0; /* serial numbers wrap around */
	for (uint32_t i = 0; i < PEERS; i++) {
		peerAt[i] = &peers[i];
		peers[i] = (struct verbsPeer){.end = &end,
					      .qp = &qps[i],
					      .index = i,
					      .reported = first,
					      .completed = first,
					      .posted = first,
					      .begun = first,
					      .op = ops[i],
					      .message = messages[i],
					      .received = buffers[i]};
		reported[i] = first;
		for (int s = 0; s < SLOTS; s++)
			memset(buffers[i][s], (int)(i * SLOTS) + s, VERBS_MESSAGE);
	}
	if (!(how & 1))
		return;
	end.self = &peers[PEERS - 1];
	atomic_store(&fabric.gpu, &gpu);
	atomic_store(&fabric.gpuWindows, how >> 2 & 1);
}

static void addEntry(struct fuzzInput *in)
{
	uint8_t which = fuzzByte(in), status = fuzzByte(in), opcode = fuzzByte(in);
	struct verbsPeer *peer = &peers[which % PEERS];
	struct ibv_wc wc = {.status = status & 128 ? status & 31 : IBV_WC_SUCCESS,
			    .vendor_err = opcode,
			    .opcode = opcode & 1 ? IBV_WC_RECV_RDMA_WITH_IMM : opcode,
			    .wc_flags = opcode};

	if (entries == ENTRIES)
		return;
	wc.byte_len = opcode & 128 ? (uint32_t)fuzzWord(in) : fuzzByte(in);
	wc.imm_data = (uint32_t)fuzzWord(in);
	if (which & 8 && peer != end.self) {
		uint32_t index = which >> 4;
		if (!isPosted[peer->index][index])
			return;
		isPosted[peer->index][index] = 0;
		wc.wr_id = verbsNumber(peer, index) | VERBS_RECEIVE;
	} else { /* a number of long ago, or of a work request that is not posted yet */
		wc.wr_id = verbsNumber(peer, peer->posted - 1 -
						     (which & 128 ? (which >> 4 & 7) - 2u : 0));
	}
	entry[entries++] = wc;
}

static void checkMessage(const struct verbsPeer *peer, const struct fabricEvent *event)
{
	const unsigned char *first = event->message;

	EXPECT(*first / SLOTS == peer->index);
	for (int i = 1; i < FABRIC_MESSAGE; i++)
		EXPECT(event->message[i] == *first);
}

static void checkEvent(const struct fabricEvent *event)
{
	const struct verbsPeer *peer = (const struct verbsPeer *)(uintptr_t)event->peer;

	if (event->kind == fabricNotice)
		return;
	EXPECT(peer >= peers && peer < peers + PEERS);
	switch (event->kind) {
	case fabricDone:
		/* In order; work requests without a context have no event. */
		EXPECT(peer != end.self);
		EXPECT((uint32_t)(uintptr_t)event->context - 1 - reported[peer->index] <
		       peer->begun - reported[peer->index]);
		reported[peer->index] = (uint32_t)(uintptr_t)event->context;
		break;
	case fabricMessage:
		checkMessage(peer, event);
		break;
	case fabricImmediate:
		EXPECT(peer != end.self);
		break;
	default:
		EXPECT(peer->isDead && !deaths[peer->index]++);
		EXPECT((event->kind == fabricDown) == (peer == end.self));
		EXPECT(event->why && strlen(event->why) < FABRIC_WHY && event->why[0]);
	}
}

static int poll(int most)
{
	static struct fabricEvent events[SPARE + 1];

	memset(&events[most], 0x5a, sizeof(events[0]));
	int count = verbsPoll(&end, events, most);
	EXPECT(count >= 0 && count <= most);
	for (int i = 0; i < count; i++)
		checkEvent(&events[i]);
	for (size_t i = 0; i < sizeof(events[0]); i++)
		EXPECT(((const unsigned char *)&events[most])[i] == 0x5a);
	return count;
}

static void step(struct fuzzInput *in)
{
	uint8_t what = fuzzByte(in);
	uint32_t peer = what >> 3 & 3;

	switch (what % 8) {
	case 0:
	case 1:
		if (&peers[peer] != end.self)
			begin(&peers[peer], fuzzByte(in) % 3, what, end.self && what & 32);
		break;
	case 2:
	case 3:
	case 4:
		addEntry(in);
		break;
	case 5:
		refusesReceives = what >> 4 == 15;
		refusesFlushes = what >> 3 & 1;
		break;
	case 6:
		verbsArm(&end, what >> 3 & 1);
		break;
	default:
		poll(1 + (what >> 3) % SPARE);
	}
}

static void completeFlush(void)
{
	if (end.self && end.self->completed != end.self->posted && !entries)
		entry[entries++] =
			(struct ibv_wc){.wr_id = verbsNumber(end.self, end.self->posted - 1)};
}

static void fuzzOne(struct fuzzInput *in)
{
	openEnd(fuzzByte(in));
	for (int steps = 0; in->left && steps < 400; steps++)
		step(in);
	refusesReceives = refusesFlushes = 0;
	for (int quiet = 0; quiet < 3; quiet++) {
		int isBusy = poll(SPARE);
		completeFlush();
		if (isBusy || entries)
			quiet = 0;
	}
	for (int i = 0; i < PEERS; i++) {
		EXPECT(!peers[i].isDead || deaths[i] == 1);
		EXPECT(!peers[i].isDead || peers[i].reported == peers[i].posted);
	}
}
