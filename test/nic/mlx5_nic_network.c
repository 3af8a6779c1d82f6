/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5_nic_network.c - the network verbs of libgin-rdma.so, against the contract of fabric.h
 *
 * An endpoint writes, reads and sends messages to another endpoint of this process. Every
 * operation's event comes once. A fault of the software device fails the operation that it hits and
 * all later ones of that peer, in words; no earlier operation fails, and no failed message arrives.
 *
 * Shared memory stands in for a GPU's, its descriptor for a dma-buf's. With an adversary and
 * `weakcqe` the software device writes into a region by dma-buf after the completion, so the flush
 * is needed.
 *
 * mlx5_nic_network DEVICE: without faults, on a device of this machine.
 */
/* COMPILE: -fvisibility=default */
/* LINK: -rdynamic -Wl,--no-as-needed */
/* PACKAGES: libmlx5 libibverbs */
/* NEEDS: libgin-rdma.so */
#include "files.h"
#include "verbs_calls.h"

#include <poll.h>
#include <sys/mman.h>
#include <time.h>

enum { OPS = 400, SLOT = 64, LONG = 8192, PATIENCE_S = 20 };

static const struct fabricCalls *net;
static char why[FABRIC_WHY];

static void load(void)
{
	static const struct plugin plugin = {"libgin-rdma.so", FABRIC_SYMBOL,
					     sizeof(struct fabricCalls)};
	const void *calls = NULL;

	expectThat(pluginOpen(&plugin, &calls, why, sizeof(why)) == pluginFound, __FILE__, __LINE__,
		   "%s", why);
	net = calls;
}

/* Operation number i of the first endpoint. */
enum opKind { opWrite, opImmediate, opRead, opMessage, OP_KINDS };

static enum opKind kindOf(uint32_t i)
{
	return (enum opKind)((i * 2654435761u >> 13) % OP_KINDS);
}

struct netEnd {
	struct fabric *fabric;
	struct fabricEnd *end;
	struct fabricRegion *region, *flushed;
	struct fabricKey key;
	uint64_t peer;
	unsigned char address[FABRIC_ADDRESS], pair[16];
	unsigned char *window; /* [OPS * SLOT] */
	uint32_t expected;     /* number of the next message or immediate from the other endpoint */
	uint32_t lost;	       /* events */
	char why[FABRIC_WHY], notice[FABRIC_WHY], down[FABRIC_WHY];
};

static struct netEnd ends[2];
static uint8_t outcome[OPS]; /* 1: done, 2: has failed */
static uint32_t begun;

#define EXPECT_FABRIC(call) expectThat((call) == fabricOk, __FILE__, __LINE__, "%s: %s", #call, why)

enum { WINDOW = (OPS * SLOT + RDMA_PAGE - 1) / RDMA_PAGE * RDMA_PAGE };

static unsigned char *shared(int *fd)
{
	*fd = memfd_create("window", MFD_CLOEXEC);
	EXPECT(*fd >= 0 && !ftruncate(*fd, WINDOW));
	void *at = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	EXPECT(at != MAP_FAILED);
	return at;
}

static const char *expectedHow;

static struct fabricRegion *addGpu(struct netEnd *e, unsigned char **at, struct fabricKey *key)
{
	struct rdmaMemory memory = {.bytes = WINDOW};
	struct fabricRegion *region;
	const char *how = "";

	*at = memory.address = shared(&memory.dmabuf);
	EXPECT_FABRIC(net->gpuMemoryAdd(e->fabric, &memory, &region, key, &how, why));
	EXPECT_TEXT(how, expectedHow);
	close(memory.dmabuf);
	return region;
}

static void openWindow(struct netEnd *e)
{
	struct fabricKey unused;
	unsigned char *page;
	int fd;

	if (wanted.hasGpu) {
		e->flushed = addGpu(e, &page, &unused);
		e->region = addGpu(e, &e->window, &e->key);
		return;
	}
	e->window = shared(&fd);
	EXPECT_FABRIC(net->memoryAdd(e->fabric, e->window, WINDOW, &e->region, &e->key, why));
}

