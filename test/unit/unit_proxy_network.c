/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_proxy_network.c - two proxies, by the weak network of test/fabric/weak.c: nothing is lost,
 * repeated or early
 *
 *	unit_proxy_network [OPERATIONS [SEED]]
 *
 * One thread makes the passes of both sides, so a seed repeats a run. Each side posts to the other:
 * stamped puts of several lengths, values, signals, atomics, gets and barriers. They go straight
 * into windows, or through pinned slots: of host memory (GIN_BOUNCE=always), or of "GPU memory"
 * which the late copy engines of fake_engine.h reach.
 */
/* LINK: -Wl,--wrap=paramNumber */
/* NEEDS: libgin-weak.so */
#include "network_rig.h"

#define LAST (CELL_BYTES / 8 - 1) /* word of a cell */

static void expectStampAt(uint64_t seen, uint64_t i, const char *when)
{
	expectThat(seen >= i + 1 && seen % CELLS == (i + 1) % CELLS, __FILE__, __LINE__,
		   "stamp %llu is not there when %s: %llu", (unsigned long long)i, when,
		   (unsigned long long)seen);
}

/* The cell has this stamp or a later one. */
static void expectStamp(const struct side *from, uint64_t i, const char *when)
{
	const uint64_t *cell = from->other->memory.cell[i % CELLS];

	expectStampAt(cell[0], i, when);
	if (from->isFull[i % HISTORY])
		expectStampAt(cell[LAST], i, when);
}

/* When a strong signal's word shows it, all puts that it covers are there. */
static void checkSignals(struct side *from)
{
	const struct side *to = from->other;
	uint64_t strong = *wordOf(to, STRONG);

	expectThat(strong <= from->strong, __FILE__, __LINE__, "a signal is repeated: %llu of %llu",
		   (unsigned long long)strong, (unsigned long long)from->strong);
	for (; from->strongSeen < strong; from->strongSeen++) {
		uint64_t covers = from->stampsOfSignal[from->strongSeen % HISTORY];
		for (; from->stampsSeen < covers; from->stampsSeen++)
			expectStamp(from, from->stampsSeen, "its signal is raised");
	}
	if (from->weakUnderWay && *wordOf(to, WEAK) == from->weak) {
		expectStamp(from, from->weakStamp, "its weak signal is raised");
		from->weakUnderWay = 0;
	}
}

static void expectLong(const uint64_t *seen, uint64_t first, uint64_t step, const char *what)
{
	for (uint64_t i = 0; i < LONG / 8; i++)
		expectThat(seen[i] == first + i * step, __FILE__, __LINE__,
			   "word %llu of a long %s is %llu", (unsigned long long)i, what,
			   (unsigned long long)seen[i]);
}

/* When the done word says so, everything up to the ticket is there. */
static void checkDone(struct side *from)
{
	const struct side *to = from->other;
	uint64_t done = from->ring.done[to->rank];

	if (done & GIN_QUEUE_FAILED)
		return;
	for (; from->checked < done; from->checked++) {
		const struct posted *p = &from->posted[from->checked % HISTORY];
		EXPECT(*wordOf(to, STRONG) >= p->strong);
		EXPECT(*wordOf(to, FIRST_BARRIER) >= p->epoch);
		EXPECT(to->memory.added >= p->added);
		if (p->stamp)
			expectStamp(from, p->stamp - 1, "its ticket is done");
		if (p->isGet)
			EXPECT_EQUAL(from->memory.got, GET_PATTERN);
		if (p->isLong)
			expectLong(to->memory.longTarget, p->isLong, 0, "put");
		if (p->isLongGet)
			expectLong(from->memory.longGot, 0, GET_PATTERN, "get");
	}
}

/* Old values come in the order of the atomics, each once. */
static void checkResults(struct side *from)
{
	for (uint32_t s = 0; s < GIN_QUEUE_RESULTS; s++) {
		struct wanted *w = &from->wanted[s];
		if (!w->isUsed || from->ring.resultTickets[s] != w->ticket + 1)
			continue;
		EXPECT_EQUAL(from->ring.results[s], w->old);
		w->isUsed = 0;
	}
}

/*
 * The target of a get changes its memory after a signal that was posted after the get: the get must
 * have read the earlier value.
 */
