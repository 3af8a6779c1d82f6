/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packets.cuh - short messages between two ranks, in one trip
 *
 * On the direct route a message goes as packets of 16 bytes: two words, each with 4 bytes of data
 * and the low 32 bits of the message's number as its flag. A word of 8 bytes arrives whole, so the
 * flag tells that its 4 bytes have come: the sender needs no release, the receiver no acquire. The
 * packets are twice as long as the message. On the network routes a message is a put with a signal.
 *
 * Messages use two slots in turn. The receiver tells the sender what it has read by credits; the
 * sender waits for the credit of the message that used the slot before.
 *
 * A box has a part for each peer, `room` being the length of the longest message:
 *
 *	0		credits of the peer: two words of 4 bytes, by the number's lowest bit
 *	32		messages sent, messages received: words of 8 bytes, of this rank alone
 *	128		two slots of 2 x room bytes, which the peer writes
 *	128 + 4 x room	two slots of room bytes: what is sent by a put
 */
#ifndef GIN_PACKETS_CUH
#define GIN_PACKETS_CUH

#include "context.cuh"

/* The longest message that a box can have. */
#define GIN_PACKETS_MOST 16384u

/*
 * Where messages pass: bytes `offset` to offset + ginPacketBoxBytes() of a window, a multiple of 16 and
 * zero on all ranks before the first message; and the signals `signals` to signals + 2 nRanks - 1 of
 * the context. Equal on all ranks.
 */
struct ginPacketBox {
	ginWindow_t window;
	size_t offset;
	uint32_t most; /* the longest message in bytes, up to GIN_PACKETS_MOST */
	uint32_t signals;
};

/* `most` rounded up to whole packets. */
GIN_FN constexpr uint32_t ginPacketRoom(uint32_t most)
{
	return most ? (most + 15) & ~15u : 16u;
}

/* Bytes of a box for one peer. */
GIN_FN constexpr size_t ginPacketPart(uint32_t most)
{
	return 6 * static_cast<size_t>(ginPacketRoom(most)) + 128;
}

/* Bytes of a box in the window. */
GIN_FN constexpr size_t ginPacketBoxBytes(uint32_t nRanks, uint32_t most)
{
	return nRanks * ginPacketPart(most);
}

/* Packets of a message: an empty message has one. */
GIN_FN uint32_t ginPacketCount(uint32_t bytes)
{
	return bytes ? (bytes + 7) / 8 : 1;
}

/* Where the slot of a message begins in a part. */
GIN_FN uint32_t ginPacketSlot(uint32_t most, uint32_t number)
{
	return 128 + (number & 1) * 2 * ginPacketRoom(most);
}

/* Where the bytes of a message begin in a part, for a put. */
GIN_FN uint32_t ginPacketStage(uint32_t most, uint32_t number)
{
	return 128 + (4 + (number & 1)) * ginPacketRoom(most);
}

GIN_FN uint32_t *ginPacketCredits(char *part)
{
	return reinterpret_cast<uint32_t *>(part);
}

/* Messages sent, messages received. Only the first thread of a coop writes them. */
GIN_FN uint64_t *ginPacketCounts(char *part)
{
	return reinterpret_cast<uint64_t *>(part + 32);
}

/*
 * Does the message fill its slot? Every 2^30 messages both slots are written whole. So no flag in a
 * slot is 2^32 messages old, and none can be taken for a new flag.
 */
GIN_FN bool ginPacketSweeps(uint32_t number)
{
	return number > 1 && (number & ((1u << 30) - 1)) < 2;
}

/* Bytes 8 i to 8 i + 7 of a message that has `bytes` bytes; 0 for what is beyond. */
GIN_FN uint64_t ginPacketGather(const char *src, uint32_t bytes, uint32_t i)
{
	uint32_t left = bytes - 8 * i;
	uint64_t word = 0;
	if (left >= 8)
		return ginDataGather<uint64_t>(src + 8 * i);
	GIN_NO_UNROLL
	for (uint32_t b = 0; b < left; b++)
		word |= static_cast<uint64_t>(ginDataLoad<uint8_t>(src + 8 * i + b)) << (8 * b);
	return word;
}

/*
 * Sends packets i, i + size, ... of any message. This function and those below are not inlined: the
 * registers of a kernel are what it has live at a call and the most that one of them takes.
 */