static void openEnd(struct netEnd *e)
{
	EXPECT_FABRIC(net->open(&wanted, &e->fabric, why));
	EXPECT_FABRIC(net->endOpen(e->fabric, &e->end, e->address, why));
	openWindow(e);
	EXPECT_FABRIC(net->pairOpen(e->end, e->pair, &e->peer, why));
}

static void openBoth(void)
{
	for (int i = 0; i < 2; i++)
		openEnd(&ends[i]);
	for (int i = 0; i < 2; i++)
		EXPECT_FABRIC(net->pairConnect(ends[i].end, ends[i].peer, ends[1 - i].address,
					       ends[1 - i].pair, why));
	for (uint32_t i = 0; i < OPS; i++)
		memset(ends[kindOf(i) == opRead].window + i * SLOT, (int)(i % 251 + 1), SLOT);
}

static void closeBoth(void)
{
	for (int i = 0; i < 2; i++) {
		net->endClose(ends[i].end);
		net->memoryRemove(ends[i].region);
		if (ends[i].flushed)
			net->memoryRemove(ends[i].flushed);
		net->close(ends[i].fabric);
	}
}

static int isWhole(const struct netEnd *e, uint32_t i)
{
	for (uint32_t b = 0; b < SLOT; b++)
		if (e->window[i * SLOT + b] != i % 251 + 1)
			return 0;
	return 1;
}

/* A message or an immediate with number i: all writes before are there. */
static void arrived(struct netEnd *e, uint32_t i)
{
	EXPECT(e->end == ends[1].end && i < begun);
	for (; e->expected < i; e->expected++) {
		EXPECT(kindOf(e->expected) == opWrite || kindOf(e->expected) == opRead);
		if (kindOf(e->expected) == opWrite)
			EXPECT(isWhole(e, e->expected));
	}
	EXPECT_EQUAL(e->expected, i);
	if (kindOf(i) == opImmediate)
		EXPECT(isWhole(e, i));
	e->expected++;
}

static void done(struct netEnd *e, const struct fabricEvent *event)
{
	uint32_t i = (uint32_t)((uintptr_t)event->context - 1);

	EXPECT(e->end == ends[0].end && i < begun && !outcome[i]);
	outcome[i] = event->error ? 2 : 1;
	/* A weak completion needs a flush, and memory of the host has none. */
	if (!event->error && kindOf(i) == opRead && (wanted.hasGpu || !nicAdversary("weakcqe")))
		EXPECT(isWhole(e, i));
}

static void take(struct netEnd *e, const struct fabricEvent *event)
{
	uint32_t i;

	if (event->kind == fabricDone) {
		done(e, event);
	} else if (event->kind == fabricMessage) {
		EXPECT_EQUAL(event->bytes, sizeof(i));
		memcpy(&i, event->message, sizeof(i));
		arrived(e, i);
	} else if (event->kind == fabricImmediate) {
		EXPECT_EQUAL(event->peer, e->peer);
		arrived(e, (uint32_t)event->immediate);
	} else if (event->kind == fabricLost) {
		EXPECT_EQUAL(event->peer, e->peer);
		e->lost++;
		snprintf(e->why, sizeof(e->why), "%s", event->why);
	} else {
		snprintf(event->kind == fabricDown ? e->down : e->notice, FABRIC_WHY, "%s",
			 event->why);
	}
}

/* Returns the number of events. */
static int pollBoth(void)
{
	struct fabricEvent event[7];
	int count = 0;

	for (int i = 0; i < 2; i++) {
		int most = 1 + rand() % 7, got = net->poll(ends[i].end, event, most);
		EXPECT(got <= most);
		for (int k = 0; k < got; k++)
			take(&ends[i], &event[k]);
		count += got;
	}
	return count;
}

static void untilWords(const char *text)
{
	time_t end = time(NULL) + PATIENCE_S;

	while (!*text && time(NULL) < end)
		pollBoth();
}

