/* SPDX-License-Identifier: BSD-3-Clause */
/* elastic_pipeline.h - the kernels of elastic_pipeline.cc */
#ifndef GIN_TEST_PORT_ELASTIC_PIPELINE_H
#define GIN_TEST_PORT_ELASTIC_PIPELINE_H

#include "port.h"

/* Frameworks keep it as one 16-byte word. */
static_assert(sizeof(ginRequest) == 16, "a request is two words");

static const uint64_t portLimit = 60000000000ull; /* ns */

/*
 * A wait of the program's own, which polls and gives up by its own clock. The vote at the end gives
 * all threads of the coop one result, and lets them read what the first thread has acquired.
 */
template <class Coop> GIN_FN ginResult_t awaitOwn(const Gin &gin, ginWindow_t window, size_t offset,
						  uint64_t least, uint64_t nanoseconds, Coop coop)
{
	ginResult_t result = ginSuccess;
	const uint64_t start = ginNow();
	while (coop.thread_rank() == 0 && result == ginSuccess) {
		if (static_cast<int64_t>(gin.readSignal(window, offset) - least) >= 0)
			break;
		if (ginNow() - start > nanoseconds)
			result = ginErrorTimeout;
		relax();
	}
	return ginAgree(coop, result);
}

/* A sum in all 8 bytes of a value. */
GIN_FN uint64_t widen(uint32_t sum)
{
	return sum * 0x9e3779b97f4a7c15ull;
}

/* Shared memory that a call may use on its way; none on a host. */
enum { SCRATCH_BYTES = 256 };

GIN_FN void *blockScratch()
{
#if GIN_ON_GPU
	__shared__ alignas(16) char bytes[SCRATCH_BYTES];
	return bytes;
#else
	return nullptr;
#endif
}

/*
 * A block is a channel with a context of its own. Items are chunks on their way: item i of a rank
 * is chunk i % chunks of the message of the rank i / chunks to the left. It is sent on as item i +
 * chunks, until it is back at its first rank.
 *
 * A slot is in use until its item has been sent on, `chunks` items later: with fewer slots than
 * chunks + 1 the ranks would wait for each other in a circle.
 */
struct Ring {
	enum { ARRIVED = 0, TAIL = 0, SENT = 0 };

	ginDevComm dc;
	ginWindow_t input, slots; /* [channel][chunk], [channel][slot] */
	ginWindow_t credits;	  /* [channel]: slots that the right neighbour has given back */
	ginWindow_t sums;	  /* [rank][channel]: each rank's sums */
	uint32_t *total;	  /* [channel][chunk] */
	uint32_t chunks, words;	  /* of a chunk */

	GIN_FN uint32_t nSlots() const { return chunks + 2; }
	GIN_FN uint32_t items() const { return chunks * dc.nRanks; }
	GIN_FN int right() const { return rankOf((dc.rank + 1) % dc.nRanks); }
	GIN_FN int left() const { return rankOf((dc.rank + dc.nRanks - 1) % dc.nRanks); }
	GIN_FN size_t creditAt() const { return ginBlockIndex() * sizeof(uint64_t); }
	GIN_FN size_t chunkBytes() const { return words * sizeof(uint32_t); }

	GIN_FN size_t chunkAt(uint32_t item) const
	{
		return (ginBlockIndex() * chunks + item % chunks) * chunkBytes();
	}

	GIN_FN size_t slotAt(uint32_t item) const
	{
		return (ginBlockIndex() * nSlots() + item % nSlots()) * chunkBytes();
	}

	GIN_FN ginOptions options(bool more) const
	{
		ginOptions o;
		o.timeout = portLimit;
		o.from = {static_cast<uint32_t>(right()), 1, 1};
		o.given = ginScopeThread;
		o.required = ginScopeDevice;
		o.aggregate = more;
		o.scratch = blockScratch();
		o.scratchBytes = o.scratch ? SCRATCH_BYTES : 0;
		return o;
	}

