/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_plan.c - ginPlanQuery() against what communicators of 2, 8 and 64 ranks take
 *
 *	unit_plan		direct and proxy
 *	unit_plan gdaki		needs an mlx5 device: mlx5/dev/with-device
 *	unit_plan verbs		needs an RDMA device
 *
 * The linker sends the library's allocations and messages here (--wrap). Ranks are threads.
 */
/* LINK: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free,--wrap=networkLoaded */
/* LINK: -Wl,--wrap=controlSend,--wrap=controlSendChildren,--wrap=rdmaPortOpen,--wrap=memoryAlloc */
/* LINK: -Wl,--wrap=memoryAllocOnNode,--wrap=memoryFree,--wrap=poolAlloc,--wrap=pinnedAlloc */
/* LINK: -Wl,--wrap=poolAllocHandle,--wrap=pinnedAllocShared */
/* NEEDS: libgin-weak.so */
#include <dlfcn.h>

#include "backends/backend.h"
#include "backends/proxy/network/choice/rails.h"
#include "backends/proxy/verbs/sizes.h"
#include "backends/rdma/rdma.h"
#include "expect.h"
#include "lib/control/internal.h"
#include "lib/gpu/memory.h"
#include "lib/gpu/pool.h"
#include "ranks.h"

enum { COUNTS = 3, SLOTS = 1 << 18, HEAP_UNPLANNED = 16384 };

static const int counts[COUNTS] = {2, 8, 64};

enum kind { kindHeap, kindPinned, kindDevice, KINDS };

/* The memory that one rank has taken so far. */
struct taken {
	int64_t bytes[KINDS]; /* that are not freed */
	uint64_t messages;    /* sent and received */
	uint64_t received;    /* bytes */
	uint64_t queuePairs, regions;
};

static struct taken taken[RANKS_MOST];
static uint64_t relayed; /* by rank 0 */

/* The rank of the calling thread; -1: a thread of libgin. */
static _Thread_local int rankHere = -1;
static _Thread_local int isInside; /* an allocation that is counted as a whole */

/* The rank and size of the allocation at an address. Slots are never emptied. */
static struct {
	pthread_mutex_t lock;
	struct {
		const void *at;
		size_t bytes;
		int rank;
		enum kind kind;
	} slot[SLOTS];
} ledger = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint32_t slotOf(const void *at)
{
	uint32_t i = (uint32_t)(((uintptr_t)at >> 4) * 0x9e3779b97f4a7c15u >> 40) % SLOTS;

	while (ledger.slot[i].at && ledger.slot[i].at != at)
		i = (i + 1) % SLOTS;
	return i;
}

static void count(const void *at, size_t bytes, enum kind kind)
{
	if (rankHere < 0 || isInside || !at)
		return;
	pthread_mutex_lock(&ledger.lock);
	uint32_t i = slotOf(at);
	ledger.slot[i].at = at;
	ledger.slot[i].bytes = bytes;
	ledger.slot[i].rank = rankHere;
	ledger.slot[i].kind = kind;
	taken[rankHere].bytes[kind] += (int64_t)bytes;
	pthread_mutex_unlock(&ledger.lock);
}

static void discount(const void *at)
{
	pthread_mutex_lock(&ledger.lock);
	uint32_t i = slotOf(at);
	if (at && ledger.slot[i].at)
		taken[ledger.slot[i].rank].bytes[ledger.slot[i].kind] -=
			(int64_t)ledger.slot[i].bytes;
	ledger.slot[i].bytes = 0;
	pthread_mutex_unlock(&ledger.lock);
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void __real_free(void *at);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);
void __wrap_free(void *at);

void *__wrap_malloc(size_t bytes)
{
	void *at = __real_malloc(bytes);

	count(at, bytes, kindHeap);
	return at;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	void *at = __real_calloc(n, bytes);

	count(at, n * bytes, kindHeap);
	return at;
}