static int beginOp(uint32_t i)
{
	struct netEnd *a = &ends[0];
	const struct fabricPiece piece = {(char *)a->window + i * SLOT,
					  SLOT,
					  {ends[1].key.address + i * SLOT, ends[1].key.key},
					  0};
	const uint32_t immediate = i;
	void *context = (void *)(uintptr_t)(i + 1);

	switch (kindOf(i)) {
	case opWrite:
		return net->write(a->end, a->peer, &piece, NULL, context);
	case opImmediate:
		return net->write(a->end, a->peer, &piece, &immediate, context);
	case opRead:
		return net->read(a->end, a->peer, &piece, context);
	default:
		return net->send(a->end, a->peer, &i, sizeof(i));
	}
}

static int isOver(void)
{
	return ends[0].lost || ends[0].down[0];
}

/* Runs until all operations are begun, or the first endpoint is lost. */
static void beginAll(void)
{
	time_t end = time(NULL) + PATIENCE_S;

	while (begun < OPS && !isOver() && time(NULL) < end) {
		for (int burst = rand() % 24; burst && begun < OPS; burst--) {
			int result = beginOp(begun);
			if (result != fabricOk) {
				EXPECT_EQUAL(result, fabricBusy);
				break;
			}
			begun++;
		}
		net->submit(ends[0].end);
		pollBoth();
	}
	EXPECT(begun == OPS || isOver());
}

static int allTold(void)
{
	for (uint32_t i = 0; i < begun; i++)
		if (kindOf(i) != opMessage && !outcome[i])
			return 0;
	return 1;
}

/* Runs until every operation has its event and all messages have arrived; then a little longer. */
static void drain(int isFaulty)
{
	time_t end = time(NULL) + PATIENCE_S;
	uint32_t last = OPS;

	while (last && (kindOf(last - 1) == opWrite || kindOf(last - 1) == opRead))
		last--;
	while (time(NULL) < end && (!allTold() || (!isFaulty && ends[1].expected < last)))
		pollBoth();
	for (int i = 0; i < 5000; i++)
		pollBoth();
	EXPECT(allTold());
	if (!isFaulty)
		EXPECT_EQUAL(ends[1].expected, last);
}

static void whole(void)
{
	openBoth();
	beginAll();
	drain(0);
	for (uint32_t i = 0; i < OPS; i++)
		EXPECT_EQUAL(outcome[i], kindOf(i) != opMessage);
	EXPECT(!ends[0].lost && !ends[1].lost);
	closeBoth();
}

static void ofGpu(void)
{
	expectedHow = nicIsSoftware() && !nicProfile("nodmabuf") ? "dma-buf" : "nvidia-peermem";
	wanted.hasGpu = 1;
}

/* Reads into GPU memory, and messages about data there, come after a flush. */
static void wholeOfGpu(void)
{
	ofGpu();
	whole();
}

/* The event of the first endpoint's only operation. */
static void awaitDone(void)
{
	struct fabricEvent event = {.kind = fabricNotice};
	time_t end = time(NULL) + PATIENCE_S;

	net->submit(ends[0].end);
	while (net->poll(ends[0].end, &event, 1) != 1 && time(NULL) < end)
		;
	EXPECT(event.kind == fabricDone && !event.error);
}

/* A read by the first endpoint, or a write: its bytes are there when its event comes. */
static void moveOnce(enum opKind kind, uint32_t value)
{
	const struct fabricPiece piece = {(char *)ends[0].window, LONG, ends[1].key, 0};
	struct netEnd *from = &ends[kind == opRead], *to = &ends[kind != opRead];

	memset(from->window, (int)value, LONG);
	if (kind == opRead)
		EXPECT_EQUAL(net->read(ends[0].end, ends[0].peer, &piece, ends), fabricOk);
	else
		EXPECT_EQUAL(net->write(ends[0].end, ends[0].peer, &piece, NULL, ends), fabricOk);
	awaitDone();
	for (int b = 0; b < LONG; b++)
		EXPECT_EQUAL(to->window[b], value);
}