static void checkTurnAround(struct side *from)
{
	struct side *to = from->other;

	if (from->turns == *wordOf(to, TURN) && to->memory.turned < from->turns)
		to->memory.turned = from->turns;
	if (from->ring.done[to->rank] & GIN_QUEUE_FAILED)
		return;
	if (from->turnTicket < from->ring.done[to->rank] && from->turns)
		EXPECT_EQUAL(from->memory.turnGot, from->turns - 1);
}

static void check(struct side *from)
{
	checkSignals(from);
	checkDone(from);
	checkResults(from);
	checkTurnAround(from);
}

/* The memory of a side, by one of its windows. */
static uint64_t somewhere(struct side *s, uint64_t offset)
{
	return chanceOf(s, 4) ? inData(s, offset) : inHost(s, offset);
}

/* A strong signal that adds that much covers all stamps up to the newest one. */
static void coverStamps(struct side *from, uint64_t addend)
{
	while (addend--)
		from->stampsOfSignal[from->strong++ % HISTORY] = from->stamps;
}

static void postPut(struct side *from)
{
	static const uint32_t lengths[] = {8, 8, 8, 24, CELL_BYTES};
	uint64_t i = from->stamps++, cell = i % CELLS * CELL_BYTES;
	uint32_t bytes = lengths[chanceOf(from, 5)], kind = chanceOf(from, 4);
	uint64_t raise = 0, id = 0, addend = 1;
	uint64_t target = somewhere(from, offsetof(struct sideMemory, cell) + cell);

	from->memory.source[i % CELLS][0] = from->memory.source[i % CELLS][LAST] = i + 1;
	from->isFull[i % HISTORY] = kind != 3 && bytes == CELL_BYTES;
	if (kind == 1) {
		raise = ginRaiseStrongId, id = STRONG, addend = 1 + !chanceOf(from, 4);
		coverStamps(from, addend);
	}
	if (kind == 2 && !from->weakUnderWay) {
		raise = ginRaiseWeakId, id = WEAK, from->weak++;
		from->weakUnderWay = 1;
		from->weakStamp = i;
	}
	if (kind == 3)
		postTo(from, (uint64_t[8]){word0(ginOpPutValue, 0, from->other->rank,
						 bytes < CELL_BYTES ? bytes : 12),
					   target, i + 1});
	else
		postTo(from,
		       (uint64_t[8]){word0(ginOpPut, raise, from->other->rank, 1), target,
				     somewhere(from, offsetof(struct sideMemory, source) + cell),
				     bytes, 0, 0, id, addend});
	lastPosted(from)->stamp = i + 1;
}

static void postStrong(struct side *from)
{
	coverStamps(from, 1);
	postTo(from, (uint64_t[8]){word0(ginOpSignal, ginRaiseStrongId, from->other->rank, 0), 0, 0,
				   0, 0, 0, STRONG, 1});
}

static void postAdd(struct side *from)
{
	uint32_t s = chanceOf(from, GIN_QUEUE_RESULTS);
	int wants = !from->wanted[s].isUsed;

	if (wants)
		from->wanted[s] = (struct wanted){1, from->postedCount, from->added};
	from->added++;
	postTo(from, (uint64_t[8]){word0(ginOpFetchAdd, 0, from->other->rank, 8),
				   inData(from, offsetof(struct sideMemory, added)), 1, 0,
				   wants ? s + 1 : 0});
}

/* A put to host memory whose signal is a word of `data`: one message may carry both. */
static void postAddAt(struct side *from)
{
	from->added++;
	postTo(from, (uint64_t[8]){word0(ginOpPut, ginRaiseStrongAt, from->other->rank, 0),
				   inHost(from, offsetof(struct sideMemory, spare)),
				   inHost(from, offsetof(struct sideMemory, pattern)), 8, 0, 0,
				   inData(from, offsetof(struct sideMemory, added)), 1});
}

static void postGet(struct side *from)
{
	postTo(from, (uint64_t[8]){word0(ginOpGet, 0, from->other->rank, 0),
				   inData(from, offsetof(struct sideMemory, pattern)),
				   inData(from, offsetof(struct sideMemory, got)), 8});
	lastPosted(from)->isGet = 1;
}