/* Not counted: it is called for messages, whose buffers come and go. */
void *__wrap_realloc(void *at, size_t bytes)
{
	discount(at);
	return __real_realloc(at, bytes);
}

void __wrap_free(void *at)
{
	discount(at);
	__real_free(at);
}

static const char *route; /* of the case */

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/*
 * Allocations of libgin-rdma.so come here, because symbols of the program have priority. They are
 * counted for verbs; the plan of gdaki leaves them out. What libibverbs and drivers allocate is not
 * counted. Sanitizers have such functions of their own.
 */
void *__libc_calloc(size_t n, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
void __libc_free(void *at);

#pragma GCC visibility push(default)
void *calloc(size_t n, size_t bytes);
void *aligned_alloc(size_t align, size_t bytes);
void free(void *at);
#pragma GCC visibility pop

static int isPlugin(const void *caller)
{
	Dl_info info;

	return rankHere >= 0 && !strcmp(route, "proxy, verbs") && dladdr(caller, &info) &&
	       strstr(info.dli_fname, "libgin-rdma");
}

void *calloc(size_t n, size_t bytes)
{
	void *at = __libc_calloc(n, bytes);

	if (isPlugin(__builtin_return_address(0)))
		count(at, n * bytes, kindHeap);
	return at;
}

void *aligned_alloc(size_t align, size_t bytes)
{
	void *at = __libc_memalign(align, bytes);

	if (isPlugin(__builtin_return_address(0)))
		count(at, bytes, kindHeap);
	return at;
}

void free(void *at)
{
	if (isPlugin(__builtin_return_address(0)))
		discount(at);
	__libc_free(at);
}
#endif

/*
 * WHOLE(NAME, KIND, BYTES, PARAMETERS, ARGUMENTS): an allocation; the last argument is the output
 */
#define WHOLE(name, kind, parameters, arguments)                                                   \
	ginResult_t __real_##name parameters;                                                      \
	ginResult_t __wrap_##name parameters;                                                      \
	ginResult_t __wrap_##name parameters                                                       \
	{                                                                                          \
		isInside++;                                                                        \
		ginResult_t result = __real_##name arguments;                                      \
		isInside--;                                                                        \
		if (result == ginSuccess)                                                          \
			count(*ptr, bytes, kind);                                                  \
		return result;                                                                     \
	}

WHOLE(memoryAlloc, kindDevice, (const struct device *d, size_t bytes, void **ptr), (d, bytes, ptr))
WHOLE(memoryAllocOnNode, kindDevice, (const struct device *d, size_t bytes, int node, void **ptr),
      (d, bytes, node, ptr))
WHOLE(poolAlloc, kindDevice, (struct pool * pool, size_t bytes, void **ptr), (pool, bytes, ptr))
WHOLE(poolAllocHandle, kindDevice,
      (struct pool * pool, enum poolKind kind, size_t bytes, void **ptr), (pool, kind, bytes, ptr))
WHOLE(pinnedAlloc, kindPinned, (const struct device *d, size_t bytes, int node, void **ptr),
      (d, bytes, node, ptr))
WHOLE(pinnedAllocShared, kindPinned, (const struct device *d, size_t bytes, int node, void **ptr),
      (d, bytes, node, ptr))

ginResult_t __real_memoryFree(const struct device *d, void *ptr);
ginResult_t __wrap_memoryFree(const struct device *d, void *ptr);

ginResult_t __wrap_memoryFree(const struct device *d, void *ptr)
{
	discount(ptr);
	return __real_memoryFree(d, ptr);
}

void __real_controlSend(struct control *c, struct controlLink *link,
			const struct controlHeader *header, const void *data);
void __wrap_controlSend(struct control *c, struct controlLink *link,
			const struct controlHeader *header, const void *data);

static void countMessage(const struct control *c, const struct controlLink *link,
			 const struct controlHeader *header)
{
	uint64_t bytes = sizeof(*header) + header->bytes;

	__atomic_fetch_add(&taken[link->rank].messages, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&taken[c->rank].messages, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&taken[link->rank].received, bytes, __ATOMIC_RELAXED);
	if (!c->rank || !link->rank)
		__atomic_fetch_add(&relayed, bytes, __ATOMIC_RELAXED);
}

/* Bytes that sockets do not take at once are not counted. */
void __wrap_controlSend(struct control *c, struct controlLink *link,
			const struct controlHeader *header, const void *data)
{
	countMessage(c, link, header);
	isInside++;
	__real_controlSend(c, link, header, data);
	isInside--;
}

void __real_controlSendChildren(struct control *c, const struct controlHeader *header,
				const void *data);
void __wrap_controlSendChildren(struct control *c, const struct controlHeader *header,
				const void *data);

void __wrap_controlSendChildren(struct control *c, const struct controlHeader *header,
				const void *data)
{
	for (int i = controlFirstChild(c); i < c->links; i++)
		countMessage(c, &c->link[i], header);
	isInside++;
	__real_controlSendChildren(c, header, data);
	isInside--;
}

/* The NIC's calls, of which some are counted. */
static const struct rdma *nic;
static struct rdma counting;

static int countedRegion(struct rdmaPort *port, const struct rdmaMemory *memory, unsigned access,
			 struct rdmaRegion **region, struct rdmaKeys *keys, char *why)
{
	taken[rankHere].regions++;
	return nic->regionOpen(port, memory, access, region, keys, why);
}

static int countedQueues(struct rdmaPort *port, const struct rdmaSlab *slab,
			 struct rdmaQueues **queues, char *why)
{
	taken[rankHere].regions++;
	return nic->queuesOpen(port, slab, queues, why);
}

static int countedQueue(struct rdmaQueues *queues, uint32_t i, uint32_t index, struct rdmaEnd *mine,
			char *why)
{
	taken[rankHere].queuePairs++;
	return nic->queueMake(queues, i, index, mine, why);
}

ginResult_t __real_rdmaPortOpen(const struct backendHost *host, const char *user,
				const struct rdma **rdma, struct rdmaPort **port);
ginResult_t __wrap_rdmaPortOpen(const struct backendHost *host, const char *user,
				const struct rdma **rdma, struct rdmaPort **port);

ginResult_t __wrap_rdmaPortOpen(const struct backendHost *host, const char *user,
				const struct rdma **rdma, struct rdmaPort **port)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	ginResult_t result = __real_rdmaPortOpen(host, user, rdma, port);

	if (result != ginSuccess)
		return result;
	pthread_mutex_lock(&lock);
	nic = *rdma;
	counting = *nic;
	counting.regionOpen = countedRegion;
	counting.queuesOpen = countedQueues;
	counting.queueMake = countedQueue;
	*rdma = &counting;
	pthread_mutex_unlock(&lock);
	return result;
}

