/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_gdaki.cc - completion entries, as kernels on the gdaki route read them
 *
 * One thread makes device calls on send queues that a NIC of this file serves. An input is a list
 * of steps: puts with counters, gets, signals, atomics, waits; entries of the NIC. An entry is one
 * that a NIC writes: it completes work requests that were handed over, or is an error; or it is any
 * 64 bytes, after which no more than the memory around is checked. Counters count exactly the
 * completed requests; after a successful flush all are completed.
 */
#include "fuzz.h"

#include <sched.h>

/* One thread: a wait of 16 looks would give up the CPU 16 times. */
static int keepCpu()
{
	return 0;
}

#define sched_yield keepCpu
#define GIN_TEST_REQUIRE_H /* EXPECT() is expect.h's */
#include "test/gdaki/gdaki_rig.h"

#define POSTS 512

struct Post {
	uint64_t end;	  /* index after its last WQEBB */
	uint32_t counter; /* COUNTERS: none */
};

class Nic
{
public:
	explicit Nic(fuzzInput *input)
	    : in(input), sharing(static_cast<ginSharing>(fuzzByte(in) % 3)), gin(r.dc, 0, sharing),
	      posts(), postCount(0), completed(0), isFailed(false), isAnything(false), due()
	{
		uint64_t first = fuzzByte(in) & 1 ? 0xfff0 : 0; /* 16 bits of indices wrap around */

		r.dc.timeout = 1;
		r.m->turn[0] = 0;
		r.m->turn[first % DEPTH] = GIN_TURN;
		r.q->reserved = r.q->handed = r.q->rung = r.q->done = completed = first;
	}

	void run()
	{
		for (int steps = 0; in->left && steps < 200; steps++) {
			step();
			check();
		}
	}

private:
	fuzzInput *in;
	Rig r;
	ginSharing sharing;
	Gin gin;
	Post posts[POSTS];
	uint32_t postCount;
	uint64_t completed; /* index, by the last CQE */
	bool isFailed;	    /* an entry was an error */
	bool isAnything;    /* an entry was any bytes */
	uint64_t due[COUNTERS];

	void step()
	{
		uint8_t what = fuzzByte(in), arg = what >> 3;

		switch (what % 8) {
		case 0:
		case 1:
			put(arg);
			break;
		case 2:
			post(arg);
			break;
		case 3:
			atomic(arg);
			break;
		case 4:
		case 5:
			complete(arg);
			break;
		case 6:
			wait(arg);
			break;
		default:
			if (arg < 2)
				anything();
			else
				flush();
		}
	}

	void put(uint8_t arg)
	{
		uint32_t counter = arg & 3;
		ginResult_t result;

		if (postCount == POSTS)
			return;
		if (arg & 4)
			result = gin.put(PEER, r.window, 64, r.window, 8, arg, GinSignalInc{1},
					 GinCounterInc{counter % COUNTERS});
		else
			result = gin.put(PEER, r.window, 64, r.window, 8, arg, GinNone{},
					 GinCounterInc{counter % COUNTERS});
		posted(result, counter % COUNTERS);
	}

	void post(uint8_t arg)
	{
		ginOptions options = {};

		options.aggregate = arg & 8;
		if (postCount == POSTS)
			return;
		if (arg & 1)
			posted(gin.signal(PEER, GinSignalAdd{2, arg}, GinThread{}, options),
			       COUNTERS);
		else if (arg & 2)
			posted(gin.get(PEER, r.window, 64, r.window, 8, arg, GinThread{}, options),
			       COUNTERS);
		else
			posted(gin.putValue(PEER, r.window, 64, uint64_t{arg}, GinNone{},
					    GinThread{}, options),
			       COUNTERS);
	}

	void posted(ginResult_t result, uint32_t counter)
	{
		EXPECT(result == ginSuccess || result == ginErrorTimeout ||
		       (result == ginErrorPeer && (isFailed || isAnything)));
		if (result == ginSuccess)
			posts[postCount++] = {r.q->reserved, counter};
	}

	void atomic(uint8_t arg)
	{
		uint64_t old = 0;

		gin.atomicFetchAdd(PEER, r.window, 64, uint64_t{1}, arg & 1 ? &old : nullptr,
				   ginTimeout(1));
	}

	/* Unused bits have any value. */
	void write(uint64_t index, uint32_t opcode)
	{
		r.m->cqe.timestampLow = static_cast<uint32_t>(fuzzWord(in));
		r.m->cqe.state = ginMlx5Swap(static_cast<uint32_t>(index & 0xffff) << 16 |
					     opcode << 4 | (fuzzByte(in) & 15u));
	}

	/* The work requests that doorbells have announced to the NIC. */
	void complete(uint8_t arg)
	{
		uint64_t known = r.q->rung;

		if (arg & 16 && fuzzByte(in) < 64) {
			isFailed = true;
			write(completed + arg,
			      arg & 1 ? ginMlx5CqeRequestError : ginMlx5CqeResponseError);
			return;
		}
		if (isFailed || known <= completed)
			return;
		completed += 1 + arg % (known - completed);
		write(completed - 1, ginMlx5CqeRequest);
		for (uint32_t i = 0; i < postCount; i++)
			if (posts[i].end && posts[i].end <= completed) {
				if (posts[i].counter < COUNTERS)
					due[posts[i].counter]++;
				posts[i].end = 0;
			}
		while (postCount && !posts[postCount - 1].end)
			postCount--;
	}

	void anything()
	{
		isAnything = true;
		fuzzTake(in, &r.m->cqe, sizeof(r.m->cqe));
	}

	void wait(uint8_t arg)
	{
		uint32_t id = arg % COUNTERS;
		uint64_t least = due[id] + (arg >> 2 & 1);
		ginResult_t result;

		if (arg & 16) {
			uint64_t all = r.q->reserved;
			result = gin.wait(gin.flushAsync(PEER), GinThread{}, ginTimeout(1));
			EXPECT(isAnything || result != ginSuccess || completed >= all);
			return;
		}
		result = gin.waitCounter(id, least, GinThread{}, ginTimeout(1));
		EXPECT(isAnything || isFailed || (result == ginSuccess) == (least <= due[id]));
	}

	void flush()
	{
		uint64_t all = r.q->reserved;
		ginResult_t result = gin.flush(GinThread{}, ginTimeout(1));

		if (isAnything)
			return;
		if (result == ginSuccess)
			EXPECT(completed >= all);
		if (completed >= all && !isFailed && r.q->reserved == all)
			EXPECT(result == ginSuccess);
	}

	void check()
	{
		EXPECT(isAnything || (r.q->done & ~GIN_SEND_CREDITING) <= completed);
		for (uint32_t i = 0; i < COUNTERS; i++)
			EXPECT(isAnything || r.counters[i] <= due[i]);
		for (uint32_t i = COUNTERS; i < CONTEXTS * COUNTERS; i++)
			EXPECT(!r.counters[i]);
		EXPECT(isAnything || r.q->reserved - (r.q->done & ~GIN_SEND_CREDITING) <= DEPTH);
	}
};

static void fuzzOne(struct fuzzInput *in)
{
	Nic nic(in);

	nic.run();
}
