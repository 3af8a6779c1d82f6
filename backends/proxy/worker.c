/* SPDX-License-Identifier: BSD-3-Clause */
/* worker.c - the CPU threads of a communicator that move data for kernels */
#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/deadline.h"
#include "lib/base/log.h"
#include "lib/base/range.h"
#include "lib/gpu/cpus.h"
#include "lib/base/thread.h"

/*
 * An idle thread spins for SPIN, then naps for NAP at a time until REST, and then sleeps. A sleep
 * lasts 64 times the CPU time of the preceding pass, so that an idle thread uses less than 2 % of a
 * core, but no longer than SLEEP_MOST. The first descriptor after a pause may wait for the whole
 * sleep. These are nanoseconds.
 */
#define SPIN (SECOND / 2000)
#define REST (SECOND / 50)
#define NAP 20000
#define SLEEP_LEAST 400000
#define SLEEP_MOST 5000000
#define LOOK_TURNS 16 /* idle passes between two readings of the clock */

/*
 * With at least this many CPUs for each rank of the host, a worker does not yield its CPU: two for
 * the rank's worker and host thread, and two for those of a peer that takes this machine for
 * another host.
 */
#define CPUS_OF_RANK 4u

/* Handles landed and failed works alike: both let their flow go on. */
static void landAll(struct transportLane *lane)
{
	struct proxyWork *work;

	while ((work = lane->ops->landed(lane->state)))
		engineLanded(work);
}

/* Runs `each` for every lane in use. */
static void forLanes(struct proxyWorker *w, void (*each)(struct transportLane *lane))
{
	for (int i = 0; i < TRANSPORTS; i++)
		if (w->lanes.lane[i].ops)
			each(&w->lanes.lane[i]);
}

static void chain(struct transportLane *lane)
{
	lane->ops->chain(lane->state);
}

static void drain(struct transportLane *lane)
{
	lane->ops->drain(lane->state);
}

/* Only the network has something to receive. Returns 1 if anything has come. */
static int receive(struct proxyWorker *w)
{
	struct transportLane *lane = &w->lanes.lane[TRANSPORT_NETWORK];

	return w->hasNetwork && lane->ops->receive(lane->state);
}

static void stop(struct transportLane *lane)
{
	if (lane->ops->stop)
		lane->ops->stop(lane->state);
}

/* Starts what kernels have posted. Returns 1 if anything was started. */
static int takeAll(struct proxyWorker *w)
{
	uint32_t taken = 0;

	for (struct proxyEngine *e = w->engines; e; e = e->next) {
		if (__builtin_expect(e->stalled != NULL, 0))
			taken += (uint32_t)engineResume(e);
		taken += engineTake(e);
	}
	return taken != 0;
}

/* Returns 1 if anything was in flight, works of this pass included. */
static int retireAll(struct proxyWorker *w)
{
	int busy = 0;

	for (struct proxyEngine *e = w->engines; e; e = e->next) {
		if (!engineIsBusy(e))
			continue;
		engineRetire(e);
		busy = 1;
	}
	return busy;
}

/* One pass. The caller holds the lock. Returns 1 if anything was in flight. */
static int turn(struct proxyWorker *w)
{
	int busy = receive(w);

	if (takeAll(w) || w->hasNetwork)
		forLanes(w, chain);
	forLanes(w, landAll);
	return retireAll(w) | busy;
}

/*
 * The thread holds its lock from pass to pass, and releases it for threads that ask for it: to
 * unlock and lock takes 90 instructions, an idle pass some 420.
 */
static void giveWay(struct proxyWorker *w)
{
	if (!__atomic_load_n(&w->wanted, __ATOMIC_RELAXED))
		return;
	pthread_mutex_unlock(&w->lock);
	while (__atomic_load_n(&w->wanted, __ATOMIC_RELAXED))
		sched_yield();
	pthread_mutex_lock(&w->lock);
}

static uint64_t threadCpuTime(void)
{
	struct timespec ran;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
	return (uint64_t)ran.tv_sec * SECOND + (uint64_t)ran.tv_nsec;
}