/* One at a time: a put that repeats one word, or a get. */
static void postLong(struct side *from)
{
	if (from->longs && from->longTicket >= from->checked)
		return;
	from->longTicket = from->postedCount;
	if (++from->longs % 2) {
		for (uint64_t i = 0; i < LONG / 8; i++)
			from->memory.longSource[i] = from->longs;
		postTo(from, (uint64_t[8]){word0(ginOpPut, 0, from->other->rank, 0),
					   somewhere(from, offsetof(struct sideMemory, longTarget)),
					   somewhere(from, offsetof(struct sideMemory, longSource)),
					   LONG});
		lastPosted(from)->isLong = from->longs;
		return;
	}
	memset(from->memory.longGot, 0, LONG);
	postTo(from, (uint64_t[8]){word0(ginOpGet, 0, from->other->rank, 0),
				   somewhere(from, offsetof(struct sideMemory, longPattern)),
				   somewhere(from, offsetof(struct sideMemory, longGot)), LONG});
	lastPosted(from)->isLongGet = 1;
}

static void postBarrier(struct side *from)
{
	postTo(from, (uint64_t[8]){word0(ginOpBarrier, 0, from->other->rank, 0), 0, ++from->epoch});
	lastPosted(from)->epoch = from->epoch;
}

/* One at a time. */
static void postTurn(struct side *from)
{
	if (from->turns && from->turnTicket >= from->ring.done[from->other->rank])
		return;
	if (from->other->memory.turned != from->turns)
		return;
	postTo(from, (uint64_t[8]){word0(ginOpGet, 0, from->other->rank, 0),
				   inData(from, offsetof(struct sideMemory, turned)),
				   inData(from, offsetof(struct sideMemory, turnGot)), 8});
	from->turns++;
	from->turnTicket = from->postedCount;
	postTo(from, (uint64_t[8]){word0(ginOpSignal, ginRaiseStrongId, from->other->rank, 0), 0, 0,
				   0, 0, 0, TURN, 1});
}

static void postOne(struct side *from)
{
	uint32_t what = chanceOf(from, 16);

	if (what < 9)
		postPut(from);
	else if (what < 11)
		postStrong(from);
	else if (what == 11)
		postAdd(from);
	else if (what == 12)
		postAddAt(from);
	else if (what == 13 && !chanceOf(from, 20))
		postLong(from);
	else if (what == 13)
		postGet(from);
	else if (what == 14)
		postBarrier(from);
	else
		postTurn(from);
}

static uint64_t operations = 40000, seed = 1;

/* Posts in bursts, with few or many descriptors in flight: rings run full and empty. */
static void drive(struct side *from)
{
	static const uint32_t limits[] = {1, 4, 40, DEPTH - 2};
	uint64_t burst = chanceOf(from, 3) ? 0 : chanceOf(from, 40);

	if (!chanceOf(from, 500))
		from->limit = limits[chanceOf(from, 4)];
	while (burst-- && from->postedCount < operations &&
	       from->postedCount - from->engine->retired < from->limit + 1u && hasRoom(from))
		postOne(from);
	sideTurn(from);
	check(from);
}

static int isDone(const struct side *s)
{
	return s->postedCount >= operations && s->ring.done[RANKS_OF_RIG] == s->postedCount;
}

static void expectAll(struct side *from)
{
	const struct side *to = from->other;

	EXPECT_EQUAL(from->checked, from->postedCount);
	EXPECT_EQUAL(*wordOf(to, STRONG), from->strong);
	EXPECT_EQUAL(*wordOf(to, WEAK), from->weak);
	EXPECT_EQUAL(*wordOf(to, TURN), from->turns);
	EXPECT_EQUAL(*wordOf(to, FIRST_BARRIER), from->epoch);
	EXPECT_EQUAL(to->memory.added, from->added);
	EXPECT(from->failures == 0);
}

static void exchange(void)
{
	uint64_t idle = 0, before = 0;

	rigStart(seed);
	while (!isDone(&side[0]) || !isDone(&side[1])) {
		drive(&side[0]);
		drive(&side[1]);
		uint64_t now = side[0].checked + side[1].checked + side[0].postedCount;
		idle = now == before ? idle + 1 : 0;
		before = now;
		expectThat(idle < 100000, __FILE__, __LINE__, "lost: ticket %llu and %llu wait",
			   (unsigned long long)side[0].checked,
			   (unsigned long long)side[1].checked);
	}
	for (int i = 0; i < 2; i++)
		expectAll(&side[i]);
	printf("%llu operations a side, seed %llu: %llu strong, %llu weak, %llu atomics, %llu "
	       "turns; "
	       "no room %llu times\n",
	       (unsigned long long)side[0].postedCount, (unsigned long long)seed,
	       (unsigned long long)side[0].strong, (unsigned long long)side[0].weak,
	       (unsigned long long)side[0].added, (unsigned long long)side[0].turns,
	       (unsigned long long)(side[0].stalls + side[1].stalls));
	EXPECT(side[0].stalls > operations / 1000);
	EXPECT(!sideLane(&side[0])->forged && !sideLane(&side[1])->forged);
	rigStop();
}