/* For a rank with several NICs, a message by another NIC may follow at once. */
static void writesOfRail(void)
{
	wanted.isRail = 1;
	openBoth();
	beginAll();
	drain(0);
	for (uint32_t i = 1; i < 200; i++)
		moveOnce(opWrite, i);
	closeBoth();
}

/* One operation at a time, so that no later one flushes a read's bytes. */
static void readsOfGpu(void)
{
	ofGpu();
	openBoth();
	for (uint32_t i = 1; i < 200; i++)
		moveOnce(opRead, i);
	closeBoth();
}

/* The device takes no data within a work request. */
static void withoutInline(void)
{
	mostInline = 0;
	whole();
}

static const char *word; /* of the device's fault */
static uint32_t hit;	 /* the operation that it hits */
static const char *words;

/* Checks the events of operations before the fault and from it on, and the messages. */
static void expectCut(void)
{
	for (uint32_t i = 0; i < begun; i++)
		if (kindOf(i) != opMessage)
			expectThat(outcome[i] == (i < hit ? 1 : 2), __FILE__, __LINE__,
				   "operation %u of %u: %u; the fault hits %u", i, begun,
				   outcome[i], hit);
	EXPECT(ends[1].expected <= hit);
	EXPECT_EQUAL(ends[0].lost, 1);
	EXPECT_HAS(ends[0].why, words);
}

static void faulty(void)
{
	openBoth();
	nicFault(word);
	beginAll();
	drain(1);
	expectCut();
	printf("ok: %s\n", ends[0].why);
	closeBoth();
}

static void faults(void)
{
	static const struct {
		const char *word, *words;
	} list[] = {
		{"access@%u", "remote access error (10, vendor 0x88): has it deregistered the "},
		{"retry@%u", "transport retry counter exceeded (12, vendor 0x"},
		{"rnr@%u", "RNR retry counter exceeded (13, vendor 0x"},
		{"error=0x04@%u", "local protection error (4, vendor 0x"},
		{"error=0x02@%u", "local QP operation error (2, vendor 0x"},
	};
	static const uint32_t at[] = {0, 1, 7, 199}; /* later ones have wrapped serial numbers */
	char text[32];

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
		for (size_t k = 0; k < sizeof(at) / sizeof(at[0]); k++) {
			snprintf(text, sizeof(text), list[i].word, at[k]);
			word = text;
			words = list[i].words;
			hit = at[k];
			expectChild(text, faulty);
		}
}

/* The sentence names operation, length and both queue pairs. */
static void named(void)
{
	static const char *const names[] = {
		"a write of 64 bytes, QP 0x", "a write of 64 bytes, QP 0x",
		"a read of 64 bytes, QP 0x", "a message of 4 bytes, QP 0x"};

	for (hit = 0; hit < 12; hit++) {
		char text[32];
		snprintf(text, sizeof(text), "retry@%u", hit);
		word = text;
		words = names[kindOf(hit)];
		expectChild(text, faulty);
	}
}

/* A queue pair takes no work request of a chain. The operations before complete. */
static void refused(void)
{
	openBoth();
	failing = sendCall;
	callsLeft = 9;
	beginAll();
	drain(1);
	EXPECT_EQUAL(ends[0].lost, 1);
	EXPECT_HAS(ends[0].why, "its queue pair refuses a work request: Cannot allocate memory");
	uint32_t failed = begun;
	while (failed && outcome[failed - 1] != 1)
		failed--;
	EXPECT(failed && failed < begun);
	for (uint32_t i = 0; i < begun; i++)
		EXPECT(outcome[i] != 1 || isWhole(&ends[kindOf(i) != opRead], i));
	closeBoth();
}