	/* Two puts: the signal of the second covers both, a counter counts each. */
	GIN_FN ginResult_t putItem(const Gin &gin, uint32_t item, ginWindow_t from, size_t at) const
	{
		const size_t first = words / 2 * sizeof(uint32_t), to = slotAt(item);
		TRY(gin.put(ginTeamWorld(dc), right(), slots, to, from, at, first, GinNone{},
			    GinCounterInc{SENT}, GinCta{}, options(true)));
		return gin.put(ginTeamWorld(dc), right(), slots, to + first, from, at + first,
			       chunkBytes() - first, GinSignalInc{ARRIVED}, GinCounterInc{SENT},
			       GinCta{}, options(false));
	}

	/* Slots are given back in the order of their items: the left neighbour only counts. */
	GIN_FN ginResult_t giveBack(const Gin &gin, uint32_t count) const
	{
		return gin.signal(ginTeamWorld(dc), left(),
				  GinSignalAddAt{credits, creditAt(), count}, GinCta{});
	}

	/* `credit` is the word's value before the first item. */
	GIN_FN ginResult_t sendItem(const Gin &gin, uint32_t item, uint64_t credit) const
	{
		if (item >= nSlots())
			TRY(awaitOwn(gin, credits, creditAt(), credit + item - nSlots() + 1,
				     portLimit, GinCta{}));
		if (item < chunks)
			return putItem(gin, item, input, chunkAt(item));
		TRY(putItem(gin, item, slots, slotAt(item - chunks)));
		TRY(gin.waitCounter(SENT, 2 * (item + 1), GinCta{})); /* the slot has been read */
		TRY(gin.readCounter(SENT) == 2 * (item + 1) ? ginSuccess : ginErrorInvalidUsage);
		return giveBack(gin, 1);
	}

	/* Several items may have come at once: updates the shadow. */
	GIN_FN ginResult_t receiveItem(const Gin &gin, uint32_t item, uint64_t *arrived) const
	{
		uint64_t before, more;
		if (*arrived <= item) {
			TRY(gin.waitSignalFollowShadow(ARRIVED, 1, &before, &more, GinCta{}));
			*arrived += more;
		}
		const char *slot = static_cast<const char *>(
			ginPeerPointer(slots, slotAt(item), rankOf(dc.rank)));
		uint32_t *sum = total + chunkAt(item) / sizeof(uint32_t);
		for (uint32_t i = ginThreadIndex(); i < words; i += ginBlockSize())
			sum[i] += reinterpret_cast<const uint32_t *>(slot)[i];
		return ginSuccess;
	}

	/*
	 * The threads of all channels send their sums to all ranks, in the context that all
	 * channels share.
	 */
	GIN_FN ginResult_t tellSums(const Gin &shared) const
	{
		ginResult_t result = ginSuccess;
		const size_t at = (dc.rank * ginGridSize() + ginBlockIndex()) * sizeof(uint64_t);
		GinCta{}.sync(); /* a thread adds values that other threads have written */
		for (uint32_t p = ginThreadIndex(); p < dc.nRanks; p += ginBlockSize()) {
			uint32_t sum = 0;
			for (uint32_t i = 0; i < chunks * words; i++)
				sum += total[chunkAt(0) / sizeof(uint32_t) + i];
			ginResult_t put = shared.putValue(ginTeamWorld(dc), rankOf(p), sums, at,
							  widen(sum), GinSignalInc{TAIL});
			result = put == ginSuccess ? result : put;
		}
		return ginAgree(GinCta{}, result);
	}

	/*
	 * One block for all channels: the shadow has the expected number of items, which the signal
	 * must reach.
	 */
	GIN_FN ginResult_t awaitSums(const Gin &shared) const
	{
		ginOptions narrow;
		narrow.bits = 32;
		if (ginThreadIndex() == 0)
			shared.increaseSignalShadow(TAIL, dc.nRanks * ginGridSize());
		return shared.waitSignalMeetShadow(TAIL, GinCta{}, narrow);
	}