static void unordered(void)
{
	exchange();
}

static void ordered(void)
{
	setenv("WEAK_ORDERED", "1", 1);
	setenv("WEAK_MOST", "24", 1);
	exchange();
}

/* Messages carry proofs. */
static void withStrangers(void)
{
	setenv("WEAK_STRANGERS", "1", 1);
	operations /= 4;
	exchange();
}

static void withStrangersOrdered(void)
{
	setenv("WEAK_ORDERED", "1", 1);
	withStrangers();
}

/* More puts with signals than numbers: they wait for room in the window. */
static void fullWindow(void)
{
	struct side *from = &side[0];

	setenv("WEAK_ORDERED", "1", 1);
	rigStart(seed);
	for (uint64_t i = 1; i <= 3 * MESSAGES; i++) {
		coverStamps(from, 1);
		postTo(from, (uint64_t[8]){word0(ginOpPut, ginRaiseStrongId, 1, 1),
					   inData(from, offsetof(struct sideMemory, cell)),
					   inData(from, offsetof(struct sideMemory, source)),
					   CELL_BYTES, 0, 0, STRONG, 1});
	}
	for (uint32_t turns = 0; turns < 20000; turns++)
		sideTurn(from);
	for (uint32_t turns = 0; turns < 20000; turns++) {
		sideTurn(&side[1]);
		sideTurn(from);
	}
	EXPECT_EQUAL(*wordOf(&side[1], STRONG), from->strong);
	EXPECT_EQUAL(from->ring.done[RANKS_OF_RIG], from->postedCount);
	EXPECT_EQUAL(side[1].failures, 0);
	rigStop();
}

static void always(void)
{
	setenv("GIN_BOUNCE", "always", 1);
	setenv("GIN_BOUNCE_SLOT", "32", 1); /* cells of 64 bytes go in two chunks */
	operations /= 16;
	exchange();
}

static unsigned slotOf1; /* GIN_BOUNCE_SLOT of rank 1; 0: that of both */

unsigned __real_paramNumber(enum param param);

unsigned __wrap_paramNumber(enum param param)
{
	int isOf1 = param == paramBounceSlot && slotOf1 && rigOpening == 1;

	return isOf1 ? slotOf1 : __real_paramNumber(param);
}

static void unequalSlots(void)
{
	slotOf1 = 16;
	always();
}

static void alwaysOrdered(void)
{
	setenv("WEAK_ORDERED", "1", 1);
	setenv("WEAK_MOST", "24", 1);
	always();
}

/* `data` is GPU memory. */
static void byEngines(void)
{
	rigCuda = &fakeCuda;
	fakeEngine.random = seed;
	setenv("GIN_BOUNCE_SLOT", "48", 1);
	operations /= 16;
	exchange();
	EXPECT(fakeEngine.copies > operations);
}

/* `data` is GPU memory that the network reaches; there are no slots. */
static void inGpuMemory(void)
{
	rigCuda = &fakeCuda;
	rigReachesGpu = 1;
	setenv("WEAK_GPU", "1", 1);
	setenv("GIN_BOUNCE", "never", 1);
	operations /= 4;
	exchange();
}

static void inGpuMemoryOrdered(void)
{
	setenv("WEAK_ORDERED", "1", 1);
	inGpuMemory();
}

static void byEnginesOrdered(void)
{
	setenv("WEAK_ORDERED", "1", 1);
	byEngines();
}

/* Of two ranks one has GPU memory, but both need slots. */
static void oneGpu(void)
{
	rigOneGpu = 1;
	byEngines();
}

