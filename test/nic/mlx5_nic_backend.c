/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5_nic_backend.c - communicators on route gdaki: all that the host hands to kernels agrees with
 * the NIC
 *
 * Work requests are posted by hand, through the send queues, keys and addresses of device
 * communicators and windows; the test checks the data at its target. Each test runs in a process of
 * its own, because a fault of the device lasts.
 */
/* PACKAGES: libmlx5 libibverbs */
/* NEEDS: libgin-rdma.so */
#include "nic_part.h"

static void expectFields(const struct part *p)
{
	ginCommInfo_t info = GIN_COMM_INFO_INIT;

	EXPECT_EQUAL(p->dc.route, ginRouteGdaki);
	EXPECT_EQUAL(p->dc.nSendQueues, p->n);
	EXPECT(p->dc.signal[ginWriterNic]);
	EXPECT(!p->dc.signal[ginWriterGpu] && !p->dc.signal[ginWriterCpu]);
	EXPECT(!p->dc.queues);
	EXPECT_EQUAL(p->in.table->agent, ginAgentNic);
	EXPECT_SUCCESS(ginCommQuery(p->comm, &info));
	EXPECT_EQUAL(info.deviceAtomics, 1);
	for (int r = 0; r < p->n; r++) {
		EXPECT_TEXT(peerInfo(p->comm, r).backend, "gdaki");
		EXPECT_HAS(peerInfo(p->comm, r).why, "mlx5 NICs, ");
		EXPECT_EQUAL(p->dc.peers[r].route, ginRouteGdaki);
		EXPECT_EQUAL(partOf(p->in, r)->bytes, p->inBytes);
	}
	for (uint32_t c = 0; c < CONTEXTS; c++)
		EXPECT_EQUAL(p->dc.results[c].freeResults, UINT32_MAX);
}

static void putAll(struct part *p)
{
	for (int r = 0; r < p->n; r++)
		for (uint32_t c = 0; c < CONTEXTS; c++) {
			for (uint32_t i = 0; i < BYTES; i++)
				p->outbox[i] = pattern(p->me, r, c, i);
			struct ginSendQueue *q = queueOf(&p->dc, c, r);
			run(q, ginMlx5Write(slotOf(q), dataAt(p->in, r, slotAt(p->me, c)),
					    ownAt(p->out, 0), BYTES));
		}
}

static void expectAll(const struct part *p)
{
	const uint8_t *at = p->inbox + 100;

	for (int r = 0; r < p->n; r++)
		for (uint32_t c = 0; c < CONTEXTS; c++)
			for (uint32_t i = 0; i < BYTES; i++)
				EXPECT_EQUAL(at[slotAt(r, c) + i], pattern(r, p->me, c, i));
}

static struct ginMlx5Memory signalAt(const struct part *p, int peer, uint32_t word)
{
	const struct ginPeer *entry = &p->dc.peers[peer];

	return (struct ginMlx5Memory){entry->nicSignals + word * 8ull, entry->nicKey};
}

/* Each rank adds to each signal of each rank; old values come to the last place, or to the sink. */
static void addAll(struct part *p, uint64_t amount)
{
	for (int r = 0; r < p->n; r++)
		for (uint32_t word = 0; word < CONTEXTS * SIGNALS; word++) {
			uint32_t c = word / SIGNALS;
			const struct ginSendResults *results = &p->dc.results[c];
			struct ginSendQueue *q = queueOf(&p->dc, c, r);
			uint64_t place = results->nicAddress + (GIN_QUEUE_RESULTS - 1) * 8;
			struct ginMlx5Memory old = {place, results->nicKey};
			if (word % 2)
				old = (struct ginMlx5Memory){q->fixed.sink, q->fixed.sinkKey};
			run(q, ginMlx5FetchAdd(slotOf(q), signalAt(p, r, word), old, amount));
			if (word % 2 == 0)
				EXPECT(results->result[GIN_QUEUE_RESULTS - 1] % amount == 0);
		}
}