/* The network's calls, of which some are counted: a lane registers memory of its own. */
static const struct fabricCalls *network;
static struct fabricCalls countingNetwork;

static int countedEnd(struct fabric *fabric, struct fabricEnd **out, void *address, char *why)
{
	taken[rankHere].regions++;
	return network->endOpen(fabric, out, address, why);
}

static int countedPair(struct fabricEnd *end, void *pair, uint64_t *peer, char *why)
{
	taken[rankHere].queuePairs++;
	return network->pairOpen(end, pair, peer, why);
}

static int countedMemory(struct fabric *fabric, void *at, size_t bytes, struct fabricRegion **out,
			 struct fabricKey *key, char *why)
{
	taken[rankHere].regions++;
	return network->memoryAdd(fabric, at, bytes, out, key, why);
}

const struct fabricCalls *__real_networkLoaded(const char *name, struct fabricAbout *about);
const struct fabricCalls *__wrap_networkLoaded(const char *name, struct fabricAbout *about);

const struct fabricCalls *__wrap_networkLoaded(const char *name, struct fabricAbout *about)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	const struct fabricCalls *calls = __real_networkLoaded(name, about);

	if (!calls || !calls->pairOpen)
		return calls;
	pthread_mutex_lock(&lock);
	network = calls;
	countingNetwork = *calls;
	countingNetwork.endOpen = countedEnd;
	countingNetwork.pairOpen = countedPair;
	countingNetwork.memoryAdd = countedMemory;
	pthread_mutex_unlock(&lock);
	return &countingNetwork;
}