/* A queue pair takes no receive: the endpoint of messages and immediates has no more of them. */
static void refusedReceive(void)
{
	openBoth();
	failing = receiveCall;
	callsLeft = 9;
	while (begun < 64 && beginOp(begun) == fabricOk)
		begun++;
	net->submit(ends[0].end);
	untilWords(ends[1].why);
	EXPECT_HAS(ends[1].why, "its queue pair refuses a receive: Cannot allocate memory");
	closeBoth();
}

/* The completion queues of the process cannot be read. */
static void polledInVain(void)
{
	openBoth();
	failing = pollCall;
	callsLeft = 9;
	beginAll();
	for (int i = 0; i < 2; i++) {
		untilWords(ends[i].down);
		EXPECT_HAS(ends[i].down, "the completions of its queue pairs cannot be read");
	}
	closeBoth();
}

/* There is no descriptor to sleep by, so the proxy's thread naps. */
static void notNotified(void)
{
	openBoth();
	failing = notifyCall;
	for (int i = 0; i < 9; i++)
		EXPECT_EQUAL(net->arm(ends[1].end, 0), -1);
	beginAll();
	drain(0);
	closeBoth();
}

/* The queue pair goes to error without a completion of its own. */
static void queueFails(void)
{
	openBoth();
	nicFault("qperror@20");
	beginAll();
	drain(1);
	EXPECT_EQUAL(ends[0].lost, 1);
	EXPECT_HAS(ends[0].why, "QP 0x");
	for (uint32_t i = 0; i < begun; i++)
		EXPECT(kindOf(i) == opMessage || outcome[i] == (i < 20 ? 1 : 2));
	closeBoth();
}

/* Nothing is in flight from the second endpoint: its receives alone tell of the failure. */
static void idleQueueFails(void)
{
	struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

	openBoth();
	EXPECT(!ibv_modify_qp(connected[1], &error, IBV_QP_STATE));
	untilWords(ends[1].why);
	EXPECT_EQUAL(ends[1].lost, 1);
	EXPECT_HAS(ends[1].why, " takes no messages: ");
	closeBoth();
}

static void portDown(void)
{
	openBoth();
	nicFault("portdown");
	untilWords(ends[0].notice);
	EXPECT_HAS(ends[0].notice, "verbs: mlx5_0, port 1: the port is down");
	EXPECT(!ends[0].lost && !ends[0].down[0]);
	beginAll();
	drain(1);
	EXPECT_EQUAL(ends[0].lost, 1);
	EXPECT_HAS(ends[0].why, "transport retry counter exceeded");
	closeBoth();
}

static void pollFor(int ms)
{
	for (; ms > 0; ms--) {
		pollBoth();
		usleep(1000);
	}
}

/* The NIC repeats packets for 2.1 s. */
static void portStaysDown(void)
{
	path.timeout = 16;
	openBoth();
	nicFault("portdown");
	untilWords(ends[0].notice);
	pollFor(20);
	nicFault("portup");
	pollFor(2500);
	EXPECT(!ends[0].down[0] && !ends[1].down[0]);
	nicFault("portdown");
	untilWords(ends[0].down);
	untilWords(ends[1].down);
	for (int i = 0; i < 2; i++) {
		double seconds = 0;
		EXPECT_EQUAL(sscanf(ends[i].down, "mlx5_0, port 1: the port has been down for %lf",
				    &seconds),
			     1);
		EXPECT(seconds > 2);
	}
	closeBoth();
}

/* Flushes fail: then reads fail, and no message comes. */
static void flushFails(void)
{
	ofGpu();
	openBoth();
	nicFault("portdown");
	beginAll();
	drain(1);
	for (uint32_t i = 0; i < begun; i++)
		EXPECT_EQUAL(outcome[i], kindOf(i) == opMessage ? 0 : 2);
	EXPECT_EQUAL(ends[1].expected, 0);
	closeBoth();
}