static void expectSums(const struct part *p, uint64_t amount)
{
	for (uint32_t word = 0; word < CONTEXTS * SIGNALS; word++)
		EXPECT_EQUAL(p->dc.signal[ginWriterNic][word], amount * (uint64_t)p->n);
}

/* The right neighbour's first slot, read back. */
static void getBack(struct part *p)
{
	int right = (p->me + 1) % p->n;
	struct ginSendQueue *q = queueOf(&p->dc, 1, right);

	memset(p->outbox, 0, WINDOW);
	run(q, ginMlx5Read(slotOf(q), dataAt(p->in, right, slotAt(p->me, 1)), ownAt(p->out, 64),
			   BYTES));
	run(q, ginMlx5Dump(slotOf(q), ownAt(p->out, 64), BYTES));
	for (uint32_t i = 0; i < BYTES; i++)
		EXPECT_EQUAL(p->outbox[64 + i], pattern(p->me, right, 1, i));
}

/* Every window has an entry of its own; a deregistered window has none. */
static const struct ginSourceEntry *sourceOf(const ginDevComm *dc, const void *address)
{
	const struct ginSourceEntry *entry = (const void *)(dc->sources + 1);
	const struct ginSourceEntry *found = NULL;

	for (uint64_t i = 0; i < dc->sources->used; i++)
		if ((uintptr_t)address - entry[i].address < entry[i].bytes) {
			EXPECT(!found);
			found = &entry[i];
		}
	return found;
}

static void expectSources(const struct part *p)
{
	ginWindow_t other;
	uint8_t *more = malloc(WINDOW);
	const struct ginSourceEntry *out = sourceOf(&p->dc, p->outbox + WINDOW - 1);

	EXPECT(out && out->nicKey == p->out.table->nicKey);
	EXPECT_EQUAL(out->nicAddress, p->out.table->nicAddress);
	EXPECT(sourceOf(&p->dc, p->inbox + 100) && !sourceOf(&p->dc, p->inbox + 99));
	EXPECT(!sourceOf(&p->dc, more));
	EXPECT_SUCCESS(ginWindowRegister(p->comm, more, WINDOW, GIN_WINDOW_LOCAL, &other));
	EXPECT_EQUAL(sourceOf(&p->dc, more)->bytes, WINDOW);
	EXPECT_SUCCESS(ginWindowDeregister(p->comm, other));
	EXPECT(!sourceOf(&p->dc, more));
	free(more);
}

static void expectStats(const struct part *p, uint32_t context, uint64_t more)
{
	ginStats_t stats = GIN_STATS_INIT;
	uint64_t posted = (uint64_t)p->n * (1 + SIGNALS) + more;

	EXPECT_SUCCESS(ginCommGetStats(p->comm, &p->dc, context, &stats));
	EXPECT_EQUAL(stats.posted, posted);
	EXPECT_EQUAL(stats.completed, posted);
	EXPECT_EQUAL(stats.failed, 0);
}

static int allOverTheNic(const ginConfig_t *config)
{
	struct part p;

	openPart(&p, config);
	expectFields(&p);
	putAll(&p);
	addAll(&p, AMOUNT);
	barrier(p.comm);
	expectAll(&p);
	expectSums(&p, AMOUNT);
	getBack(&p);
	expectStats(&p, 0, 0);
	expectStats(&p, 1, 2);
	expectSources(&p);
	barrier(p.comm);
	return closePart(&p);
}

/* Parts of different sizes, none at rank 0. */
static int sizes(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);
	int me = rankOf(comm);
	ginWindow_t window;
	void *at = NULL;

	EXPECT_SUCCESS(ginMemAlloc(comm, WINDOW, &at));
	EXPECT_SUCCESS(ginWindowRegister(comm, at, (size_t)me * 100, 0, &window));
	for (int r = 0; r < sizeOf(comm); r++) {
		EXPECT_EQUAL(partOf(window, r)->bytes, r * 100);
		EXPECT_EQUAL(partOf(window, r)->nicStrictKey != 0, r != 0);
		EXPECT_EQUAL(partOf(window, r)->nicAddress, 0);
	}
	EXPECT_EQUAL(window.table->nicKey != 0, me != 0);
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginMemFree(comm, at));
	return closeComm(comm);
}