GIN_FN_COLD void ginPacketSendAny(char *slot, const char *src, uint32_t bytes, uint32_t number,
				  uint32_t i, uint32_t size)
{
	GIN_NO_UNROLL
	for (; i < ginPacketCount(bytes); i += size)
		ginPacketStore(slot + 16 * i, ginPacketGather(src, bytes, i), number);
}

/* Fills the slot after the message. */
GIN_FN_COLD void ginPacketSweep(char *slot, uint32_t bytes, uint32_t room, uint32_t number,
				uint32_t first, uint32_t size)
{
	GIN_NO_UNROLL
	for (uint32_t i = ginPacketCount(bytes) + first; i < room / 8; i += size)
		ginPacketStore(slot + 16 * i, 0, number);
}

/* Packets whose bytes a thread loads before it sends them; packets that it looks at together. */
#define GIN_PACKETS_AHEAD 4u
#define GIN_PACKETS_FLIGHT 4u

/* How often a thread looks for a packet before it looks at the clock: some 30 us. */
#define GIN_PACKETS_LOOKS 200u

/* Sends packets i, i + size, ...: whole ones of an aligned source quickly. */
GIN_FN_COLD void ginPacketSend(char *part, uint32_t most, const char *src, uint32_t bytes,
			       uint32_t number, uint32_t i, uint32_t size)
{
	char *slot = part + ginPacketSlot(most, number);
	if (ginPacketSweeps(number))
		ginPacketSweep(slot, bytes, ginPacketRoom(most), number, i, size);
	if (ginMisalignment(src, 8) || bytes % 8 || !bytes)
		return ginPacketSendAny(slot, src, bytes, number, i, size);
	const uint32_t step = 8 * size;
	uint64_t w[GIN_PACKETS_AHEAD] = {};
	int32_t left = static_cast<int32_t>(bytes - 8 * i);
	src += 8 * i;
	slot += 16 * i;
	GIN_NO_UNROLL
	for (; left > 0; left -= static_cast<int32_t>(GIN_PACKETS_AHEAD * step)) {
		/* Without a branch: a load of the first word replaces what is beyond the message. */
		for (uint32_t u = 0; u < GIN_PACKETS_AHEAD; u++)
			w[u] = ginDataLoad<uint64_t>(
				src + (left > static_cast<int32_t>(u * step) ? u * step : 0));
		for (uint32_t u = 0; u < GIN_PACKETS_AHEAD; u++)
			if (left > static_cast<int32_t>(u * step))
				ginPacketStore(slot + 2 * u * step, w[u], number);
		src += GIN_PACKETS_AHEAD * step;
		slot += 2 * GIN_PACKETS_AHEAD * step;
	}
}

/* What the functions below return when all packets were received. */
#define GIN_PACKETS_ALL UINT32_MAX

/*
 * Receives packets i, i + size, ... of a message into any target. Returns the first of them that does
 * not come soon, or GIN_PACKETS_ALL.
 */
GIN_FN_COLD uint32_t ginPacketTakeAny(const char *slot, char *dst, uint32_t bytes, uint32_t number,
				      uint32_t i, uint32_t size)
{
	uint64_t word = 0;
	GIN_NO_UNROLL
	for (; i < ginPacketCount(bytes); i += size) {
		for (uint32_t looks = 0; !ginPacketLoad(slot + 16 * i, number, &word); looks++) {
			if (looks == GIN_PACKETS_LOOKS)
				return i;
			ginYield();
		}
		GIN_NO_UNROLL
		for (uint32_t b = 8 * i; b < bytes && b < 8 * i + 8; b++, word >>= 8)
			dst[b] = static_cast<char>(word);
	}
	return GIN_PACKETS_ALL;
}

