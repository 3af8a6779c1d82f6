/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5_nic_pairs.c - the queue pairs of a device communicator: which ranks have one, and that each
 * leads to the right peer
 *
 * Ranks are threads, each with a port of its own.
 */
/* PACKAGES: libmlx5 libibverbs */
/* NEEDS: libgin-rdma.so */
#include "backends/rdma/port.h"
#include "backends/gdaki/contexts.h"
#include "pinning.h"

#include "nic_rig.h"

#include <pthread.h>

enum { RANKS = 4, CONTEXTS = 3, DEPTH = 64, SLOT = 64 };

/* Memory that all ranks look at in an exchange. */
static struct {
	pthread_barrier_t barrier;
	const void *in[RANKS];
	ginResult_t mine[RANKS];
} gathering;

static struct rdmaAddress addresses[RANKS];
static struct rdmaKeys keys[RANKS];
static uint8_t *windows[RANKS];
static int direct;   /* ranks of the same parity have another route */
static int refusing; /* this rank asks for a depth that no device has; -1: none */

static void meet(void)
{
	pthread_barrier_wait(&gathering.barrier);
}

static ginResult_t alltoall(void *core, const char *call, ginResult_t mine, const void *in,
			    void *out, size_t block)
{
	int rank = *(int *)core;
	ginResult_t result = ginSuccess;

	(void)call;
	gathering.in[rank] = in;
	gathering.mine[rank] = mine;
	meet();
	for (int r = 0; r < RANKS; r++) {
		if (gathering.mine[r] != ginSuccess)
			result = gathering.mine[r];
	}
	for (int r = 0; r < RANKS && result == ginSuccess; r++)
		memcpy((char *)out + (size_t)r * block,
		       (const char *)gathering.in[r] + (size_t)rank * block, block);
	meet();
	return result;
}

static int serves(const void *of, int rank)
{
	return !direct || (rank - *(const int *)of) % 2;
}

static struct gdakiPairsWanted wantedBy(const struct backendHost *host, struct rdmaPort *port)
{
	return (struct gdakiPairsWanted){.host = host,
					 .rdma = nic,
					 .port = port,
					 .addresses = addresses,
					 .serves = serves,
					 .of = &host->rank,
					 .path = rigPath,
					 .contexts = CONTEXTS,
					 .depth = host->rank == refusing ? 96 : DEPTH,
					 .shared = direct,
					 .registers = 2};
}

/* Where rank `from` writes at any rank, for one context. */
static uint64_t slotOf(int from, uint32_t context)
{
	return (uint64_t)SLOT * ((uint32_t)from * (CONTEXTS + 1) + context);
}

static struct rigQueue queueOf(const struct gdakiPairs *p, uint32_t i)
{
	struct rdmaRegister where;

	nic->queueRegister(p->queues, i, &where);
	return (struct rigQueue){.memory = (uint8_t *)p->slab,
				 .place = rdmaLayoutOf(i, DEPTH),
				 .depth = DEPTH,
				 .number = p->ends[i].number,
				 .doorbell = where.at};
}

/* The queues that all contexts share come after the last context's. */
static int hasQueue(int from, int to, uint32_t context)
{
	int served = serves(&from, to) != 0;

	return context < CONTEXTS ? served : !served;
}

/* Adds a number that encodes source, target and context. */
static void addAt(const struct gdakiPairs *p, int from, int to, uint32_t context)
{
	uint32_t i = pairsQueue(p, context, to);

	EXPECT_EQUAL(i != PAIRS_NONE, hasQueue(from, to, context));
	if (i == PAIRS_NONE)
		return;
	EXPECT_EQUAL(pairsPeer(p, i), to);
	struct rigQueue q = queueOf(p, i);
	struct ginMlx5Memory far = {keys[to].first + slotOf(from, context),
				    ginMlx5Key(keys[to].remote)};
	struct ginMlx5Memory near = {keys[from].first + RIG_WINDOW / 2,
				     ginMlx5Key(keys[from].local)};
	uint64_t number = 1 + (uint64_t)from * 10000 + (uint64_t)to * 100 + context;
	EXPECT_EQUAL(rigRun(&q, ginMlx5FetchAdd(rigSlot(&q), far, near, number)),
		     ginMlx5CqeRequest);
}

