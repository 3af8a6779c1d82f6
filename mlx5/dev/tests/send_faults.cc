/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send_faults - work requests fail at random, and threads that post through shared send queues see
 * it
 *
 *	WQES=n		at least how many, in rounds
 *
 * and what send_rig.h has. In each round most queues get a fault at a random work request: a
 * syndrome, a wrong key, or the queue pair breaks; doorbells get lost beside. All work requests
 * count up their queue's word, so that it says how many were executed. What has to be:
 *
 *	no fault	all is executed, and no call fails
 *	a fault		exactly the requests before it are executed; no wait for it or for a later
 *			request succeeds; each such wait returns an error, and the queue's error
 *			names the cause, or says that the cause was lost
 */
#include "send_rig.h"

#include <random>

enum FaultKind { NO_FAULT, SYNDROME, WRONG_KEY, BREAK };

struct Fault {
	FaultKind kind;
	uint32_t syndrome;
	uint64_t at; /* the work request of the queue */
};

/* The results of a thread. */
struct Outcome {
	uint32_t result;
	uint64_t end;  /* of its last post */
	uint64_t done; /* up to where a wait said that all is */
};

struct PostUntil {
	Posters posters;
	uint64_t round, posts;
	const uint64_t *wrongKey; /* of each queue: this WQE has a key that there is not */
	Outcome *outcomes;

	GIN_FN uint32_t wqesOf(uint64_t n) const
	{
		return 1 + static_cast<uint32_t>(posters.self() + n * 2654435761u + round) % 3;
	}

	GIN_FN ginResult_t post(ginSendQueue *q, uint64_t n, uint64_t *end) const
	{
		uint64_t number = static_cast<uint64_t>(q - posters.queues);
		ginSendRange range = {0, wqesOf(n)};
		ginSendPatience poll = posters.poll();

		ginResult_t result = ginSendReserveWait(q, &range, poll, posters.sharing);
		if (result != ginSuccess)
			return result;
		for (uint32_t i = 0; i < range.count; i++) {
			bool isWrong = range.first + i == wrongKey[number];
			uint32_t key = ginMlx5Key(posters.key ^ (isWrong ? 1 : 0));
			ginMlx5StoreWqebb(ginSendWqebb(q->fixed, range.first + i),
					  ginMlx5FetchAdd(ginSendSlot(q->fixed, range, i),
							  {number * 8, key},
							  {q->fixed.sink, q->fixed.sinkKey}, 1));
		}
		ginSendHandOver(q, q->fixed, range, (posters.self() + n) % 5 == 0, posters.sharing);
		*end = range.first + range.count;
		return ginSuccess;
	}

	GIN_FN ginResult_t wait(ginSendQueue *q, Outcome *o) const
	{
		ginSendPatience poll = posters.poll();
		ginResult_t result = ginSendWait(q, o->end, poll, posters.sharing);

		if (result == ginSuccess)
			o->done = o->end;
		return result;
	}

	GIN_FN void operator()() const
	{
		ginSendQueue *q = posters.queue();
		ginResult_t result = ginSuccess;
		uint64_t waitEvery = round % 2 ? 1 : 32;
		Outcome o = {0, 0, 0};

		for (uint64_t n = 0; n < posts && result == ginSuccess; n++) {
			result = post(q, n, &o.end);
			if (result == ginSuccess && (n + posters.self()) % waitEvery == 0)
				result = wait(q, &o);
		}
		if (result == ginSuccess)
			result = wait(q, &o);
		o.result = static_cast<uint32_t>(result);
		outcomes[posters.self()] = o;
	}
};

struct Faults {
	SendRig &rig;
	uint64_t posts; /* of each thread, in a round */
	std::mt19937_64 random;
	std::vector<Fault> faults;
	uint64_t *wrongKey;
	Outcome *outcomes;
	uint64_t wqes, injected, told, lostCause;

	Faults(SendRig &r, uint64_t n)
	    : rig(r), posts(n), random(numberOr("SEED", 1)), faults(r.nQueues),
	      wrongKey(static_cast<uint64_t *>(threadMemory(r.nQueues * sizeof(*wrongKey)))),
	      outcomes(static_cast<Outcome *>(threadMemory(r.threads() * sizeof(*outcomes)))),
	      wqes(0), injected(0), told(0), lostCause(0)
	{
	}

	/* Which a thread posts to: as Posters::queue(). */
	uint32_t queueOf(uint32_t thread) const
	{
		return (rig.sharing == ginSharingThread ? thread : thread / rig.block) %
		       rig.nQueues;
	}

	uint64_t threadsOf(uint32_t queue) const
	{
		uint64_t count = 0;
		for (uint32_t i = 0; i < rig.threads(); i++)
			count += queueOf(i) == queue;
		return count;
	}

	Fault draw(uint32_t queue)
	{
		/* Syndromes that a requester sees: mlx5.h has the names. */
		const uint32_t syndromes[] = {0x01, 0x02, 0x04, 0x10, 0x12,
					      0x13, 0x14, 0x15, 0x16, 0x22};
		const FaultKind kinds[] = {NO_FAULT, NO_FAULT,	SYNDROME,  SYNDROME,
					   SYNDROME, WRONG_KEY, WRONG_KEY, BREAK};
		FaultKind kind = kinds[random() % 8];
		/* Each post is one WQE at least: that many will come. */
		uint64_t at = random() % (threadsOf(queue) * posts);

		return {kind, kind == WRONG_KEY ? 0x13 : syndromes[random() % 10], at};
	}