static pthread_barrier_t all;
/* Memory that is taken and not planned, in each phase, [counts]: equal for all numbers of ranks. */
static int64_t (*unplanned)[3];
static int countIndex;

static ginDevCommRequirements_t requirements(void)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;

	want.contexts = 3;
	want.signals = 5;
	want.counters = 2;
	want.barriers = 2;
	want.queueDepth = 64;
	return want;
}

static ginPlanInfo_t planFor(int nRanks)
{
	const ginDevCommRequirements_t want = requirements();
	ginPlanInfo_t info = GIN_PLAN_INFO_INIT;

	info.count = 1;
	for (int i = 0; i < info.count; i++) {
		EXPECT_SUCCESS(ginPlanQuery(i, nRanks, &want, &info));
		if (!strcmp(info.route, route))
			return info;
	}
	expectThat(0, __FILE__, __LINE__, "there is no route %s", route);
	return info;
}

/* A phase, between two moments at which no rank is in a call. */
struct phase {
	const char *name;
	int nRanks;
	struct taken before;
	uint64_t relayedBefore;
};

static struct phase begin(const char *name, int nRanks)
{
	pthread_barrier_wait(&all);
	struct phase p = {name, nRanks, taken[rankHere], relayed};
	pthread_barrier_wait(&all);
	return p;
}

static void equal(const struct phase *p, const char *what, uint64_t seen, uint64_t planned)
{
	expectThat(seen == planned, __FILE__, __LINE__,
		   "%s, %s of %d ranks, rank %d: %llu %s, planned %llu", route, p->name, p->nRanks,
		   rankHere, (unsigned long long)seen, what, (unsigned long long)planned);
}

/* Structures of fixed size are not planned. */
static void compareHeap(const struct phase *p, int64_t heap, const ginPlanPhase_t *plan, int index)
{
	int64_t more = heap - (int64_t)plan->heap;

	expectThat(more >= 0 && more < HEAP_UNPLANNED, __FILE__, __LINE__,
		   "%s, %s of %d ranks: %lld bytes of heap, planned %llu", route, p->name,
		   p->nRanks, (long long)heap, (unsigned long long)plan->heap);
	if (!rankHere)
		unplanned[countIndex][index] = more;
}

static void end(const struct phase *p, const ginPlanPhase_t *plan, int index)
{
	pthread_barrier_wait(&all);
	struct taken t = taken[rankHere];
	uint64_t passed = relayed - p->relayedBefore;
	pthread_barrier_wait(&all);
	const int64_t *from = p->before.bytes;

	compareHeap(p, t.bytes[kindHeap] - from[kindHeap], plan, index);
	equal(p, "pinned bytes", (uint64_t)(t.bytes[kindPinned] - from[kindPinned]), plan->pinned);
	equal(p, "bytes of device memory", (uint64_t)(t.bytes[kindDevice] - from[kindDevice]),
	      plan->device);
	if (rankHere == p->nRanks - 1) {
		equal(p, "messages", t.messages - p->before.messages, plan->messages);
		equal(p, "bytes received", t.received - p->before.received, plan->received);
	}
	if (!rankHere)
		equal(p, "bytes relayed", passed, plan->relayed);
	if ((index && !strcmp(route, "gdaki")) || !strcmp(route, "proxy, verbs"))
		equal(p, "regions", t.regions - p->before.regions, plan->regions);
}