static void received(int me, int from, uint32_t context)
{
	uint64_t seen;
	uint64_t number = 1 + (uint64_t)from * 10000 + (uint64_t)me * 100 + context;

	memcpy(&seen, windows[me] + slotOf(from, context), sizeof(seen));
	EXPECT_EQUAL(seen, hasQueue(from, me, context) ? number : 0);
}

static void useAll(const struct gdakiPairs *p, int me)
{
	char why[RDMA_WHY];

	EXPECT_EQUAL(pairsCount(p), direct ? CONTEXTS * RANKS / 2 + RANKS / 2 : CONTEXTS * RANKS);
	for (uint32_t c = 0; c < CONTEXTS + (uint32_t)direct; c++)
		for (int peer = 0; peer < RANKS; peer++)
			addAt(p, me, peer, c);
	meet();
	for (uint32_t c = 0; c < CONTEXTS + (uint32_t)direct; c++)
		for (int peer = 0; peer < RANKS; peer++)
			received(me, peer, c);
	EXPECT_EQUAL(pairsFailed(p, why), -1);
	meet();
}

/* One queue pair fails; the test expects the right peer. */
static void failOne(const struct gdakiPairs *p, int me)
{
	int peer = (me + 1) % RANKS;
	char why[RDMA_WHY];

	EXPECT_NIC(nic->queueFail(p->queues, pairsQueue(p, 1, peer), nicWhy));
	EXPECT_EQUAL(pairsFailed(p, why), peer);
	EXPECT_HAS(why, "is in the error state");
	meet();
}

static void *rankMain(void *arg)
{
	int rank = *(int *)arg;
	struct backendHost host = {.rank = rank,
				   .nRanks = RANKS,
				   .device = &hostThreads,
				   .alltoall = alltoall,
				   .core = &rank};
	struct gdakiPairs *pairs = NULL;
	struct rig r = {.window = rigPages(RIG_WINDOW)};
	const struct rdmaWanted port = {.device = "mlx5_0", .gid = -1};

	EXPECT_NIC(nic->portOpen(&port, &r.port, nicWhy));
	nic->portDescribe(r.port, &addresses[rank], &r.features);
	struct rdmaMemory memory = {r.window, RIG_WINDOW, -1, 0};
	EXPECT_NIC(nic->regionOpen(r.port, &memory, rdmaRemote, &r.region, &keys[rank], nicWhy));
	windows[rank] = r.window;
	meet();
	struct gdakiPairsWanted wanted = wantedBy(&host, r.port);
	ginResult_t result = pairsOpen(&wanted, "test", ginSuccess, &pairs);
	EXPECT_EQUAL(result, refusing < 0 ? ginSuccess : ginErrorSystem);
	if (rank == refusing)
		EXPECT_HAS(ginGetLastError(), "gdaki: a queue depth of 96: a power of two");
	meet();
	if (result == ginSuccess) {
		useAll(pairs, rank);
		failOne(pairs, rank);
		pairsClose(pairs);
	}
	meet();
	rigClose(&r);
	return NULL;
}

static void allRanks(void)
{
	pthread_t threads[RANKS];
	int ranks[RANKS];

	EXPECT(!pthread_barrier_init(&gathering.barrier, NULL, RANKS));
	for (int r = 0; r < RANKS; r++) {
		ranks[r] = r;
		EXPECT(!pthread_create(&threads[r], NULL, rankMain, &ranks[r]));
	}
	for (int r = 0; r < RANKS; r++)
		EXPECT(!pthread_join(threads[r], NULL));
}

enum { MANY_CONTEXTS = 6 };

static int exchanges;

static ginResult_t exchangeAlone(void *core, const char *call, ginResult_t mine, const void *in,
				 void *out, size_t block)
{
	size_t at = (size_t) * (int *)core * block;

	(void)call;
	exchanges++;
	memcpy((char *)out + at, (const char *)in + at, block);
	return mine;
}