/* 64 times the CPU time since the last call, within bounds. */
static uint64_t sleepLength(struct proxyWorker *w)
{
	uint64_t ran = threadCpuTime(), length = (ran - w->ranFor) * 64;

	w->ranFor = ran;
	if (length < SLEEP_LEAST)
		return SLEEP_LEAST;
	return length < SLEEP_MOST ? length : SLEEP_MOST;
}

/*
 * A thread on a network wakes up when something arrives: then it returns 1. Data that peers write
 * needs passes of this thread, although no pass starts it. Another thread may close the descriptor
 * with the network after a failure: then this thread sleeps too long at most.
 */
static int sleepOnNetwork(struct proxyWorker *w, uint64_t length)
{
	const struct transportLane *lane = &w->lanes.lane[TRANSPORT_NETWORK];
	struct pollfd wake = {.fd = lane->ops->arm(lane->state, length <= NAP), .events = POLLIN};
	struct timespec pause = {.tv_nsec = (long)(wake.fd < 0 ? NAP : length)};

	pthread_mutex_unlock(&w->lock);
	int woken = ppoll(&wake, 1, &pause, NULL) > 0;
	pthread_mutex_lock(&w->lock);
	return woken;
}

static void sleepAlone(struct proxyWorker *w, uint64_t length)
{
	const struct timespec pause = {.tv_nsec = (long)length};

	pthread_mutex_unlock(&w->lock);
	nanosleep(&pause, NULL);
	pthread_mutex_lock(&w->lock);
}

/* Returns 1 if something has arrived. */
static int pauseIdle(struct proxyWorker *w, uint64_t idle)
{
	uint64_t length = sleepLength(w);

	__atomic_store_n(&w->sleeps, w->sleeps + 1, __ATOMIC_RELAXED);
	if (idle < REST)
		length = NAP;
	if (w->hasNetwork)
		return sleepOnNetwork(w, length);
	sleepAlone(w, length);
	return 0;
}

/* Consecutive idle passes. All 0: the last pass did something. */
struct idle {
	uint32_t turns;
	uint64_t since, length; /* ns, at the last reading of the clock */
};

/* Called rarely: reading the clock in each pass would make idle passes longer. */
static void lookAtClock(struct idle *idle)
{
	if (idle->turns++ % LOOK_TURNS && idle->length < SPIN)
		return;
	uint64_t now = clockNow();
	if (!idle->since)
		idle->since = now;
	idle->length = now - idle->since;
}

/* After an idle pass. */
static void rest(struct proxyWorker *w, struct idle *idle)
{
	lookAtClock(idle);
	if (idle->length >= SPIN) {
		if (pauseIdle(w, idle->length))
			*idle = (struct idle){0};
	} else if (w->yields) {
		sched_yield(); /* the thread that posts may need this CPU */
	}
}

/*
 * The kernel may end a sleep of a thread late, by the thread's timer slack. The default of 50 us
 * would make a nap three times as long.
 */
static void setTimerSlack(void)
{
	prctl(PR_SET_TIMERSLACK, 1ul);
}

static void *run(void *arg)
{
	struct proxyWorker *w = arg;
	struct deviceScope scope;
	struct idle idle = {0};

	errorScope("proxy", w->host->rank);
	rangeThread("gin-proxy");
	/* Without this worker kernels would wait forever: fail the communicator. */
	if (deviceEnter(w->host->device, &scope) != ginSuccess) {
		w->host->peerFailed(w->host->core, w->host->rank,
				    "a thread of its proxy cannot use the GPU");
		return NULL;
	}
	setTimerSlack();
	pthread_mutex_lock(&w->lock);
	for (; !__atomic_load_n(&w->stop, __ATOMIC_ACQUIRE); giveWay(w)) {
		if (!turn(w)) {
			rest(w, &idle);
			continue;
		}
		idle = (struct idle){0};
		if (w->yields && w->hasNetwork)
			sched_yield(); /* the peer's proxy may need this CPU */
	}
	pthread_mutex_unlock(&w->lock);
	deviceLeave(w->host->device, &scope);
	return NULL;
}