/* The queue pair for the first endpoint's flushes is older than the one of its peer. */
static void oneFlushFails(void)
{
	struct rdmaEnd peer;
	char text[64];

	ofGpu();
	openBoth();
	memcpy(&peer, ends[0].pair, sizeof(peer));
	snprintf(text, sizeof(text), "error=0x04@3:%u", peer.number - 1);
	nicFault(text);
	beginAll();
	drain(1);
	EXPECT_HAS(ends[0].down, "a read of this rank's own GPU memory of 8 bytes, QP 0x");
	uint32_t failed = 0;
	for (uint32_t i = 0; i < begun; i++) {
		failed += outcome[i] == 2;
		EXPECT(kindOf(i) == opRead || outcome[i] == (kindOf(i) != opMessage));
	}
	EXPECT(failed);
	closeBoth();
}

static void removed(void)
{
	openBoth();
	nicFault("remove");
	untilWords(ends[0].down);
	EXPECT_HAS(ends[0].down, "mlx5_0: device fatal error");
	closeBoth();
}

/* Nothing is posted for memory that is not registered, except a value, which is copied. */
static void unknownMemory(void)
{
	char memory[SLOT] = "";

	openBoth();
	struct fabricPiece piece = {memory, FABRIC_VALUE + 1, ends[1].key, 0};
	EXPECT_EQUAL(net->write(ends[0].end, ends[0].peer, &piece, NULL, memory), fabricFailed);
	EXPECT_EQUAL(net->read(ends[0].end, ends[0].peer, &piece, memory), fabricFailed);
	piece.bytes = FABRIC_VALUE;
	memset(memory, 7, sizeof(memory));
	EXPECT_FABRIC(net->write(ends[0].end, ends[0].peer, &piece, NULL, memory));
	memset(memory, 0, sizeof(memory));
	awaitDone();
	if (!nicAdversary("")) /* it may show a write's bytes after its completion */
		EXPECT(ends[1].window[0] == 7 && ends[1].window[FABRIC_VALUE - 1] == 7);
	beginAll();
	drain(0);
	closeBoth();
}

/* The device's attributes of queue pairs. No two numbers of the path are equal. */
static void attributes(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	struct fabricAbout about;

	path = (struct rdmaPath){.serviceLevel = 3,
				 .trafficClass = 0x6a,
				 .timeout = 19,
				 .retries = 5,
				 .hopLimit = 33};
	openBoth();
	EXPECT_EQUAL(nConnected, 2);
	for (uint32_t i = 0; i < nConnected; i++) {
		EXPECT(!ibv_query_qp(connected[i], &a, IBV_QP_STATE, &init));
		EXPECT_EQUAL(a.qp_state, IBV_QPS_RTS);
		EXPECT_EQUAL(a.timeout, path.timeout);
		EXPECT_EQUAL(a.retry_cnt, path.retries);
		EXPECT_EQUAL(a.rnr_retry, 7);
		EXPECT_EQUAL(a.min_rnr_timer, 12);
		EXPECT_EQUAL(a.max_rd_atomic, 16);
		EXPECT_EQUAL(a.max_dest_rd_atomic, 16);
		EXPECT_EQUAL(a.path_mtu, nicProfile("roce") ? IBV_MTU_1024 : IBV_MTU_4096);
		EXPECT_EQUAL(a.dest_qp_num, connected[1 - i]->qp_num);
	}
	closeBoth();
	EXPECT_FABRIC(net->probe(&wanted, &about, why));
	EXPECT_EQUAL(about.speed, nicProfile("cx6") ? 200000 : 400000); /* of four lanes */
	EXPECT_EQUAL(about.mostBytes, VERBS_PIECE);
	mostMessage = 5000;
	EXPECT_FABRIC(net->probe(&wanted, &about, why));
	EXPECT_EQUAL(about.mostBytes, 5000);
}

static void connectTo(const struct rdmaAddress *to)
{
	struct netEnd *e = &ends[0];

	EXPECT_FABRIC(net->pairOpen(e->end, e->pair, &e->peer, why));
	EXPECT_FABRIC(net->pairConnect(e->end, e->peer, to, ends[1].pair, why));
}