static int servesSelf(const void *of, int rank)
{
	return rank == *(const int *)of;
}

/* Every context has a queue pair to its own rank, which must be connected to itself. */
static void manyRanks(int nRanks, int batches)
{
	int rank = 0;
	struct backendHost host = {
		.nRanks = nRanks, .device = &hostThreads, .alltoall = exchangeAlone, .core = &rank};
	struct gdakiPairs *pairs = NULL;
	struct rig r;

	exchanges = 0;
	rigMemory(&r, 1, DEPTH);
	EXPECT_NIC(rigOpen(&r));
	addresses[0] = r.address;
	keys[0] = r.keys;
	struct gdakiPairsWanted wanted = wantedBy(&host, r.port);
	wanted.contexts = MANY_CONTEXTS;
	wanted.serves = servesSelf;
	EXPECT_SUCCESS(pairsOpen(&wanted, "test", ginSuccess, &pairs));
	EXPECT_EQUAL(exchanges, batches);
	EXPECT_EQUAL(pairsCount(pairs), MANY_CONTEXTS);
	for (uint32_t c = 0; c < MANY_CONTEXTS; c++) {
		struct rigQueue q = queueOf(pairs, pairsQueue(pairs, c, 0));
		struct ginMlx5Memory to = {keys[0].first, ginMlx5Key(keys[0].remote)};
		struct ginMlx5Memory old = {keys[0].first + 64, ginMlx5Key(keys[0].local)};
		EXPECT_EQUAL(rigRun(&q, ginMlx5FetchAdd(rigSlot(&q), to, old, 1)),
			     ginMlx5CqeRequest);
	}
	EXPECT_EQUAL(r.window[0], MANY_CONTEXTS);
	pairsClose(pairs);
	rigClose(&r);
}

/* With 2,048 ranks one exchange carries the addresses of four contexts' queue pairs. */
static void severalContexts(void)
{
	manyRanks(2048, 2);
}

/*
 * With 16,384 ranks one exchange carries the addresses of one context's queue pairs, in several
 * rounds.
 */
static void oneContext(void)
{
	manyRanks(16384, MANY_CONTEXTS);
}

static void someDirect(void)
{
	direct = 1;
	allRanks();
}

static void oneRefuses(void)
{
	refusing = 2;
	allRanks();
}

static int isOdd(const void *of, int rank)
{
	return of != NULL && rank % 2;
}

/* What is outstanding to a rank: in the queue of each context, or in its shared one. By hand. */
static void outstanding(void)
{
	uint32_t index[] = {0, 0, 1, 1};
	struct gdakiPairs pairs = {
		.wanted = {.serves = isOdd, .of = index, .contexts = 2, .shared = 1},
		.peers = 2,
		.others = 2,
		.index = index};
	struct gdakiSeen seen[] = {{1, 0}, {2, 0}, {4, 0}, {8, 30}, {16, 20}, {32, 10}};
	const struct gdakiContexts s = {.contexts = 2, .pairs = &pairs, .count = 6, .seen = seen};
	static const uint64_t expected[RANKS][2] = {{16, 20}, {5, 0}, {32, 10}, {10, 30}};

	for (int r = 0; r < RANKS; r++) {
		uint64_t completed = 0;
		EXPECT_EQUAL(gdakiContextsOutstanding((void *)(uintptr_t)&s, r, &completed),
			     expected[r][0]);
		EXPECT_EQUAL(completed, expected[r][1]);
	}
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	nicLoad();
	EXPECT(rdmaLoad(nicWhy, sizeof(nicWhy)) == nic);
	refusing = -1;
	nicNeedAtomics();
	expectChild("what is outstanding to a rank", outstanding);
	expectChild("all over the network", allRanks);
	expectChild("some pairs are direct", someDirect);
	expectChild("a rank fails", oneRefuses);
	refusing = -1;
	expectChild("ends of 2,048 ranks", severalContexts);
	expectChild("ends of 16,384 ranks", oneContext);
	return expectFailures != 0;
}