	static void tell(const char *word)
	{
		deviceLock();
		const char *reason = faultTake(word);
		deviceUnlock();
		if (reason)
			fprintf(stderr, "%s %s\n", word, reason);
		EXPECT(!reason);
	}

	void inject(uint32_t queue)
	{
		const Fault &f = faults[queue] = draw(queue);
		unsigned qpn = rig.mine[queue].qpn;
		auto at = static_cast<unsigned long>(f.at);
		char word[64];

		injected += f.kind != NO_FAULT;
		if (f.kind == SYNDROME)
			snprintf(word, sizeof(word), "error=0x%x@%lu:0x%x", f.syndrome, at, qpn);
		else if (f.kind == BREAK)
			snprintf(word, sizeof(word), "qperror@%lu:0x%x", at, qpn);
		else
			return;
		tell(word);
	}

	void prepare()
	{
		std::vector<uint64_t> wrong(rig.nQueues, UINT64_MAX), zeros(rig.nQueues);

		copyBytes(rig.window, zeros.data(), zeros.size() * 8);
		for (uint32_t i = 0; i < rig.nQueues; i++) {
			inject(i);
			if (faults[i].kind == WRONG_KEY)
				wrong[i] = faults[i].at;
		}
		copyBytes(wrongKey, wrong.data(), wrong.size() * 8);
		for (uint64_t i = random() % 8; i > 6; i--)
			tell("lose");
	}

	void verifyWell(const ginSendQueue &q, ginResult_t result, uint64_t executed) const
	{
		EXPECT(result == ginSuccess && !q.latched);
		EXPECT(q.done == q.reserved && executed == q.reserved);
	}

	void verifyFault(const ginSendQueue &q, const Fault &f, ginResult_t result,
			 uint64_t executed)
	{
		uint32_t syndrome = static_cast<uint32_t>(q.latched >> 56);
		uint32_t index = static_cast<uint32_t>(q.latched >> 32) & 0xffff;

		EXPECT(result == ginErrorPeer && ginResultOf(q.latched) == ginErrorPeer);
		EXPECT(q.reserved > f.at && q.done <= executed && executed <= f.at);
		/* Requests in flight when the queue pair breaks are flushed, too. */
		EXPECT(f.kind == BREAK || executed == f.at);
		if (f.kind != BREAK && syndrome == f.syndrome) {
			EXPECT(index == (f.at & 0xffff));
			told++;
			return;
		}
		EXPECT(syndrome == ginMlx5Flushed);
		/* Of the failed one the syndrome may be overwritten already. */
		EXPECT(f.kind == BREAK || static_cast<int16_t>(index - f.at) >= 0);
		lostCause++;
	}

	void verifyThread(const Outcome &o, const Fault &f) const
	{
		if (f.kind == NO_FAULT) {
			EXPECT(o.result == ginSuccess);
			return;
		}
		EXPECT(o.result == ginSuccess || o.result == ginErrorPeer);
		EXPECT(o.done <= f.at);
		EXPECT(o.end <= f.at || o.result == ginErrorPeer);
	}

	void verify(const std::vector<ginResult_t> &results)
	{
		std::vector<Outcome> seen(rig.threads());
		std::vector<uint64_t> executed = fetchWords(rig.window, rig.nQueues);

		fetch(seen.data(), outcomes, seen.size() * sizeof(seen[0]));
		for (uint32_t i = 0; i < rig.nQueues; i++) {
			ginSendQueue q = rig.look(i);

			wqes += q.reserved;
			if (faults[i].kind == NO_FAULT)
				verifyWell(q, results[i], executed[i]);
			else
				verifyFault(q, faults[i], results[i], executed[i]);
		}
		for (uint32_t i = 0; i < rig.threads(); i++)
			verifyThread(seen[i], faults[queueOf(i)]);
	}

	void round(uint64_t number)
	{
		prepare();
		launch(rig.grid, rig.block,
		       PostUntil{rig.posters(), number, posts, wrongKey, outcomes});
		verify(rig.finish());
		for (uint32_t i = 0; i < rig.nQueues; i++)
			rig.mend(i);
	}
};

int main()
{
	SendRig rig(ON_GPU ? 32 : 4, ON_GPU ? 32 : 2, ON_GPU ? 8 : 3, ON_GPU ? 8 : 5);
	uint64_t wanted = numberOr("WQES", 50000), rounds = 0;

	rig.open(rig.nQueues * 8);
	Faults faults(rig, ON_GPU ? 20 : 200);
	while (faults.wqes < wanted)
		faults.round(rounds++);
	printf("%llu work requests in %llu rounds, %llu faults: %llu told, of %llu the cause was "
	       "lost\n",
	       static_cast<unsigned long long>(faults.wqes),
	       static_cast<unsigned long long>(rounds),
	       static_cast<unsigned long long>(faults.injected),
	       static_cast<unsigned long long>(faults.told),
	       static_cast<unsigned long long>(faults.lostCause));
	EXPECT(faults.told + faults.lostCause == faults.injected);
	return 0;
}