static int rank(const ginConfig_t *config)
{
	const ginDevCommRequirements_t want = requirements();
	const ginPlanInfo_t plan = planFor(config->nRanks);
	ginComm_t comm;
	ginDevComm devComm;
	ginWindow_t window;
	void *memory = NULL;

	rankHere = config->rank;
	struct phase p = begin("a communicator", config->nRanks);
	EXPECT_SUCCESS(ginCommInit(config, &comm));
	end(&p, &plan.init, 0);
	p = begin("a device communicator", config->nRanks);
	EXPECT_SUCCESS(ginDevCommCreate(comm, &want, &devComm));
	end(&p, &plan.create, 1);
	/* ginCommInit() makes the pairs of verbs. For gdaki it makes one as a test, and ends it. */
	uint64_t ended = strcmp(route, "gdaki") ? 0 : p.before.queuePairs;
	equal(&p, "queue pairs", taken[rankHere].queuePairs - ended, plan.queuePairs);
	EXPECT_SUCCESS(ginMemAlloc(comm, 4096, &memory));
	p = begin("a window", config->nRanks);
	EXPECT_SUCCESS(ginWindowRegister(comm, memory, 4096, 0, &window));
	end(&p, &plan.window, 2);
	pthread_barrier_wait(&all);
	EXPECT_SUCCESS(ginWindowDeregister(comm, window));
	EXPECT_SUCCESS(ginMemFree(comm, memory));
	EXPECT_SUCCESS(ginDevCommDestroy(comm, &devComm));
	EXPECT_SUCCESS(ginCommDestroy(comm));
	return 0;
}

static void runCount(void)
{
	int n = counts[countIndex];

	pthread_barrier_init(&all, NULL, (unsigned)n);
	const int *results = ranksStart(n, 1, rank);
	for (int r = 0; r < n; r++)
		EXPECT_EQUAL(results[r], 0);
}

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* Every pair on one route. */
static void check(const char *name, const char *backend, const char *transport)
{
	char text[80];

	route = name;
	set("GIN_ROUTE", backend ? "network" : "direct");
	set("GIN_BACKEND", backend);
	set("GIN_TRANSPORT", transport);
	for (countIndex = 0; countIndex < COUNTS; countIndex++) {
		snprintf(text, sizeof(text), "%s, %d ranks", name, counts[countIndex]);
		expectChild(text, runCount);
		printf("heap that is not planned: %lld, %lld, %lld bytes\n",
		       (long long)unplanned[countIndex][0], (long long)unplanned[countIndex][1],
		       (long long)unplanned[countIndex][2]);
		for (int i = 0; i < 3 && !expectFailures; i++)
			EXPECT_EQUAL(unplanned[countIndex][i], unplanned[0][i]);
	}
}

/* In a process of its own: libgin reads the environment once. */
static int hasNic(void)
{
	ginNicInfo_t info = GIN_NIC_INFO_INIT;
	int status;

	fflush(stdout);
	if (!fork()) {
		if (ginNicQuery(0, &info) == ginSuccess && info.count && info.usable)
			_exit(0);
		printf("no route gdaki: %s\n", info.count ? info.why : "there is no mlx5 device");
		fflush(stdout);
		_exit(1);
	}
	return wait(&status) > 0 && !status;
}

/* Twice as many ranks: every table and exchange of a rank is twice as large at most. */
static void growth(void)
{
	const ginDevCommRequirements_t want = requirements();

	for (int i = 0; i < 5; i++) {
		ginPlanInfo_t few = GIN_PLAN_INFO_INIT, many = GIN_PLAN_INFO_INIT;
		EXPECT_SUCCESS(ginPlanQuery(i, 8000, &want, &few));
		EXPECT_SUCCESS(ginPlanQuery(i, 16000, &want, &many));
		EXPECT_EQUAL(few.count, 5);
		EXPECT_EQUAL(many.links, 17);
		EXPECT(many.queuePairs == 2 * few.queuePairs);
		EXPECT(many.create.received <= 2 * few.create.received + 16384);
		EXPECT(many.create.heap <= 2 * few.create.heap);
		EXPECT(many.create.device <= 2 * few.create.device);
		EXPECT(many.init.received <= 2 * few.init.received + 16384);
		EXPECT(many.init.heap <= 2 * few.init.heap);
	}
}