/* Few slots, each longer than all that is posted. */
static void byEnginesWhole(void)
{
	setenv("GIN_BOUNCE_POOL", "196608", 1); /* 12 slots of 16384 bytes */
	rigCuda = &fakeCuda;
	fakeEngine.random = seed;
	operations /= 32;
	exchange();
}

/*
 * Each write and read in one piece or in several; there may be no room for the next piece. Windows
 * are registered with two NICs.
 */
static void pieces(void)
{
	rigRails = 2;
	setenv("WEAK_MOST", "16", 1);
	operations /= 4;
	exchange();
}

/* A write fails: the peer is lost, every wait ends, and no signal covers a lost put. */
static void failing(void)
{
	setenv("WEAK_FAIL", "3000", 1);
	rigStart(seed);
	for (uint64_t turns = 0; !side[0].failures && !side[1].failures; turns++) {
		EXPECT(turns < 10000000);
		drive(&side[0]);
		drive(&side[1]);
	}
	struct side *from = &side[side[0].failures ? 0 : 1];
	uint64_t strong = *wordOf(from->other, STRONG);
	for (int i = 0; i < 2000; i++)
		sideTurn(from);
	checkSignals(from);
	EXPECT(from->ring.done[from->other->rank] == (GIN_QUEUE_FAILED | ginErrorPeer));
	EXPECT_EQUAL(from->ring.done[RANKS_OF_RIG], GIN_QUEUE_FAILED | ginErrorPeer);
	EXPECT(!engineIsBusy(from->engine));
	EXPECT_HAS(from->why,
		   from->rank ? "rank 0 (host host-0) is lost" : "rank 1 (host host-1) is lost");
	printf("failed after %llu signals\n", (unsigned long long)strong);
	rigStop();
}

/* Each aligned word of a long put or get arrives whole, however it is cut. */
static void moveWhole(uint64_t op, uint64_t bytes)
{
	enum { SKEW = 3 };
	struct side *target = &side[op == ginOpPut], *source = &side[op != ginOpPut];
	const uint64_t *to = target->memory.cell[0];
	uint64_t last = (SKEW + bytes) / 8 - 1, seen = 0, halves = 0;
	uint64_t at = offsetof(struct sideMemory, cell);
	int isPut = op == ginOpPut;

	rigStart(seed);
	memset((char *)&source->memory + at, 0xff, bytes);
	postTo(&side[0], (uint64_t[8]){word0(op, 0, 1, 0), inData(&side[0], at + SKEW * isPut),
				       inData(&side[0], at + SKEW * !isPut), bytes});
	for (uint64_t turns = 0; side[0].ring.done[1] != 1; turns++) {
		EXPECT(turns < 1000000);
		sideTurn(&side[0]);
		sideTurn(&side[1]);
		for (uint64_t i = 1; i <= last; i++) {
			halves += to[i] && ~to[i];
			seen += to[i] != 0;
		}
	}
	EXPECT_EQUAL(halves, 0);
	EXPECT(seen > last && ~to[last] == 0);
	rigStop();
}

static void wholeWords(void)
{
	setenv("GIN_BOUNCE", "always", 1);
	setenv("GIN_BOUNCE_SLOT", "64", 1);
	moveWhole(ginOpPut, LONG - 8);
}

/* A quarter of them is a part. */
static void wholeWordsOfFour(void)
{
	setenv("GIN_BOUNCE", "always", 1);
	moveWhole(ginOpPut, 4 * 75001);
}

static void wholeWordsGot(void)
{
	setenv("GIN_BOUNCE", "always", 1);
	moveWhole(ginOpGet, 4 * 75001);
}

/* The peer is lost while the only chunk of a put is in the air. */
static void lostInTheAir(void)
{
	struct networkLane *lane;

	setenv("GIN_BOUNCE", "always", 1);
	rigStart(seed);
	lane = sideLane(&side[0]);
	postTo(&side[0], (uint64_t[8]){word0(ginOpPut, 0, 1, 0), inData(&side[0], 0),
				       inData(&side[0], 0), 8});
	const struct bounceChunk *chunk = lane->bounce->freeChunks; /* the next one */
	while (!chunk->inAir)
		sideTurn(&side[0]);
	lane->wordPeer = &lane->peer[1];
	networkLose(lane, 1, "the test says so");
	EXPECT(!lane->wordPeer); /* another peer's word may begin */
	while (engineIsBusy(side[0].engine))
		sideTurn(&side[0]);
	EXPECT_EQUAL(side[0].ring.done[1], GIN_QUEUE_FAILED | ginErrorPeer);
	rigStop();
}