	GIN_FN ginResult_t run() const
	{
		Gin gin(dc, ginBlockIndex(), ginSharingCta);
		Gin shared(dc, ginGridSize(), ginSharingGpu);
		const uint64_t credit = gin.readSignal(credits, creditAt());
		uint64_t arrived = 0;

		if (ginThreadIndex() == 0)
			gin.resetCounter(SENT);
		GinCta{}.sync();
		for (uint32_t item = 0; item < items(); item++) {
			TRY(sendItem(gin, item, credit));
			TRY(receiveItem(gin, item, &arrived));
		}
		TRY(giveBack(gin, chunks)); /* the chunks that end at this rank */
		/*
		 * The right neighbour's slots are free, too: the next launch may use them at once.
		 */
		TRY(awaitOwn(gin, credits, creditAt(), credit + items(), portLimit, GinCta{}));
		TRY(gin.flush(GinWarp{}));
		TRY(tellSums(shared));
		return ginBlockIndex() ? ginSuccess : awaitSums(shared);
	}
};

/*
 * Every rank gets every rank's bytes: by put along its rail, then through pointers from direct
 * peers, which have the bytes of their rails.
 */
struct Hierarchy {
	ginDevComm dc;
	ginWindow_t mine, all;
	size_t bytes;
	uint32_t near;

	GIN_FN ginTeam rail() const
	{
		return near == dc.domainSize ? ginTeamRail(dc) : teamOuter(dc, near);
	}

	GIN_FN ginTeam domain() const
	{
		return near == dc.domainSize ? ginTeamDomain(dc) : teamInner(dc, near);
	}

	GIN_FN size_t place(int world) const { return static_cast<size_t>(world) * bytes; }

	/* A warp per peer of the rail. */
	GIN_FN ginResult_t putAlongRail(const Gin &gin) const
	{
		ginResult_t result = ginSuccess;
		for (uint32_t p = gridWarp(); p < dc.nRanks / near; p += gridWarps()) {
			ginResult_t put =
				gin.put(rail(), rankOf(p), all, place(rankOf(dc.rank)), mine, 0,
					bytes, GinSignalInc{0}, GinNone{}, GinWarp{});
			result = put == ginSuccess ? result : put;
		}
		return ginAgree(GinCta{}, result);
	}

	/* Copies the near rank's bytes of its rail to the corresponding places of this rank. */
	GIN_FN ginResult_t pullFrom(int world) const
	{
		if (isMember(dc, rail(), world))
			return ginSuccess; /* this rank itself */
		for (uint32_t b = 0; b < dc.nRanks / near; b++) {
			size_t at = place(rankOf(b * near) + world % rankOf(near));
			const char *from =
				static_cast<const char *>(ginPeerPointer(all, at, world));
			char *to = static_cast<char *>(ginPeerPointer(all, at, rankOf(dc.rank)));
			if (!from)
				return ginErrorUnsupported;
			for (size_t i = ginThreadIndex(); i < bytes; i += ginBlockSize())
				to[i] = from[i];
		}
		return ginSuccess;
	}

	GIN_FN ginResult_t run() const
	{
		Gin gin(dc, 0, ginSharingCta);
		const GinBarrier everybody(dc, ginTeamWorld(dc), 0), nearby(dc, domain(), 1);
		const uint64_t before = gin.readSignal(0);

		TRY(everybody.sync(GinCta{}));
		TRY(putAlongRail(gin));
		TRY(gin.waitSignal(0, before + dc.nRanks / near)); /* by each thread */
		TRY(nearby.arrive(GinCta{}));
		TRY(nearby.wait(GinCta{}));
		for (uint32_t p = 0; p < near; p++)
			TRY(pullFrom(ginTeamToWorld(dc, domain(), rankOf(p))));
		TRY(gin.flush(GinWarp{}));
		return nearby.sync(GinCta{}); /* all ranks have copied: the bytes may change */
	}
};