static void badCalls(void)
{
	ginDevCommRequirements_t want = requirements();
	ginPlanInfo_t info = GIN_PLAN_INFO_INIT, most = info, none = {.size = 1};

	EXPECT_FAILS(ginPlanQuery(-1, 8, &want, &info), ginErrorInvalidArgument, "index is -1");
	EXPECT_FAILS(ginPlanQuery(5, 8, &want, &info), ginErrorInvalidArgument, "must be 0 to 4");
	EXPECT_FAILS(ginPlanQuery(0, 0, &want, &info), ginErrorInvalidArgument,
		     "nRanks is 0: must be 1 to 1048576");
	EXPECT_FAILS(ginPlanQuery(0, (1 << 20) + 1, &want, &info), ginErrorInvalidArgument,
		     "nRanks is");
	EXPECT_SUCCESS(ginPlanQuery(0, 1 << 20, &want, &most));
	EXPECT_FAILS(ginPlanQuery(0, 8, NULL, &info), ginErrorInvalidArgument,
		     "GIN_DEV_COMM_REQUIREMENTS_INIT");
	EXPECT_FAILS(ginPlanQuery(0, 8, &want, NULL), ginErrorInvalidArgument,
		     "GIN_PLAN_INFO_INIT");
	EXPECT_FAILS(ginPlanQuery(0, 8, &want, &none), ginErrorInvalidArgument,
		     "GIN_PLAN_INFO_INIT");
	want.contexts = 1025;
	EXPECT_FAILS(ginPlanQuery(0, 8, &want, &info), ginErrorInvalidArgument,
		     "requirements.contexts is 1025");
	EXPECT_EQUAL(info.count, 0);
}

/* Queue pairs of verbs: their requests, a power of two, within the limits of the device. */
static void shapes(void)
{
	static const struct {
		uint32_t peers, hasGpu, requests, completions, room, depth;
	} cases[] = {{2, 0, 32768, 4194303, 2, 128},  {2, 1, 32768, 4194303, 3, 128},
		     {2, 1, 100, 4194303, 3, 64},     {2, 1, 32768, 767, 3, 64},
		     {2, 1, 32768, 768, 3, 128},      {64, 0, 32768, 4194303, 64, 128},
		     {65, 0, 32768, 4194303, 65, 64}, {5000, 0, 32768, 4194303, 5000, 16},
		     {64, 0, 32768, 127, 64, 0}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct verbsShape s = verbsShapeOf(cases[i].peers, (int)cases[i].hasGpu,
						   cases[i].requests, cases[i].completions);
		EXPECT_EQUAL(s.room, cases[i].room);
		EXPECT_EQUAL(s.depth, cases[i].depth);
	}
}

int main(int argc, char **argv)
{
	unplanned = mmap(NULL, sizeof(int64_t[COUNTS][3]), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	EXPECT(unplanned != MAP_FAILED);
	setenv("GIN_LOG", "none", 0);
	setenv("GIN_PROXY_THREADS", "1", 1);
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	expectChild("bad calls", badCalls);
	expectChild("growth", growth);
	expectChild("queue pairs of verbs", shapes);
	if (argc > 1 && !strcmp(argv[1], "gdaki")) {
		if (!hasNic())
			return 77;
		check("gdaki", "gdaki", NULL);
		return expectFailures != 0;
	}
	if (argc > 1 && !strcmp(argv[1], "verbs")) {
		check("proxy, verbs", "proxy", "verbs");
		return expectFailures != 0;
	}
	check("direct", NULL, NULL);
	check("proxy, shared memory", "proxy", "ipc");
	check("proxy, network", "proxy", "weak");
	return expectFailures != 0;
}