static void lockWorker(struct proxyWorker *w)
{
	__atomic_fetch_add(&w->wanted, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&w->lock);
	__atomic_fetch_sub(&w->wanted, 1, __ATOMIC_RELAXED);
}

static void warnOfOneCpu(const cpu_set_t *own)
{
	static int warned;

	if (CPU_COUNT(own) > 1 || sysconf(_SC_NPROCESSORS_ONLN) < 2)
		return;
	if (!__atomic_exchange_n(&warned, 1, __ATOMIC_RELAXED))
		logWrite(logWarn, "the proxy's threads share the one CPU that this process may use "
				  "with the program: allow it more CPUs, for example by mpirun "
				  "--bind-to none");
}

/* How many of the first `ranks` ranks are on this host. */
static unsigned countLocal(const struct backendHost *host, int ranks)
{
	unsigned count = 0;

	for (int r = 0; r < ranks; r++)
		count += identitySameHost(&host->ranks[r], &host->ranks[host->rank]) != 0;
	return count;
}

/* A number that differs between the worker threads of all processes of this host. */
static unsigned numberOf(const struct backendHost *host)
{
	static unsigned started;
	unsigned turn = __atomic_fetch_add(&started, 1, __ATOMIC_RELAXED);

	return countLocal(host, host->rank) + countLocal(host, host->nRanks) * turn;
}

/*
 * Host threads that stand in for kernels, and proxies of peers on this machine, need CPUs as well.
 * Yields after the passes take a fifth of the rate of long puts, so a worker with CPUs to spare
 * does not yield.
 */
static int mustYield(const struct backendHost *host, const cpu_set_t *among)
{
	return !host->device->cuda &&
	       (unsigned)CPU_COUNT(among) < CPUS_OF_RANK * countLocal(host, host->nRanks);
}

/*
 * Chooses among the CPUs of the calling thread, which are the CPUs that the launcher allows the
 * process.
 */
static void findCpus(const struct backendHost *host, cpu_set_t *among)
{
	cpu_set_t own;

	CPU_ZERO(among);
	if (sched_getaffinity(0, sizeof(own), &own))
		return;
	warnOfOneCpu(&own);
	cpusChoose(host->device, &own, among);
}

static void pinWorker(const struct backendHost *host, const cpu_set_t *among, struct proxyWorker *w)
{
	char text[64];

	if (!CPU_COUNT(among))
		return;
	cpusPick(among, numberOf(host), &w->cpus);
	pthread_setaffinity_np(w->thread, sizeof(w->cpus), &w->cpus);
	cpusFormat(&w->cpus, text, sizeof(text));
	logWrite(logInfo, "a thread of the proxy runs on CPUs %s", text);
}

static ginResult_t startThread(const struct backendHost *host, const cpu_set_t *among,
			       struct proxyWorker *w)
{
	errno = threadStart(&w->thread, "gin-proxy", run, w);
	if (errno)
		return failErrno("cannot start a thread for the proxy");
	w->runs = 1;
	pinWorker(host, among, w);
	return ginSuccess;
}

/* `among` NULL: a worker without a thread. */
static ginResult_t openWorker(const struct backendHost *host, struct transportLanes lanes,
			      const cpu_set_t *among, struct proxyWorker *w)
{
	w->host = host;
	w->lanes = lanes;
	w->hasNetwork = lanes.lane[TRANSPORT_NETWORK].ops != NULL;
	w->yields = among && mustYield(host, among);
	pthread_mutex_init(&w->lock, NULL);
	ginResult_t result = among ? startThread(host, among, w) : ginSuccess;
	if (result != ginSuccess)
		pthread_mutex_destroy(&w->lock);
	return result;
}

static void closeWorker(struct proxyWorker *w)
{
	__atomic_store_n(&w->stop, 1, __ATOMIC_RELEASE);
	if (w->runs)
		pthread_join(w->thread, NULL);
	cpusLeave(&w->cpus);
	pthread_mutex_destroy(&w->lock);
}