/* Rows of every rank's table, a warp per rank; Collect waits for them in another kernel. */
struct Fetch {
	ginDevComm dc;
	ginWindow_t table, fetched;
	size_t rowBytes;
	uint32_t rows, picks;
	uint64_t seed;
	ginRequest *requests; /* [rank] */

	GIN_FN uint32_t pick(uint32_t peer, uint32_t i) const
	{
		return static_cast<uint32_t>(mix(seed, dc.rank, peer, i) % rows);
	}

	GIN_FN ginResult_t getFrom(const Gin &gin, uint32_t peer) const
	{
		for (uint32_t i = 0; i < picks; i++)
			TRY(gin.get(ginTeamWorld(dc), rankOf(peer), table, pick(peer, i) * rowBytes,
				    fetched, (peer * picks + i) * rowBytes, rowBytes, GinWarp{}));
		ginRequest request = gin.flushAsync(ginTeamWorld(dc), rankOf(peer), GinWarp{});
		if (GinWarp{}.thread_rank() == 0)
			requests[peer] = request;
		return ginSuccess;
	}

	GIN_FN ginResult_t run() const
	{
		Gin gin(dc, 1);
		for (uint32_t p = gridWarp(); p < dc.nRanks; p += gridWarps())
			TRY(getFrom(gin, p));
		return ginSuccess;
	}
};

struct Collect : Fetch {
	GIN_FN ginResult_t run() const
	{
		Gin gin(dc, 1);
		for (uint32_t p = gridWarp(); p < dc.nRanks; p += gridWarps())
			TRY(gin.wait(requests[p], GinWarp{}, ginTimeout(portLimit)));
		return ginSuccess;
	}
};

/* One thread, which alone raises these words. */
struct Late {
	ginDevComm dc;
	ginWindow_t words;

	/* Signal and word go up by 6 each, in eight ways. */
	GIN_FN ginResult_t raise(const Gin &gin, size_t at) const
	{
		const int self = rankOf(dc.rank);
		TRY(gin.signal(self, GinSignalInc{0}));
		TRY(gin.signal(self, GinWeakSignalInc{0}));
		TRY(gin.signal(self, GinSignalAdd{0, 2}));
		TRY(gin.signal(self, GinWeakSignalAdd{0, 2}));
		TRY(gin.signal(self, GinSignalIncAt{words, at}));
		TRY(gin.signal(self, GinWeakSignalIncAt{words, at}));
		TRY(gin.signal(self, GinSignalAddAt{words, at, 2}));
		return gin.signal(self, GinWeakSignalAddAt{words, at, 2});
	}

	GIN_FN ginResult_t run() const
	{
		Gin gin(dc, 0, ginSharingThread);
		const uint64_t soon = 2000000;
		const size_t at = 16;

		if (awaitOwn(gin, words, at, 1, soon, GinThread{}) != ginErrorTimeout ||
		    gin.waitSignal(words, at, 1, GinThread{}, ginTimeout(soon)) !=
			    ginErrorTimeout ||
		    gin.waitSignal(0, 1, GinThread{}, ginTimeout(soon)) != ginErrorTimeout)
			return ginErrorInvalidUsage;
		TRY(raise(gin, at));
		TRY(gin.waitSignal(words, at, 6));
		TRY(gin.waitSignal(0, 6));
		TRY(gin.readSignal(words, at) + gin.readSignal(0) == 12 ? ginSuccess
									: ginErrorInvalidUsage);
		gin.resetSignal(words, at);
		gin.resetSignal(0);
		return gin.readSignal(words, at) + gin.readSignal(0) ? ginErrorInvalidUsage
								     : ginSuccess;
	}
};

#endif