/* As ginPacketTakeAny: whole packets into an aligned target quickly. */
GIN_FN_COLD uint32_t ginPacketTake(const char *part, uint32_t most, char *dst, uint32_t bytes,
				   uint32_t number, uint32_t i, uint32_t size)
{
	const char *slot = part + ginPacketSlot(most, number);
	if (ginMisalignment(dst, 8) || bytes % 8 || !bytes)
		return ginPacketTakeAny(slot, dst, bytes, number, i, size);
	const uint32_t step = 8 * size;
	int32_t left = static_cast<int32_t>(bytes - 8 * i);
	slot += 16 * i;
	dst += 8 * i;
	GIN_NO_UNROLL
	for (uint32_t looks = 0; left > 0;) {
		struct ginWord16 seen[GIN_PACKETS_FLIGHT];
		uint32_t came = 0;
		/* All loads before the first compare: without a branch, or they would go one by one. */
		for (uint32_t u = 0; u < GIN_PACKETS_FLIGHT; u++) {
			uint32_t ahead = left > static_cast<int32_t>(u * step) ? 2 * u * step : 0;
			seen[u] = ginPollPair(slot + ahead);
		}
		for (uint32_t u = 0; u < GIN_PACKETS_FLIGHT; u++) {
			if (left <= static_cast<int32_t>(u * step) || !ginPacketIs(seen[u], number))
				continue;
			uint64_t word = ginPacketData(seen[u]);
			memcpy(__builtin_assume_aligned(dst + u * step, 8), &word, 8);
			came |= 1u << u;
		}
		/* Packets after one that is missing are looked at, and stored, once more. */
		uint32_t run = came & 1 ? (came & 2 ? (came & 4 ? (came & 8 ? 4 : 3) : 2) : 1) : 0;
		left -= static_cast<int32_t>(run * step);
		slot += 2 * run * step;
		dst += run * step;
		looks = run ? 0 : looks + 1;
		if (looks == GIN_PACKETS_LOOKS)
			return (bytes - static_cast<uint32_t>(left)) / 8;
		if (looks)
			ginYield();
	}
	return GIN_PACKETS_ALL;
}

/* Looks whether a packet of the message has come: 1 or 0. */
struct ginPacketLook {
	const char *packet;
	uint32_t number;

	GIN_FN uint64_t operator()() const
	{
		uint64_t word = 0;
		return ginPacketLoad(packet, number, &word);
	}
};

/* The options of what remains of a wait for `peer` that began at `since`. */
GIN_FN ginOptions ginPacketPatience(const ginDevComm *dc, uint32_t peer, uint64_t timeout,
				    uint64_t since)
{
	ginOptions options = ginTimeout(timeout ? timeout : dc->timeout);
	uint64_t gone = ginNow() - since;
	if (!options.timeout)
		options.timeout = GIN_FOREVER;
	if (options.timeout != GIN_FOREVER)
		options.timeout = gone < options.timeout ? options.timeout - gone : 1;
	options.from = {peer, 1, 1};
	return options;
}

/* Waits for packet i of a message. Cold, so it takes dc.self: see wait.cuh. */
GIN_FN_COLD ginResult_t ginPacketAwait(const ginDevComm *dc, const char *part, uint32_t most,
				       uint32_t number, uint32_t i, uint32_t peer, uint64_t timeout,
				       uint64_t since)
{
	const char *packet = part + ginPacketSlot(most, number) + 16 * i;
	struct ginPoll poll = ginPollStart(*dc, ginPacketPatience(dc, peer, timeout, since));
	uint64_t seen = 0;
	return ginPollUntil(poll, ginPacketLook{packet, number}, 1, 64, &seen);
}

/* Waits until the peer has read message `number`. */
GIN_FN_COLD ginResult_t ginPacketAwaitCredit(const ginDevComm *dc, char *part, uint32_t number,
					     uint32_t peer, uint64_t timeout)
{
	const uint32_t *credit = ginPacketCredits(part) + (number & 1);
	auto look = [credit] { return static_cast<uint64_t>(ginCreditObserve(credit)); };
	uint64_t seen = 0;
	if (ginLookBriefly(look, number, 32))
		return ginSuccess;
	struct ginPoll poll = ginPollStart(*dc, ginPacketPatience(dc, peer, timeout, ginNow()));
	return ginPollUntil(poll, look, number, 32, &seen);
}

/* By the first thread of a coop: takes a count back, and writes the error record. */
GIN_FN_COLD void ginPacketGiveUp(const ginDevComm *dc, uint64_t *count, uint32_t was, uint32_t call,
				 ginResult_t why, uint32_t context, uint32_t peer,
				 uint32_t expected)
{
	ginLocalStore(count, was);
	ginErrorLeave(dc, why, call, context, static_cast<int>(peer), UINT32_MAX, expected,
		      expected - 1);
}