/* The peer's port has less, and this port or the peer's needs a global route header. */
static void unequalPorts(void)
{
	struct rdmaAddress to;

	for (int i = 0; i < 2; i++)
		openEnd(&ends[i]);
	memcpy(&to, ends[1].address, sizeof(to));
	to.mtu = IBV_MTU_256;
	to.logReads = 1;
	connectTo(&to);
	EXPECT_EQUAL(received.path_mtu, IBV_MTU_256);
	EXPECT_EQUAL(sent.max_rd_atomic, 2);
	EXPECT_EQUAL(received.ah_attr.is_global, to.ethernet);
	to.grh = 1;
	connectTo(&to);
	EXPECT(received.ah_attr.is_global);
	to.grh = 0;
	ends[0].fabric->address.grh = 1;
	connectTo(&to);
	EXPECT(received.ah_attr.is_global);
	closeBoth();
}

/* Endpoints leave no descriptors. */
static void leaks(void)
{
	struct netEnd *e = &ends[0];
	int before = 0;

	EXPECT_FABRIC(net->open(&wanted, &e->fabric, why));
	for (int i = 0; i < 10; i++) {
		EXPECT_FABRIC(net->endOpen(e->fabric, &e->end, e->address, why));
		EXPECT_FABRIC(net->pairOpen(e->end, e->pair, &e->peer, why));
		net->endClose(e->end);
		before = i ? before : countFiles();
	}
	EXPECT_EQUAL(countFiles(), before);
	net->close(e->fabric);
}

/* The descriptor is readable exactly when the second endpoint has an event to poll: message i. */
static void sleepOnce(uint32_t i)
{
	int fd = -1;

	for (int turn = 0; turn < 10 && fd < 0; turn++) {
		pollBoth();
		fd = net->arm(ends[1].end, 0);
	}
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	EXPECT(fd >= 0 && poll(&wait, 1, 20) == 0);
	begun = i + 1;
	EXPECT_EQUAL(net->send(ends[0].end, ends[0].peer, &i, sizeof(i)), fabricOk);
	net->submit(ends[0].end);
	EXPECT_EQUAL(poll(&wait, 1, 5000), 1);
	ends[1].expected = i;
	for (int turn = 0; turn < 1000 && ends[1].expected == i; turn++)
		pollBoth();
	EXPECT_EQUAL(ends[1].expected, i + 1);
}

static void sleeps(void)
{
	openBoth();
	for (uint32_t i = 0; i < OPS / 10; i++)
		if (kindOf(i) == opMessage)
			sleepOnce(i);
	closeBoth();
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	load();
	if (argc > 1)
		port.device = argv[1];
	else
		nicNeedSoftware();
	expectChild("all operations", whole);
	expectChild("all operations, GPU memory", wholeOfGpu);
	expectChild("reads into GPU memory", readsOfGpu);
	expectChild("writes of a rank with several NICs", writesOfRail);
	expectChild("without inline data", withoutInline);
	expectChild("memory that is not registered", unknownMemory);
	expectChild("a descriptor to sleep by", sleeps);
	expectChild("descriptors of endpoints", leaks);
	if (argc > 1 || nicAdversary("")) /* for the choice of operations around a fault */
		return expectFailures != 0;
	faults();
	named();
	expectChild("attributes", attributes);
	expectChild("ports that differ", unequalPorts);
	expectChild("a work request that is refused", refused);
	expectChild("a receive that is refused", refusedReceive);
	expectChild("a completion queue that cannot be read", polledInVain);
	expectChild("a completion queue that does not notify", notNotified);
	expectChild("a queue pair that fails", queueFails);
	expectChild("an idle queue pair that fails", idleQueueFails);
	expectChild("a port that goes down", portDown);
	expectChild("a port that stays down", portStaysDown);
	expectChild("a port that goes down, GPU memory", flushFails);
	expectChild("a flush that fails", oneFlushFails);
	expectChild("a device that is removed", removed);
	return expectFailures != 0;
}