/* Closing the queues completes posts for which no doorbell was rung. */
static int heldBack(const ginConfig_t *config)
{
	struct part p;

	openPart(&p, config);
	int right = (p.me + 1) % p.n, left = (p.me + p.n - 1) % p.n;
	struct ginSendQueue *q = queueOf(&p.dc, 0, right);
	for (uint32_t i = 0; i < BYTES; i++)
		p.outbox[i] = pattern(p.me, right, 0, i);
	for (uint32_t i = 0; i < 10; i++)
		store(q, ginMlx5Write(slotOf(q), dataAt(p.in, right, slotAt(p.me, 0) + i * 100),
				      ownAt(p.out, i * 100ull), 100));
	store(q, ginMlx5FetchAdd(slotOf(q), signalAt(&p, right, 0),
				 (struct ginMlx5Memory){q->fixed.sink, q->fixed.sinkKey}, 1));
	EXPECT_SUCCESS(ginDevCommDestroy(p.comm, &p.dc));
	for (uint32_t i = 0; i < BYTES; i++)
		EXPECT_EQUAL(p.inbox[100 + slotAt(left, 0) + i], pattern(left, p.me, 0, i));
	EXPECT_SUCCESS(ginWindowDeregister(p.comm, p.out));
	EXPECT_SUCCESS(ginWindowDeregister(p.comm, p.in));
	free(p.inbox);
	free(p.outbox);
	return closeComm(p.comm);
}

/* A queue that has failed delays no other queue. */
static int failedQueue(const ginConfig_t *config)
{
	ginStats_t stats = GIN_STATS_INIT;
	struct part p;

	openPart(&p, config);
	struct ginSendQueue *q = queueOf(&p.dc, 0, (p.me + 1) % p.n);
	struct ginMlx5Memory beyond = dataAt(p.in, 0, p.inBytes);
	store(q, ginMlx5Write(slotOf(q), beyond, ownAt(p.out, 0), 8));
	ring(q);
	EXPECT_EQUAL(await(q), ginMlx5CqeRequestError);
	store(q, ginMlx5Nop(slotOf(q)));
	EXPECT_SUCCESS(ginCommGetStats(p.comm, &p.dc, 0, &stats));
	EXPECT_EQUAL(stats.posted, 2);
	EXPECT_EQUAL(stats.failed, 2);
	barrier(p.comm);
	return closePart(&p);
}

static void expectDepth(ginComm_t comm, uint32_t depth, uint32_t logDepth)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;

	want.queueDepth = depth;
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	for (uint32_t i = 0; i < dc.nSendQueues; i++) {
		struct ginSendQueue *q = &dc.sendQueues[i];
		EXPECT_EQUAL(q->fixed.logDepth, logDepth);
		EXPECT_EQUAL(q->fixed.turn[0], GIN_TURN);
		EXPECT_EQUAL(q->fixed.turn[(1u << logDepth) - 1], 0);
		EXPECT_EQUAL(q->fixed.counter[(1u << logDepth) - 1], 0);
		EXPECT_EQUAL(ginMlx5CqeOpcode(q->fixed.cqe->state), ginMlx5CqeInvalid);
		run(q, ginMlx5Nop(slotOf(q)));
	}
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc));
}

static int depths(const ginConfig_t *config)
{
	ginComm_t comm = openComm(config);

	expectDepth(comm, 16, 6);
	expectDepth(comm, 128, 7);
	expectDepth(comm, 65536, 14);
	return closeComm(comm);
}