ginResult_t workersOpen(const struct backendHost *host, const struct proxyTransports *transports,
			unsigned threads, struct proxyWorkers *out)
{
	uint32_t count = threads ? threads : 1;
	cpu_set_t among;

	/* A collective call waits for peers, which need this rank's proxy during the call. */
	if (transports->state[TRANSPORT_NETWORK])
		threads = count;

	*out = (struct proxyWorkers){.host = host, .worker = calloc(count, sizeof(*out->worker))};
	if (!out->worker)
		return fail(ginErrorSystem, "no memory");
	if (threads)
		findCpus(host, &among);
	for (; out->count < count; out->count++) {
		ginResult_t result = openWorker(host, transportsLanes(transports, out->count),
						threads ? &among : NULL, &out->worker[out->count]);
		if (result != ginSuccess) {
			workersClose(out);
			return result;
		}
	}
	return ginSuccess;
}

void workersClose(struct proxyWorkers *workers)
{
	while (workers->count)
		closeWorker(&workers->worker[--workers->count]);
	free(workers->worker);
	workers->worker = NULL;
}

static struct proxyWorker *workerOf(struct proxyWorkers *workers, const struct proxyEngine *engine)
{
	return &workers->worker[engine->worker];
}

void workersAdd(struct proxyWorkers *workers, struct proxyEngine *engine)
{
	engine->worker = workers->next++ % workers->count;
	struct proxyWorker *w = workerOf(workers, engine);
	engine->lanes = &w->lanes;

	lockWorker(w);
	engine->next = w->engines;
	w->engines = engine;
	pthread_mutex_unlock(&w->lock);
}

/* Its works in flight over networks fail. */
static void giveUp(struct proxyWorker *w, struct proxyEngine *engine)
{
	if (!w->hasNetwork)
		return;
	forLanes(w, stop);
	engineAbandon(engine);
}

/* Drains this engine only: kernels may post to other engines without end. Is it busy? */
static int drainTurn(struct proxyWorker *w, struct proxyEngine *engine)
{
	if (!engineTake(engine) && !engineIsBusy(engine))
		return 0;
	engineResume(engine);
	forLanes(w, chain);
	forLanes(w, drain);
	forLanes(w, landAll);
	engineRetire(engine);
	return 1;
}

/* Peers of a failed communicator may never answer. */
static int mayEnd(const struct proxyWorker *w, uint64_t deadline)
{
	return w->host->hasFailed(w->host->core) || clockNow() >= deadline;
}

int workersDrain(struct proxyWorkers *workers, struct proxyEngine *engine)
{
	struct proxyWorker *w = workerOf(workers, engine);
	uint64_t deadline = deadlineToTell();
	int busy;

	lockWorker(w);
	while ((busy = drainTurn(w, engine)) && !mayEnd(w, deadline))
		;
	pthread_mutex_unlock(&w->lock);
	return !busy;
}

void workersRemove(struct proxyWorkers *workers, struct proxyEngine *engine)
{
	struct proxyWorker *w = workerOf(workers, engine);
	uint64_t deadline = deadlineHere();

	lockWorker(w);
	while (drainTurn(w, engine))
		if (mayEnd(w, deadline))
			giveUp(w, engine);
	struct proxyEngine **at = &w->engines;
	while (*at != engine)
		at = &(*at)->next;
	*at = engine->next;
	pthread_mutex_unlock(&w->lock);
}

void workersStats(const struct proxyWorkers *workers, const struct proxyEngine *engine,
		  ginStats_t *stats)
{
	const struct proxyWorker *w = &workers->worker[engine->worker];

	stats->sleeps = __atomic_load_n(&w->sleeps, __ATOMIC_RELAXED);
	cpusFormat(&w->cpus, stats->cpus, sizeof(stats->cpus));
}

void workersQuiesce(struct proxyWorkers *workers)
{
	for (uint32_t i = 0; i < workers->count; i++) {
		lockWorker(&workers->worker[i]);
		pthread_mutex_unlock(&workers->worker[i].lock);
	}
}

int workersTurn(struct proxyWorkers *workers)
{
	int did = 0;

	for (uint32_t i = 0; i < workers->count; i++) {
		lockWorker(&workers->worker[i]);
		did |= turn(&workers->worker[i]);
		pthread_mutex_unlock(&workers->worker[i].lock);
	}
	return did;
}