/*
 * Messages to and from one peer through a box, which belongs to one device communicator. All
 * threads of a coop make a GinPackets and call it; they may send and receive by one object, or one
 * coop sends and another one receives, each by its own. The object counts messages: while it is
 * used, no other object sends, or receives, on this box with this peer.
 *
 * Messages arrive in order. At most two messages have not been received: the third send() waits.
 * `routes` as for GinOn.
 */
template <uint32_t routes> class GinPacketsOn
{
public:
	GIN_FN GinPacketsOn(const ginDevComm &devComm, uint32_t contextIndex,
			    const ginPacketBox &packetBox, int peerRank,
			    ginSharing contextSharing = ginSharingGpu)
	    : dc(devComm), box(packetBox), context(contextIndex),
	      peer(static_cast<uint32_t>(peerRank)), sharing(contextSharing), mine(own(0)),
	      theirs(isDirect() ? peerPart() : nullptr),
	      sent(static_cast<uint32_t>(ginLocalLoad(ginPacketCounts(mine)))),
	      received(static_cast<uint32_t>(ginLocalLoad(ginPacketCounts(mine) + 1))),
	      credited(newestCredit())
	{
	}

	/*
	 * Sends `bytes` bytes from any memory of this rank, 0 to box.most. They may be overwritten
	 * when the call has returned. ginErrorTimeout: the peer has not received the message before
	 * the last one, or a ring or send queue stayed full; nothing is sent. ginErrorPeer: it may
	 * have been sent. ginErrorAborted.
	 */
	template <class Coop = GinThread> GIN_FN ginResult_t send(const void *src, uint32_t bytes,
								  Coop coop = {},
								  ginOptions options = {})
	{
		const char *from = static_cast<const char *>(src);
		ginResult_t result;
		if (isDirect())
			result = sendDirect(from, bytes, coop, options);
		else
			result = sendNetwork(dc.self, box, context, peer, sharing, sent + 1, from,
					     bytes, coop, options.timeout);
		sent += result == ginSuccess;
		return result;
	}

	/*
	 * Receives the first `bytes` bytes of the next message, which has as many or more, into any
	 * memory of this rank. They are visible to the coop, and to nobody else before they have
	 * synchronised. ginErrorTimeout: the target may be written in part, and the message is
	 * still to be received. ginErrorPeer, ginErrorAborted.
	 */
	template <class Coop = GinThread> GIN_FN ginResult_t receive(void *dst, uint32_t bytes,
								     Coop coop = {},
								     ginOptions options = {})
	{
		char *to = static_cast<char *>(dst);
		ginResult_t result;
		if (isDirect())
			result = receiveDirect(to, bytes, coop, options);
		else
			result = receiveNetwork(dc.self, box, context, peer, sharing, received + 1,
						to, bytes, coop, options.timeout);
		received += result == ginSuccess;
		return result;
	}

private:
	const ginDevComm &dc;
	const ginPacketBox box;
	const uint32_t context, peer;
	const ginSharing sharing;
	char *const mine;   /* this rank's part of the box for the peer */
	char *const theirs; /* the peer's part of the box for this rank; NULL: not direct */
	uint32_t sent, received;
	uint32_t credited; /* a message that the peer has read; a later one may be read, too */

	GIN_FN bool isDirect() const
	{
		return routes & GIN_ROUTES_DIRECT &&
		       ginRouteTo<routes>(dc, static_cast<int>(peer)) == ginRouteDirect;
	}

	/* The offset in the window of byte `at` of the part for `rank`. */
	GIN_FN static size_t offsetOf(const ginPacketBox &box, uint32_t rank, size_t at)
	{
		return box.offset + rank * ginPacketPart(box.most) + at;
	}

	GIN_FN char *own(size_t at) const
	{
		return ginWindowAt(box.window, static_cast<int>(dc.rank)).address +
		       offsetOf(box, peer, at);
	}

	GIN_FN char *peerPart() const
	{
		char *part = ginWindowAt(box.window, static_cast<int>(peer)).address;
		return part ? part + offsetOf(box, dc.rank, 0) : nullptr;
	}

	GIN_FN uint32_t newestCredit() const
	{
		uint64_t both = ginCreditsObserve(ginPacketCredits(mine));
		uint32_t even = static_cast<uint32_t>(both),
			 odd = static_cast<uint32_t>(both >> 32);
		return static_cast<int32_t>(even - odd) > 0 ? even : odd;
	}

	/* Waits for the slot of message `number`: until the message before the last one is read. */
	GIN_FN ginResult_t awaitSlot(uint32_t number, uint64_t timeout)
	{
		const uint32_t least = number - 2;
		if (static_cast<int32_t>(credited - least) >= 0)
			return ginSuccess;
		ginResult_t result = ginPacketAwaitCredit(dc.self, mine, least, peer, timeout);
		if (result == ginSuccess)
			credited = least;
		return result;
	}

	template <class Coop> GIN_FN ginResult_t giveUp(Coop coop, uint32_t which, uint32_t was,
							uint32_t call, ginResult_t why,
							uint32_t expected) const
	{
		if (coop.thread_rank() == 0)
			ginPacketGiveUp(dc.self, ginPacketCounts(mine) + which, was, call, why,
					context, peer, expected);
		coop.sync(); /* the count is right again for all threads */
		return why;
	}

	/*
	 * Each thread looks for the credit. A thread that has seen it sends, and if the coop's vote
	 * finds that another thread has not seen it in time, that thread sends, too: either nothing
	 * or everything is sent.
	 */
	template <class Coop> GIN_FN ginResult_t sendDirect(const char *src, uint32_t bytes,
							    Coop coop, const ginOptions &options)
	{
		const uint32_t number = sent + 1;
		bool first = coop.thread_rank() == 0, owes = true;
		if (!theirs) /* `routes` leaves out the route to the peer */
			return ginErrorUnsupported;
		coop.sync(); /* what the coop wrote is what is sent */
		ginResult_t result = awaitSlot(number, options.timeout), agreed = ginSuccess;
		for (;;) {
			if (result == ginSuccess && owes) {
				ginPacketSend(theirs, box.most, src, bytes, number,
					      coop.thread_rank(), coop.size());
				owes = false;
				result = alive();
			}
			if (first)
				ginLocalStore(ginPacketCounts(mine), number);
			agreed = ginAgree(coop, result);
			if (agreed == ginSuccess)
				return ginSuccess;
			if (!coop.any(result == ginSuccess))
				return giveUp(coop, 0, sent, ginCallPacketsSend, agreed,
					      number - 2);
			result = ginSuccess;
		}
	}

	GIN_FN ginResult_t alive() const
	{
		if (ginPeerObserve(&dc.peers[peer]).state == ginPeerAlive)
			return ginSuccess;
		return ginPeerLost(&dc.abortLine->word);
	}

	/* Receives packets rank, rank + size, ... of the message. */
	GIN_FN ginResult_t take(char *dst, uint32_t bytes, uint32_t number, uint32_t rank,
				uint32_t size, uint64_t timeout) const
	{
		uint32_t next = ginPacketTake(mine, box.most, dst, bytes, number, rank, size);
		if (next == GIN_PACKETS_ALL)
			return ginSuccess;
		const uint64_t since = ginNow();
		while (next != GIN_PACKETS_ALL) {
			ginResult_t result = ginPacketAwait(dc.self, mine, box.most, number, next,
							    peer, timeout, since);
			if (result != ginSuccess)
				return result;
			next = ginPacketTake(mine, box.most, dst, bytes, number, next, size);
		}
		return ginSuccess;
	}

	template <class Coop> GIN_FN ginResult_t receiveDirect(char *dst, uint32_t bytes, Coop coop,
							       const ginOptions &options)
	{
		const uint32_t number = received + 1;
		bool first = coop.thread_rank() == 0;
		if (!theirs)
			return ginErrorUnsupported;
		coop.sync(); /* no thread of the coop still uses the overwritten bytes */
		credited = newestCredit(); /* for the next send: the load overlaps the wait */
		ginResult_t result =
			take(dst, bytes, number, coop.thread_rank(), coop.size(), options.timeout);
		if (first)
			ginLocalStore(ginPacketCounts(mine) + 1, number);
		result = ginAgree(coop, result);
		if (result != ginSuccess)
			return giveUp(coop, 1, received, ginCallPacketsReceive, result, number);
		if (first)
			ginCreditStore(ginPacketCredits(theirs) + (number & 1), number);
		return ginSuccess;
	}

	/* The id of the signal by which rank `by` counts the messages that it has sent. */
	GIN_FN static uint32_t sentId(const ginPacketBox &box, uint32_t by)
	{
		return box.signals + by;
	}

	/* The id of the signal by which rank `by` counts the messages that it has read. */
	GIN_FN static uint32_t readId(const ginPacketBox &box, uint32_t nRanks, uint32_t by)
	{
		return box.signals + nRanks + by;
	}

	/*
	 * By a put from this rank's own slot, which is free when the peer has read the message that
	 * used it. The shadow of the peer's signal counts messages of this device communicator.
	 */
	template <class Coop> GIN_FN_COLD static ginResult_t
	sendNetwork(const ginDevComm *self, ginPacketBox box, uint32_t context, uint32_t peer,
		    ginSharing sharing, uint32_t number, const char *src, uint32_t bytes, Coop coop,
		    uint64_t timeout)
	{
		const GinOn<routes> gin(*self, context, sharing);
		const uint32_t read = readId(box, self->nRanks, peer);
		const size_t from = offsetOf(box, peer, ginPacketStage(box.most, number));
		const size_t to = offsetOf(box, self->rank, ginPacketSlot(box.most, number));
		const uint64_t before = ginLocalLoad(gin.signalShadow(read));
		ginOptions options = ginTimeout(timeout);
		options.from = {peer, 1, 1};
		ginResult_t result = gin.waitSignal(read, before - 1, coop, options);
		if (result != ginSuccess)
			return result;
		char *at = ginWindowAt(box.window, static_cast<int>(self->rank)).address + from;
		ginCopy<4, 0>(at, src, bytes, coop.thread_rank(), coop.size(), [] { return true; });
		result = gin.put(static_cast<int>(peer), box.window, to, box.window, from, bytes,
				 GinSignalInc{sentId(box, self->rank)}, GinNone{}, coop, options);
		if (result == ginSuccess && coop.thread_rank() == 0) {
			ginLocalStore(gin.signalShadow(read), before + 1);
			ginLocalStore(countOf(*self, box, peer, 0), number);
		}
		coop.sync(); /* before a thread reads shadow and count again */
		return result;
	}

	template <class Coop> GIN_FN_COLD static ginResult_t
	receiveNetwork(const ginDevComm *self, ginPacketBox box, uint32_t context, uint32_t peer,
		       ginSharing sharing, uint32_t number, char *dst, uint32_t bytes, Coop coop,
		       uint64_t timeout)
	{
		const GinOn<routes> gin(*self, context, sharing);
		const uint32_t came = sentId(box, peer);
		const size_t slot = offsetOf(box, peer, ginPacketSlot(box.most, number));
		const uint64_t before = ginLocalLoad(gin.signalShadow(came));
		ginOptions options = ginTimeout(timeout);
		options.from = {peer, 1, 1};
		ginResult_t result = gin.waitSignal(came, before + 1, coop, options);
		if (result != ginSuccess)
			return result;
		char *at = ginWindowAt(box.window, static_cast<int>(self->rank)).address + slot;
		ginCopy<4, 0>(dst, at, bytes, coop.thread_rank(), coop.size(), [] { return true; });
		result = gin.signal(static_cast<int>(peer),
				    GinSignalInc{readId(box, self->nRanks, self->rank)}, coop,
				    options);
		if (result == ginSuccess && coop.thread_rank() == 0) {
			ginLocalStore(gin.signalShadow(came), before + 1);
			ginLocalStore(countOf(*self, box, peer, 1), number);
		}
		coop.sync(); /* before a thread reads shadow and count again */
		return result;
	}

	GIN_FN static uint64_t *countOf(const ginDevComm &dc, const ginPacketBox &box,
					uint32_t peer, uint32_t which)
	{
		char *window = ginWindowAt(box.window, static_cast<int>(dc.rank)).address;
		return ginPacketCounts(window + offsetOf(box, peer, 0)) + which;
	}
};

/* For every route. */
using GinPackets = GinPacketsOn<GIN_ROUTES_ALL>;

#endif