/* Ranks 0 and 2 on one host, rank 1 on another: direct and gdaki in one communicator. */
static int twoHosts(const ginConfig_t *config)
{
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginWindow_t window;
	ginDevComm dc;

	setenv("GIN_HOSTID", config->rank == WRONG ? "other" : "one", 1);
	ginComm_t comm = openComm(config);
	int me = rankOf(comm), *page = newPage(comm);
	EXPECT_SUCCESS(ginWindowRegister(comm, page, PAGE, 0, &window));
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &dc));
	EXPECT_EQUAL(dc.route, ginRouteNone);
	EXPECT(dc.signal[ginWriterGpu] && dc.signal[ginWriterNic]);
	EXPECT_EQUAL(window.table->agent, ginAgentNic);
	EXPECT_SUCCESS(ginCommQuery(comm, &info));
	EXPECT_EQUAL(info.deviceAtomics, 1);
	EXPECT_EQUAL(dc.nSendQueues, me == WRONG ? 2 : 1);
	for (int r = 0; r < 3; r++) {
		int afar = (r == WRONG) != (me == WRONG);
		EXPECT_TEXT(peerInfo(comm, r).backend, afar ? "gdaki" : "direct");
		EXPECT_EQUAL(dc.peers[r].signals != NULL, !afar);
		struct ginSendQueue *q = queueOf(&dc, afar ? 0 : dc.contexts, r);
		uint64_t place = partOf(window, r)->nicAddress + (uint64_t)me * sizeof(int);
		struct ginMlx5Memory far = {place, partOf(window, r)->nicStrictKey};
		run(q, ginMlx5Write(slotOf(q), far, ownAt(window, PAGE / 2), sizeof(int)));
	}
	barrier(comm);
	for (int r = 0; r < 3; r++)
		EXPECT_EQUAL(page[r], r + 1);
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &dc));
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginMemFree(comm, page));
	return closeComm(comm);
}

/* The ranks destroy only the communicator. */
static int leftBehind(const ginConfig_t *config)
{
	struct part p;

	openPart(&p, config);
	putAll(&p);
	addAll(&p, AMOUNT);
	barrier(p.comm);
	expectAll(&p);
	EXPECT_SUCCESS(ginCommDestroy(p.comm));
	free(p.inbox);
	free(p.outbox);
	return 0;
}

/*
 * The host's calls report the error, and then kernels that wait. The high bits of the line have a
 * number from the beginning: only the low bits are the error.
 */
static void awaitError(const struct part *p)
{
	time_t end = time(NULL) + PATIENCE_S;
	ginResult_t error = ginSuccess;
	uint32_t line = 0;

	while (error == ginSuccess && time(NULL) < end)
		EXPECT_SUCCESS(ginCommGetAsyncError(p->comm, &error));
	EXPECT_EQUAL(error, ginErrorPeer);
	while (!line && time(NULL) < end)
		line = (uint32_t)__atomic_load_n(&p->dc.abortLine->word, __ATOMIC_RELAXED);
	EXPECT_EQUAL(line, ginErrorPeer);
}

/* A rank frees the rest of a failed communicator without the other ranks. */
static int leaveFailed(struct part *p)
{
	ginDevCommDestroy(p->comm, &p->dc);
	ginWindowDeregister(p->comm, p->out);
	ginWindowDeregister(p->comm, p->in);
	EXPECT_SUCCESS(ginCommDestroy(p->comm));
	free(p->inbox);
	free(p->outbox);
	return 0;
}

/* Rank 0 does not answer rank 1 any more: all ranks learn it, though no thread polls a queue. */
static int peerLost(const ginConfig_t *config)
{
	struct part p;

	if (config->rank == WRONG)
		setenv("MLX5DEV_FAULT", "retry@3", 1);
	openPart(&p, config);
	struct ginSendQueue *q = queueOf(&p.dc, 1, 0);
	for (int i = 0; p.me == WRONG && i < 4; i++)
		store(q, ginMlx5Nop(slotOf(q)));
	if (p.me == WRONG)
		ring(q);
	awaitError(&p);
	EXPECT_HAS(ginGetLastError(), "rank 1: gdaki: queue pair 0x");
	EXPECT_HAS(ginGetLastError(), "of context 1 to rank 0 has failed: ");
	return leaveFailed(&p);
}

