/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send_queue.cc - threads post to a send queue, and a thread that plays the NIC checks every byte
 *
 *	WQES=n	how many (200000: the 16 bits of the NIC's counter go round)
 *	SEED=n
 *
 * The NIC takes the value of the doorbell or, as if it had dropped that, of the record, at random
 * times and in random batches. The test does not use libgin.so: this file makes the queue. Some
 * posts count.
 */
/* COMPILE: -O1 */
#include <gin/gdaki/queue.cuh>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "numbers.h"
#include "require.h"

enum { POSTERS = 4, QUEUE = 0x123456, NEVER = 0x7fffffff };

/* The n-th post of a poster: how many WQEs, and each of them. */
static uint32_t wqesOf(uint64_t poster, uint64_t n)
{
	return 1 + static_cast<uint32_t>(((poster * 7 + n * 2654435761u) >> 8) % 3);
}

/* Does it raise the poster's counter? */
static bool counts(uint64_t poster, uint64_t n)
{
	return (poster * 3 + n) % 4 == 0;
}

static bool heldBack(uint64_t poster, uint64_t n)
{
	return (poster + n) % 5 == 0;
}

static struct ginMlx5Wqebb makeWqe(struct ginMlx5Slot slot, uint64_t poster, uint64_t n, uint32_t i)
{
	uint64_t name = poster << 56 | n << 8 | i;
	struct ginMlx5Memory remote = {name, static_cast<uint32_t>(n * 31 + i)};
	struct ginMlx5Memory local = {~name, static_cast<uint32_t>(poster + 1)};

	if (i + 1 < wqesOf(poster, n))
		return ginMlx5Write(slot, remote, local, static_cast<uint32_t>(n % 4096 + 1));
	return ginMlx5FetchAdd(slot, remote, local, n);
}

/* Of segment 1 of a WQE: its first 8 bytes. */
static uint64_t nameOf(const struct ginMlx5Wqebb &wqe)
{
	return static_cast<uint64_t>(ginMlx5Swap(wqe.segment[1].word[0])) << 32 |
	       ginMlx5Swap(wqe.segment[1].word[1]);
}

class Nic
{
public:
	struct ginSendQueue q;
	ginDevComm dc;
	std::atomic<bool> paused, resting, stop;
	std::atomic<uint64_t> fails; /* the WQE of this index */
	std::atomic<uint64_t> fetched;
	uint64_t wanted;		      /* posts below this index are not held back */
	std::atomic<uint64_t> posts[POSTERS]; /* that are completed */
	uint64_t counters[POSTERS];

	explicit Nic(uint32_t logDepth)
	    : q(), dc(), paused(false), resting(false), stop(false), fails(UINT64_MAX), fetched(0),
	      wanted(0), posts(), counters(), wqes(1u << logDepth), turn(1u << logDepth),
	      side(1u << logDepth), cqe(), record(), doorbell(0), line(),
	      random(numberOr("SEED", 1)), at(), failed(false), rung(0), known(0)
	{
		cqe.state = ginMlx5CqeEmpty();
		turn[0] = GIN_TURN;
		q.fixed.wqes = wqes.data();
		q.fixed.turn = turn.data();
		q.fixed.counter = side.data();
		q.fixed.cqe = &cqe;
		q.fixed.record = &record;
		q.fixed.doorbell = &doorbell;
		q.fixed.queue = ginMlx5Queue(QUEUE);
		q.fixed.logDepth = logDepth;
		doorbell = ginMlx5Doorbell(q.fixed.queue, 0);
		dc.abortLine = &line;
		watch.word = &line.word;
		dc.abort = &watch;
		dc.self = &dc;
		thread = std::thread([this] { run(); });
	}

	~Nic()
	{
		stop = true;
		if (thread.joinable())
			thread.join();
	}

	Nic(const Nic &) = delete;
	Nic &operator=(const Nic &) = delete;

	struct ginSendPatience poll(uint64_t nanoseconds)
	{
		return ginSendPatienceStart(&dc, nanoseconds, 0);
	}

	/* After all threads have left: no post is forgotten, and the right word has the turn. */
	void expectQuiet(ginSharing sharing)
	{
		EXPECT(q.handed == q.reserved && q.rung >= wanted);
		if (sharing == ginSharingThread)
			return;
		for (uint64_t i = 0; i < turn.size(); i++)
			EXPECT(turn[i] == (i == (q.handed & ginSendMask(q.fixed)) ? GIN_TURN : 0));
	}

private:
	std::vector<struct ginMlx5Wqebb> wqes;
	std::vector<uint32_t> turn, side;
	struct ginMlx5Cqe cqe;
	struct ginMlx5DoorbellRecord record;
	uint64_t doorbell;
	struct ginAbortLine line;
	struct ginMirroredWord watch = {};
	std::mt19937_64 random;
	struct {
		uint64_t post;
		uint32_t wqe;
	} at[POSTERS]; /* what comes next of each */
	bool failed;
	uint64_t rung, known;
	std::thread thread;

	/* Up to which index it may read. N, acquire end. */
	uint64_t announced()
	{
		uint64_t ring = __atomic_load_n(&doorbell, __ATOMIC_ACQUIRE);
		uint32_t next = ginMlx5Swap(static_cast<uint32_t>(ring)) >> 8 & 0xffff;
		bool dropped = random() % 4 == 0;
		uint32_t other =
			ginMlx5Swap(dropped ? __atomic_load_n(&record.send, __ATOMIC_ACQUIRE)
					    : __atomic_load_n(&record.send, __ATOMIC_RELAXED));
		uint32_t ahead = (other - next) & 0xffff;
		/* The completion may be older than `known`, which can come from the record. */
		uint64_t says = known + static_cast<uint64_t>(static_cast<int16_t>(
						next - static_cast<uint32_t>(known)));

		EXPECT(ring >> 32 == q.fixed.queue);
		/*
		 * The ringer writes the record before the doorbell, and posters reserve at most a
		 * depth beyond what this thread has fetched and completed. At the read of the
		 * doorbell the record may be one ring ahead: at most a depth. Until the read of the
		 * record the ringer may ring that doorbell, and another may ring: at most another
		 * depth. So the record read, and what is fetched by it, is at most two depths ahead
		 * of the doorbell, and the doorbell read next at most three. The doorbell never
		 * goes back.
		 */
		EXPECT(says >= rung && says - rung <= 3 * wqes.size());
		EXPECT(ahead <= 2 * wqes.size());
		rung = says;
		if (dropped)
			says += ahead;
		if (known < says)
			known = says;
		return known;
	}

	/* Checks one WQE; true when it has a CQE. */
	bool take(uint64_t index)
	{
		const struct ginMlx5Wqebb &wqe = wqes[index & ginSendMask(q.fixed)];
		uint64_t name = nameOf(wqe), poster = name >> 56, n = name << 8 >> 16;
		uint32_t i = name & 0xff;

		EXPECT(poster < POSTERS);
		EXPECT(n == at[poster].post && i == at[poster].wqe);
		bool last = i + 1 == wqesOf(poster, n);
		struct ginMlx5Wqebb right =
			makeWqe({q.fixed.queue, static_cast<uint32_t>(index),
				 last ? static_cast<uint32_t>(ginMlx5Signaled) : 0u},
				poster, n, i);
		EXPECT(!memcmp(&right, &wqe, sizeof(wqe)));
		at[poster].wqe = last ? 0 : i + 1;
		at[poster].post += last;
		return last;
	}

	/* K, release end. */
	void complete(uint64_t index, uint32_t opcode, uint32_t syndrome)
	{
		__atomic_store_n(&cqe.timestampLow, syndrome << 24, __ATOMIC_RELAXED);
		__atomic_store_n(
			&cqe.state,
			ginMlx5Swap(static_cast<uint32_t>(index & 0xffff) << 16 | opcode << 4),
			__ATOMIC_RELEASE);
	}

	void execute(uint64_t index)
	{
		bool signaled = take(index);

		if (failed || index == fails) {
			complete(index, ginMlx5CqeRequestError,
				 failed ? ginMlx5Flushed : ginMlx5RemoteAccess);
			failed = true;
			return;
		}
		if (!signaled)
			return;
		for (int p = 0; p < POSTERS; p++)
			posts[p].store(at[p].post, std::memory_order_relaxed);
		complete(index, ginMlx5CqeRequest, 0);
	}

	void run()
	{
		while (!stop) {
			uint64_t from = fetched;
			resting = paused.load();
			uint32_t more =
				resting ? 0 : (announced() - static_cast<uint32_t>(from)) & 0xffff;
			EXPECT(more <= wqes.size());
			if (more)
				more = 1 + random() % more;
			for (uint64_t i = 0; i < more; i++)
				execute(from + i);
			fetched = from + more;
			if (!more || random() % 8 == 0)
				sched_yield();
		}
	}
};

/* One post; ginErrorTimeout: nothing of it. */
static ginResult_t post(Nic &nic, uint64_t poster, uint64_t n, ginSharing sharing,
			uint64_t patience, uint64_t *end)
{
	struct ginSendRange range = {0, wqesOf(poster, n)};
	struct ginSendPatience poll = nic.poll(patience);
	ginResult_t result = ginSendReserveWait(&nic.q, &range, poll, sharing);

	if (result != ginSuccess)
		return result;
	for (uint32_t i = 0; i < range.count; i++) {
		ginMlx5StoreWqebb(ginSendWqebb(nic.q.fixed, range.first + i),
				  makeWqe(ginSendSlot(nic.q.fixed, range, i), poster, n, i));
		if ((n + i) % 61 == 0)
			sched_yield(); /* a slow one */
	}
	if (counts(poster, n)) {
		uint64_t last = range.first + range.count - 1;
		ginSlotCounterSet(&nic.q.fixed.counter[last & ginSendMask(nic.q.fixed)],
				  static_cast<uint32_t>(poster) + 1);
		ginPointerSet(&nic.q.counters, nic.counters);
		ginLocalMax(&nic.q.counted, last + 1);
	}
	ginSendHandOver(&nic.q, nic.q.fixed, range, heldBack(poster, n), sharing);
	*end = range.first + range.count;
	if (!heldBack(poster, n))
		ginLocalMax(&nic.wanted, *end);
	return ginSuccess;
}

/* How many of the first `posts` of a poster count. */
static uint64_t countsOf(uint64_t poster, uint64_t posts)
{
	uint64_t sum = 0;
	for (uint64_t n = 0; n < posts; n++)
		sum += counts(poster, n);
	return sum;
}

/*
 * Posts, repeats posts that time out, and waits for its own posts at times, until all are posted or
 * one fails.
 */
static ginResult_t postMany(Nic &nic, uint64_t poster, uint64_t posts, ginSharing sharing)
{
	uint64_t end = 0, counted = 0;

	for (uint64_t n = 0; n < posts; n++) {
		ginResult_t result = ginErrorTimeout;
		counted += counts(poster, n);
		while (result == ginErrorTimeout)
			result =
				post(nic, poster, n, sharing, n % 3 ? 60000000000ull : 20000, &end);
		if (result == ginSuccess && n % 16 == 8 + poster) {
			struct ginSendPatience poll = nic.poll(60000000000ull);
			result = ginSendWait(&nic.q, end, poll, sharing);
			if (result == ginSuccess)
				EXPECT(nic.posts[poster] > n &&
				       ginCounterObserve(&nic.counters[poster]) == counted);
		}
		if (result != ginSuccess)
			return result;
	}
	return ginSuccess;
}

static void postAll(Nic &nic, uint64_t posters, uint64_t posts, ginSharing sharing,
		    ginResult_t want)
{
	std::vector<std::thread> threads;

	for (uint64_t p = 0; p < posters; p++)
		threads.emplace_back([&nic, p, posts, sharing, want] {
			EXPECT(postMany(nic, p, posts, sharing) == want);
		});
	for (std::thread &t : threads)
		t.join();
	nic.expectQuiet(sharing);
}

/* Everything arrives: without a wait all that is not held back, and the rest by a flush. */
static void everyByte(uint32_t logDepth, uint64_t posters, ginSharing sharing)
{
	Nic nic(logDepth);
	uint64_t posts = numberOr("WQES", 200000) / posters / 2;

	postAll(nic, posters, posts, sharing, ginSuccess);
	while (nic.fetched < nic.q.rung)
		sched_yield();
	struct ginSendPatience poll = nic.poll(60000000000ull);
	EXPECT(ginSendWait(&nic.q, ginSendTicket(&nic.q), poll, sharing) == ginSuccess);
	EXPECT(nic.fetched == nic.q.reserved && nic.q.done == nic.q.reserved);
	for (uint64_t p = 0; p < posters; p++)
		EXPECT(nic.posts[p] == posts && nic.counters[p] == countsOf(p, posts));
}

/* A few posts, and no thread waits: doorbells announce all posts that do not aggregate. */
static void without(ginSharing sharing)
{
	for (int round = 0; round < 200; round++) {
		Nic nic(6);
		postAll(nic, POSTERS, 1 + static_cast<uint64_t>(round % 7), sharing, ginSuccess);
	}
}

/* While the NIC does nothing, posts beyond the depth time out, and hold nothing. */
static void full(ginSharing sharing)
{
	Nic nic(4);
	uint64_t n = 0, end = 0;
	ginResult_t result = ginSuccess;

	nic.paused = true;
	while (!nic.resting)
		sched_yield();
	while (result == ginSuccess)
		result = post(nic, 0, n++, sharing, 1000000, &end);
	EXPECT(result == ginErrorTimeout && nic.q.reserved == end && end > 12 && end <= 16);
	EXPECT(post(nic, 0, n - 1, sharing, 1000000, &end) == ginErrorTimeout);
	EXPECT(nic.q.reserved == end);
	struct ginSendPatience poll = nic.poll(1000000);
	EXPECT(ginSendWait(&nic.q, end, poll, sharing) == ginErrorTimeout);
	nic.paused = false;
	EXPECT(post(nic, 0, n - 1, sharing, 60000000000ull, &end) == ginSuccess);
	poll = nic.poll(60000000000ull);
	EXPECT(ginSendWait(&nic.q, end, poll, sharing) == ginSuccess);
	EXPECT(nic.posts[0] == n);
	nic.expectQuiet(sharing);
}

/* A WQE fails: all threads get one error, and no later WQE counts as done. */
static void failure(uint64_t posters, ginSharing sharing)
{
	Nic nic(4);

	nic.fails = 70001;
	postAll(nic, posters, NEVER, sharing, ginErrorPeer);
	EXPECT(nic.q.done <= 70001);
	for (uint64_t p = 0; p < posters; p++)
		EXPECT(nic.counters[p] <= countsOf(p, nic.posts[p]));
	uint32_t syndrome = static_cast<uint32_t>(nic.q.latched >> 56);
	EXPECT(syndrome == ginMlx5RemoteAccess || syndrome == ginMlx5Flushed);
	struct ginSendPatience poll = nic.poll(0);
	EXPECT(ginSendWait(&nic.q, 1, poll, sharing) == ginErrorPeer);
}

int main()
{
	for (ginSharing sharing : {ginSharingGpu, ginSharingCta}) {
		everyByte(2, POSTERS, sharing);
		everyByte(6, POSTERS, sharing);
		failure(POSTERS, sharing);
		full(sharing);
		without(sharing);
	}
	everyByte(14, POSTERS, ginSharingGpu);
	everyByte(2, 1, ginSharingThread);
	failure(1, ginSharingThread);
	full(ginSharingThread);
	printf("every WQE was whole and in its place\n");
	return 0;
}