static void failingBounced(void)
{
	setenv("GIN_BOUNCE", "always", 1);
	failing();
}

static void failingEngines(void)
{
	rigCuda = &fakeCuda;
	failing();
}

/* Copies are refused: the rank itself fails, in words. */
static void refusedCopies(void)
{
	rigCuda = &fakeCuda;
	rigStart(seed);
	fakeEngine.fail = 1;
	postPut(&side[0]);
	for (int i = 0; i < 1000; i++)
		sideTurn(&side[0]);
	EXPECT(side[0].ownFailures > 0 && !engineIsBusy(side[0].engine));
	EXPECT_HAS(side[0].why, "its GPU");
	rigStop();
}

/* GIN_BOUNCE=never: the network does not read GPU memory. The put fails, and nothing else. */
static void sourceInGpuMemory(void)
{
	rigStart(seed);
	uint64_t gpu = (uint64_t)side[0].gpu->slot << GIN_DESCRIPTOR_OFFSET_BITS;
	postTo(&side[0], (uint64_t[8]){word0(ginOpPut, ginRaiseStrongId, 1, 0), inData(&side[0], 0),
				       gpu, 8, 0, 0, STRONG, 1});
	for (int i = 0; i < 100; i++)
		sideTurn(&side[0]);
	EXPECT_EQUAL(side[0].ring.done[1], GIN_QUEUE_FAILED | ginErrorUnsupported);
	EXPECT(!side[0].failures && !engineIsBusy(side[0].engine));
	EXPECT_EQUAL(*wordOf(&side[1], STRONG), 0);
	rigStop();
}

/* The communicator fails: operations in flight are given up at once. */
static void abandoned(void)
{
	rigStart(seed);
	for (int i = 0; i < 100; i++) {
		while (hasRoom(&side[0]) && chanceOf(&side[0], 9))
			postOne(&side[0]);
		sideTurn(&side[0]);
	}
	EXPECT(engineIsBusy(side[0].engine));
	transportNetwork.stop(side[0].lanes.lane[TRANSPORT_NETWORK].state);
	while (engineTake(side[0].engine) || engineIsBusy(side[0].engine)) {
		engineResume(side[0].engine);
		engineAbandon(side[0].engine);
		engineRetire(side[0].engine);
	}
	EXPECT_EQUAL(side[0].engine->retired, side[0].postedCount);
	rigStop();
}

int main(int argc, char **argv)
{
	setenv("GIN_LOG", "error", 1);
	setenv("GIN_TRANSPORT", "weak", 1);
	if (argc > 1)
		operations = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		seed = strtoull(argv[2], NULL, 10);
	setenv("WEAK_SEED", argc > 2 ? argv[2] : "1", 1);
	expectChild("a network without order", unordered);
	expectChild("an ordered network", ordered);
	expectChild("a network with strangers", withStrangers);
	expectChild("an ordered network with strangers", withStrangersOrdered);
	expectChild("operations in pieces", pieces);
	expectChild("a window of messages that is full", fullWindow);
	expectChild("through slots", always);
	expectChild("through slots of two lengths", unequalSlots);
	expectChild("through slots, an ordered network", alwaysOrdered);
	expectChild("GPU memory", byEngines);
	expectChild("GPU memory, an ordered network", byEnginesOrdered);
	expectChild("GPU memory, long slots", byEnginesWhole);
	expectChild("GPU memory that the network reaches", inGpuMemory);
	expectChild("GPU memory that the network reaches, in order", inGpuMemoryOrdered);
	expectChild("GPU memory at one rank of two", oneGpu);
	expectChild("words that arrive whole", wholeWords);
	expectChild("words that arrive whole, of four parts", wholeWordsOfFour);
	expectChild("words that arrive whole, by a get", wholeWordsGot);
	expectChild("a chunk in the air of a lost peer", lostInTheAir);
	expectChild("a write that fails", failing);
	expectChild("a write that fails, through slots", failingBounced);
	expectChild("a write that fails, GPU memory", failingEngines);
	expectChild("copies that are refused", refusedCopies);
	expectChild("a source in GPU memory", sourceInGpuMemory);
	expectChild("a communicator that fails", abandoned);
	return expectFailures != 0;
}