/* A device falls off its bus. */
static int deviceGone(const ginConfig_t *config)
{
	struct part p;

	if (config->rank == WRONG)
		setenv("MLX5DEV_FAULT", "remove@0", 1);
	openPart(&p, config);
	struct ginSendQueue *q = queueOf(&p.dc, 0, 0);
	store(q, ginMlx5Nop(slotOf(q)));
	if (p.me == WRONG)
		ring(q);
	awaitError(&p);
	EXPECT_HAS(ginGetLastError(), "rank 1: gdaki: mlx5_0: ");
	return leaveFailed(&p);
}

static ginResult_t initWith(const ginConfig_t *config, const char *backend, ginComm_t *comm)
{
	ginConfig_t host = hostConfig(config);

	host.backend = backend;
	return ginCommInit(&host, comm);
}

static int config(const ginConfig_t *config)
{
	ginComm_t comm;

	EXPECT_FAILS(initWith(config, "socket", &comm), ginErrorInvalidArgument,
		     "config.backend is socket: must be NULL or one of gdaki|proxy");
	EXPECT_SUCCESS(initWith(config, config->rank == WRONG ? "proxy" : NULL, &comm));
	EXPECT_TEXT(peerInfo(comm, 0).backend, "proxy");
	EXPECT_HAS(peerInfo(comm, 0).why, "; not gdaki: GIN_BACKEND=proxy rules it out");
	expectWorks(comm);
	return closeComm(comm);
}

static int twoNames(const ginConfig_t *config)
{
	ginComm_t comm;

	EXPECT_FAILS(initWith(config, config->rank == 2 ? "proxy" : "gdaki", &comm),
		     ginErrorInvalidArgument, "is gdaki on rank 0 and proxy on rank 2");
	return 0;
}

/* One rank has no such port. */
static int portMissing(const ginConfig_t *config)
{
	ginComm_t comm;

	if (config->rank == WRONG)
		setenv("GIN_NIC", "mlx5_7", 1);
	EXPECT_FAILS(initWith(config, "gdaki", &comm), ginErrorUnsupported,
		     "rank 1: ", "GIN_BACKEND=gdaki: ", "mlx5_7");
	EXPECT_SUCCESS(initWith(config, NULL, &comm));
	EXPECT_TEXT(peerInfo(comm, 0).backend, "proxy");
	EXPECT_HAS(peerInfo(comm, 0).why, config->rank == WRONG
						  ? "; not gdaki: no usable port of mlx5_7"
						  : "; not gdaki: rank 1 cannot use it");
	expectWorks(comm);
	return closeComm(comm);
}

static const char *fault, *sentence;

/* The device of one rank runs out of resources for queues. */
static int fallsBack(const ginConfig_t *config)
{
	ginBackendInfo_t backend = GIN_BACKEND_INFO_INIT;
	ginComm_t comm;

	if (config->rank == WRONG)
		setenv("MLX5DEV_FAULT", fault, 1);
	EXPECT_SUCCESS(initWith(config, NULL, &comm));
	for (int r = 0; r < sizeOf(comm); r++) {
		EXPECT_TEXT(peerInfo(comm, r).backend, "proxy");
		EXPECT_HAS(peerInfo(comm, r).why, "; not gdaki: ");
	}
	EXPECT_SUCCESS(ginCommQueryBackend(comm, 1, &backend));
	EXPECT_TEXT(backend.name, "gdaki");
	EXPECT_EQUAL(backend.usable, config->rank != WRONG);
	EXPECT_EQUAL(backend.pairs, 0);
	if (config->rank == WRONG)
		EXPECT_HAS(backend.why, sentence);
	expectWorks(comm);
	closeComm(comm);
	EXPECT_EQUAL(initWith(config, "gdaki", &comm) == ginSuccess, 0);
	EXPECT_HAS(ginGetLastError(), "rank 1: ");
	EXPECT_HAS(ginGetLastError(), sentence);
	return 0;
}

/* The device has one queue pair more than the trial needs: too few for a device communicator. */
static int runsOut(const ginConfig_t *config)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;

	if (config->rank == WRONG)
		setenv("MLX5DEV_FAULT", "no-qp=2", 1);
	ginComm_t comm = openComm(config);
	EXPECT_TEXT(peerInfo(comm, 0).backend, "gdaki");
	EXPECT_FAILS(ginDevCommCreate(comm, &want, &dc), ginErrorSystem,
		     "ginDevCommCreate: rank 1: gdaki: queue pair of context 0 to rank 1: ",
		     "fewer contexts", "GIN_BACKEND=proxy");
	expectWindowsWork(comm);
	return closeComm(comm);
}

static int badPriority(const ginConfig_t *config)
{
	ginComm_t comm;

	EXPECT_FAILS(initWith(config, "gdaki", &comm), ginErrorInvalidArgument,
		     "GIN_NIC_SL=8: must be 0 to 7 on Ethernet");
	return 0;
}

static void testFaults(void)
{
	static const char *const faults[][2] = {
		{"no-qp=0", "CREATE_QP"},
		{"no-cq=0", "CREATE_CQ"},
		{"no-umem=0", "cannot hold queues"},
		{"no-mr=0", "registered"},
		{"no-uar=1", "doorbell register"},
		{"no-pd=1", "protection domain"},
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		char name[64];
		fault = faults[i][0];
		sentence = faults[i][1];
		snprintf(name, sizeof(name), "all go on to the proxy: %s", fault);
		runForks(name, 3, fallsBack);
	}
	runForks("queue pairs run out", 2, runsOut);
}

static void testRanks(void)
{
	for (int n = 1; n <= 4; n++) {
		runThreads("all over the NIC", n, allOverTheNic);
		runForks("all over the NIC", n, allOverTheNic);
	}
	setenv("GIN_GDAKI_QUEUES", "host", 1);
	runForks("queues on the host", 2, allOverTheNic);
	unsetenv("GIN_GDAKI_QUEUES");
	setenv("GIN_UAR_MAP", "cpu", 1);
	runForks("a thread rings", 3, allOverTheNic);
	runThreads("a thread rings", 2, allOverTheNic);
	runThreads("a thread rings, held back", 2, heldBack);
	unsetenv("GIN_UAR_MAP");
	runForks("parts of different sizes", 3, sizes);
	runForks("held back", 3, heldBack);
	runThreads("held back", 2, heldBack);
	runForks("a queue that has failed", 2, failedQueue);
	runThreads("depths", 2, depths);
	runThreads("left behind", 2, leftBehind);
	runForks("a peer does not answer", 3, peerLost);
	runForks("a device is gone", 3, deviceGone);
}

static void testForced(void)
{
	runForks("config.backend", 3, config);
	runForks("two names", 3, twoNames);
	runForks("a port is missing", 3, portMissing);
	setenv("GIN_NIC_SL", "8", 1);
	if (strstr(getenv("MLX5DEV_PROFILE") ?: "", "roce"))
		runForks("a bad priority", 2, badPriority);
	unsetenv("GIN_NIC_SL");
}

int main(int argc, char **argv)
{
	prepareTests();
	unsetenv("GIN_BACKEND");
	if (!getenv("MLX5DEV_DIR")) {
		printf("there is no software mlx5 device: mlx5/dev/with-device\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	setenv("GIN_ROUTE", "network", 1);
	if (argc == 2 && !strcmp(argv[1], "launched")) /* by mpirun */
		return ranksMain(1, argv, allOverTheNic);
	testRanks();
	testForced();
	testFaults();
	unsetenv("GIN_ROUTE");
	runForks("two hosts, two routes", 3, twoHosts);
	return expectFailures != 0;
}
