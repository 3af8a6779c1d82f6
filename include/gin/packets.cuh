/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packets.cuh - short messages between two ranks, in one trip
 *
 * On the direct route a message is packets that carry their own flags (direct/packets.cuh), on the
 * network routes a put with a signal.
 *
 * Messages alternate between two slots. Credits inform the sender of the messages that the receiver
 * has read; the sender waits for the credit of the message that used the slot before.
 */
#ifndef GIN_PACKETS_CUH
#define GIN_PACKETS_CUH

#include "context.cuh"
#include "direct/packets.cuh"

/* The longest message that a box can have. */
#define GIN_PACKETS_MOST 16384u

/*
 * The memory of messages: bytes `offset` to offset + ginPacketBoxBytes() of a window, a multiple of
 * 16 and zero on all ranks before the first message; and the signals `signals` to signals + 2
 * nRanks - 1 of the context. Equal on all ranks.
 */
struct ginPacketBox {
	ginWindow_t window;
	size_t offset;
	uint32_t most; /* the longest message in bytes, up to GIN_PACKETS_MOST */
	uint32_t signals;
};

/* Bytes of a box in the window. */
GIN_FN constexpr size_t ginPacketBoxBytes(uint32_t nRanks, uint32_t most)
{
	return nRanks * ginPacketPart(most);
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

/* Copies a message to or from the slot of a network route. */
GIN_FN_COLD void ginPacketCopy(char *dst, const char *src, uint32_t bytes, uint32_t rank,
			       uint32_t size)
{
	ginCopy<4, 0>(dst, src, bytes, rank, size, [] { return true; });
}

/* The offset in the window of byte `at` of the part for `rank`. */
GIN_FN size_t ginPacketOffset(const ginPacketBox &box, uint32_t rank, size_t at)
{
	return box.offset + rank * ginPacketPart(box.most) + at;
}

/* The id of the signal by which rank `by` counts the messages that it has sent. */
GIN_FN uint32_t ginPacketSentId(const ginPacketBox &box, uint32_t by)
{
	return box.signals + by;
}

/* The id of the signal by which rank `by` counts the messages that it has read. */
GIN_FN uint32_t ginPacketReadId(const ginPacketBox &box, uint32_t nRanks, uint32_t by)
{
	return box.signals + nRanks + by;
}

/*
 * Counts message `number` on a network route as sent (`which` is 0) or received (1): in the shadow
 * of the signal for which the call waited, and in the box.
 */
template <uint32_t routes>
GIN_FN_COLD void ginPacketCount(const ginDevComm *dc, ginCold<ginPacketBox> box, uint32_t context,
				uint32_t peer, uint32_t which, uint32_t number)
{
	const GinOn<routes, ginChecks, false> gin(*dc, context);
	uint64_t *shadow = gin.signalShadow(which ? ginPacketSentId(box, peer)
						  : ginPacketReadId(box, dc->nRanks, peer));
	char *window = ginWindowAt(box.window, static_cast<int>(dc->rank)).address;

	ginLocalStore(shadow, ginLocalLoad(shadow) + 1);
	ginLocalStore(ginPacketCounts(window + ginPacketOffset(box, peer, 0)) + which, number);
}

/*
 * Messages to and from one peer through a box, which belongs to one device communicator. All
 * threads of a coop make a GinPackets and call it; they may send and receive by one object, or one
 * coop sends and another coop receives, each by an object of its own. The object counts messages:
 * while it is in use, no other object may send, or receive, with this peer on this box.
 *
 * Messages arrive in order. At most two messages are not received yet: the third send() waits.
 * `routes` as for GinOn.
 */
template <uint32_t routes, bool checks = ginChecks, bool traces = ginTraces> class GinPacketsOn
{
public:
	GIN_FN GinPacketsOn(const ginDevComm &devComm, uint32_t contextIndex,
			    const ginPacketBox &packetBox, int peerRank,
			    ginSharing contextSharing = ginSharingGpu)
	    : dc(devComm), box(packetBox), context(contextIndex),
	      peer(static_cast<uint32_t>(peerRank)), sharing(contextSharing),
	      mine(isValid() ? own(0) : nullptr),
	      theirs(isValid() && isDirect() ? peerPart() : nullptr), sent(count(0)),
	      received(count(1)), credited(isValid() ? newestCredit() : 0)
	{
	}

	/*
	 * Sends `bytes` bytes from any memory of this rank, 0 to box.most. The caller may overwrite
	 * them after the call. ginErrorTimeout: the peer has not received the message before the
	 * last one, or a ring or send queue stayed full; nothing is sent. ginErrorPeer: the message
	 * may have been sent. ginErrorAborted.
	 */
	template <class Coop = GinThread> GIN_FN ginResult_t send(const void *src, uint32_t bytes,
								  Coop coop = {},
								  ginOptions options = {})
	{
		const char *from = static_cast<const char *>(src);
		ginResult_t result = check(coop, ginCallPacketsSend, bytes);
		if (result != ginSuccess)
			return result;
		if (theirs && isQuick(src, bytes, coop) && sendQuickly(from, bytes, coop))
			result = ginSuccess;
		else if (isDirect())
			result = sendDirect(from, bytes, coop, options);
		else
			result = sendNetwork(from, bytes, coop, options.timeout);
		sent += result == ginSuccess;
		return result;
	}

	/*
	 * Receives the first `bytes` bytes of the next message, which is not shorter, into any
	 * memory of this rank. They are visible to the coop, and to other threads after they
	 * synchronise with it. ginErrorTimeout: the target may be written in part, and the message
	 * is still to be received. ginErrorPeer, ginErrorAborted.
	 */
	template <class Coop = GinThread> GIN_FN ginResult_t receive(void *dst, uint32_t bytes,
								     Coop coop = {},
								     ginOptions options = {})
	{
		char *to = static_cast<char *>(dst);
		ginResult_t result = check(coop, ginCallPacketsReceive, bytes);
		if (result != ginSuccess)
			return result;
		if (theirs && isQuick(dst, bytes, coop) && receiveQuickly(to, bytes, coop))
			result = ginSuccess;
		else if (isDirect())
			result = receiveDirect(to, bytes, coop, options);
		else
			result = counted(coop, 1, received + 1,
					 receiveNetwork<Coop>(received + 1, to, bytes, coop,
							      options.timeout));
		received += result == ginSuccess;
		return result;
	}

protected: /* of the traced class, too */
	/* Routes of the calls to a peer that is not direct: they need no code for direct peers. */
	static constexpr uint32_t posts =
		routes & GIN_ROUTES_NETWORK ? routes & GIN_ROUTES_NETWORK : routes;

	/* Few packets at once: ginPacketsSent(), ginPacketsTaken(). */
	static constexpr bool few = routes == GIN_ROUTES_DIRECT;

	const ginDevComm &dc;
	const ginPacketBox box;
	const uint32_t context, peer;
	const ginSharing sharing;
	char *const mine;   /* this rank's part of the box for the peer */
	char *const theirs; /* the peer's part of the box for this rank; NULL: not direct */
	uint32_t sent, received;
	uint32_t credited; /* a message that the peer has read; maybe not the newest one */

	GIN_FN void list(ginArguments &a) const
	{
		const int rank = static_cast<int>(peer);
		const size_t bytes = ginPacketBoxBytes(dc.nRanks, box.most);
		a.below(ginArgumentContext, context, dc.contexts);
		a.peer(rank);
		a.below(ginArgumentMost, box.most, GIN_PACKETS_MOST + 1);
		a.own(ginArgumentBox, box.window, box.offset, bytes, 16);
		a.bytes(ginArgumentBox, box.window, rank, box.offset, bytes, 16);
		a.below(ginArgumentSignals, box.signals,
			dc.signals < 2 * dc.nRanks ? 0 : dc.signals - 2 * dc.nRanks + 1);
	}

	/*
	 * With -DGIN_DEVICE_CHECKS: checks the arguments that the constructor reads. Otherwise
	 * true.
	 */
	GIN_FN bool isValid() const
	{
		if constexpr (!checks)
			return true;
		ginArguments arguments(dc);
		if (ginDevCommLives(dc))
			list(arguments);
		else
			arguments.refuse(ginArgumentNone, ginFaultGone, 0, 0);
		return !arguments.wrong();
	}

	template <class Coop>
	GIN_FN ginResult_t check(Coop coop, uint32_t call, uint32_t bytes) const
	{
		if constexpr (!checks)
			return ginSuccess;
		else
			return ginCheckCall(dc, coop, call, context, static_cast<int>(peer),
					    [&](ginArguments &a) {
						    list(a);
						    a.below(ginArgumentLength, bytes, box.most + 1);
					    });
	}

	/* 0: the messages sent so far; 1: received. */
	GIN_FN uint32_t count(uint32_t which) const
	{
		return isValid()
			       ? static_cast<uint32_t>(ginLocalLoad(ginPacketCounts(mine) + which))
			       : 0;
	}

	GIN_FN bool isDirect() const
	{
		return routes & GIN_ROUTES_DIRECT &&
		       ginRouteTo<routes>(dc, static_cast<int>(peer)) == ginRouteDirect;
	}

	GIN_FN char *own(size_t at) const
	{
		return ginWindowAt(box.window, static_cast<int>(dc.rank)).address +
		       ginPacketOffset(box, peer, at);
	}

	GIN_FN char *peerPart() const
	{
		char *part = ginWindowAt(box.window, static_cast<int>(peer)).address;
		return part ? part + ginPacketOffset(box, dc.rank, 0) : nullptr;
	}

	GIN_FN uint32_t newestCredit() const
	{
		uint64_t both = ginCreditsObserve(ginPacketCredits(mine));
		uint32_t even = static_cast<uint32_t>(both),
			 odd = static_cast<uint32_t>(both >> 32);
		return static_cast<int32_t>(even - odd) > 0 ? even : odd;
	}

	/*
	 * Has the peer not read the message before message number - 1, as far as this thread knows?
	 */
	GIN_FN bool owesCredit(uint32_t number) const
	{
		return static_cast<int32_t>(credited - (number - 2)) < 0;
	}

	/* Waits for the slot of message `number`: until the message before the last one is read. */
	GIN_FN ginResult_t awaitSlot(uint32_t number, uint64_t timeout)
	{
		const uint32_t least = number - 2;
		if (!owesCredit(number))
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
	 * Is the message short? Then the instructions of a call cost more than the packets. A vote
	 * that is a sync is cheap, and keeps the lanes of a warp together.
	 */
	template <class Coop> GIN_FN static bool isQuick(const void *at, uint32_t bytes, Coop coop)
	{
		return ginVoteIsSync<Coop>(0) &&
		       ginPacketIsShort(at, bytes, ginPacketsEach<Coop>() * coop.size());
	}

	/* False: nothing is sent, or the peer is lost. */
	template <class Coop>
	GIN_FN bool sendQuickly(const char *src, uint32_t bytes, Coop coop) const
	{
		const uint32_t number = sent + 1;
		/* The vote is a sync, too: what the coop wrote is what is sent. */
		if (coop.any(owesCredit(number) || ginPacketSweeps(number)))
			return false;
		ginPacketSendShort(theirs + ginPacketSlot(box.most, number), src, bytes, number,
				   coop);
		const bool lost = alive() != ginSuccess;
		if (coop.thread_rank() == 0)
			ginLocalStore(ginPacketCounts(mine), number);
		return coop.any(!lost);
	}

	/* False: not all packets come soon. */
	template <class Coop> GIN_FN bool receiveQuickly(char *dst, uint32_t bytes, Coop coop)
	{
		const uint32_t number = received + 1;
		bool first = coop.thread_rank() == 0;
		coop.sync(); /* no thread of the coop still uses the overwritten bytes */
		credited = newestCredit(); /* for the next send: the load overlaps the wait */
		bool soon = ginPacketTakeShort(mine + ginPacketSlot(box.most, number), dst, bytes,
					       number, coop);
		if (first)
			ginLocalStore(ginPacketCounts(mine) + 1, number);
		/* The vote is a sync, too: every thread has stored its bytes. */
		if (coop.any(!soon))
			return false;
		if (first)
			ginCreditStore(ginPacketCredits(theirs) + (number & 1), number);
		return true;
	}

	/* Each thread looks for the credit, and sends its packets if it has seen it. */
	template <class Coop> GIN_FN ginResult_t sendDirect(const char *src, uint32_t bytes,
							    Coop coop, const ginOptions &options)
	{
		const uint32_t number = sent + 1;
		if (!theirs) /* `routes` leaves out the route to the peer */
			return ginErrorUnsupported;
		coop.sync(); /* what the coop wrote is what is sent */
		ginResult_t result = awaitSlot(number, options.timeout);
		const bool owes = result != ginSuccess;
		if (!owes) {
			sendPackets(src, bytes, number, coop);
			result = alive();
		}
		if (coop.thread_rank() == 0)
			ginLocalStore(ginPacketCounts(mine), number);
		ginResult_t agreed = ginAgree(coop, result);
		if (agreed == ginSuccess)
			return ginSuccess;
		if (!coop.any(result == ginSuccess))
			return giveUp(coop, 0, sent, ginCallPacketsSend, agreed, number - 2);
		/*
		 * Another thread has seen the credit and has sent: either nothing or everything is.
		 */
		if (owes)
			sendPackets(src, bytes, number, coop);
		coop.sync();
		return ginSuccess;
	}

	/* Sends the calling thread's packets of the message. */
	template <class Coop>
	GIN_FN void sendPackets(const char *src, uint32_t bytes, uint32_t number, Coop coop) const
	{
		ginPacketSend<ginFixedSize<Coop>(0), few>(theirs, box.most, src, bytes, number,
							  coop.thread_rank(), coop.size());
	}

	GIN_FN ginResult_t alive() const
	{
		if (ginPeerObserve(&dc.peers[peer]).state == ginPeerAlive)
			return ginSuccess;
		return ginPeerLost(&dc.abortLine->word);
	}

	/* Receives the calling thread's packets of the message. */
	template <class Coop> GIN_FN ginResult_t take(char *dst, uint32_t bytes, uint32_t number,
						      Coop coop, uint64_t timeout) const
	{
		constexpr uint32_t fixed = ginFixedSize<Coop>(0);
		const uint32_t rank = coop.thread_rank(), size = coop.size();
		uint32_t next = ginPacketTake<fixed, few>(mine, box.most, dst, bytes, number, rank,
							  rank, size, ginPacketLanes(coop));
		if (next == GIN_PACKETS_ALL)
			return ginSuccess;
		const uint64_t since = ginNow();
		while (next != GIN_PACKETS_ALL) {
			ginResult_t result = ginPacketAwait(dc.self, mine, box.most, number, next,
							    peer, timeout, since);
			if (result != ginSuccess)
				return result;
			/* The lanes may have come here at different times. */
			next = ginPacketTake<fixed, few>(mine, box.most, dst, bytes, number, next,
							 rank, size, 0);
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
		ginResult_t result = take(dst, bytes, number, coop, options.timeout);
		if (first)
			ginLocalStore(ginPacketCounts(mine) + 1, number);
		result = ginAgree(coop, result);
		if (result != ginSuccess)
			return giveUp(coop, 1, received, ginCallPacketsReceive, result, number);
		if (first)
			ginCreditStore(ginPacketCredits(theirs) + (number & 1), number);
		return ginSuccess;
	}

	/* Counts a message; `result`: of sending or receiving it. */
	template <class Coop> GIN_FN ginResult_t counted(Coop coop, uint32_t which, uint32_t number,
							 ginResult_t result) const
	{
		if (result == ginSuccess && coop.thread_rank() == 0)
			ginPacketCount<routes>(dc.self, box, context, peer, which, number);
		coop.sync(); /* before a thread reads shadow and count again */
		return result;
	}

	template <class Coop> GIN_FN ginResult_t sendNetwork(const char *src, uint32_t bytes,
							     Coop coop, uint64_t timeout) const
	{
		const uint32_t number = sent + 1;
		ginResult_t result = stageNetwork<Coop>(number, src, bytes, coop, timeout);
		if (result == ginSuccess)
			result = putNetwork<Coop>(number, bytes, coop, timeout);
		return counted(coop, 0, number, result);
	}

	/*
	 * Sends by a put from this rank's own slot, which is free when the peer has read the
	 * message that used it. The shadow of the peer's signal counts messages of this device
	 * communicator.
	 */
	template <class Coop> GIN_FN ginResult_t stageNetwork(uint32_t number, const char *src,
							      uint32_t bytes, Coop coop,
							      uint64_t timeout) const
	{
		const GinOn<posts, ginChecks, false> gin(dc, context, sharing);
		const uint32_t read = ginPacketReadId(box, dc.nRanks, peer);
		const uint64_t before = ginLocalLoad(gin.signalShadow(read));
		ginOptions options = ginTimeout(timeout);
		options.from = {peer, 1, 1};
		ginResult_t result = gin.waitSignal(read, before - 1, coop, options);
		if (result != ginSuccess)
			return result;
		char *at = own(ginPacketStage(box.most, number));
		ginPacketCopy(at, src, bytes, coop.thread_rank(), coop.size());
		return ginSuccess;
	}

	/* Puts message `number` from this rank's own slot. */
	template <class Coop> GIN_FN ginResult_t putNetwork(uint32_t number, uint32_t bytes,
							    Coop coop, uint64_t timeout) const
	{
		const GinOn<posts, ginChecks, false> gin(dc, context, sharing);
		const size_t from = ginPacketOffset(box, peer, ginPacketStage(box.most, number));
		const size_t to = ginPacketOffset(box, dc.rank, ginPacketSlot(box.most, number));
		return gin.put(static_cast<int>(peer), box.window, to, box.window, from, bytes,
			       GinSignalInc{ginPacketSentId(box, dc.rank)}, GinNone{}, coop,
			       ginTimeout(timeout));
	}

	template <class Coop> GIN_FN ginResult_t receiveNetwork(uint32_t number, char *dst,
								uint32_t bytes, Coop coop,
								uint64_t timeout) const
	{
		const GinOn<posts, ginChecks, false> gin(dc, context, sharing);
		const uint32_t came = ginPacketSentId(box, peer);
		const size_t slot = ginPacketSlot(box.most, number);
		const uint64_t before = ginLocalLoad(gin.signalShadow(came));
		ginOptions options = ginTimeout(timeout);
		options.from = {peer, 1, 1};
		ginResult_t result = gin.waitSignal(came, before + 1, coop, options);
		if (result != ginSuccess)
			return result;
		char *at = own(slot);
		ginPacketCopy(dst, at, bytes, coop.thread_rank(), coop.size());
		return gin.signal(static_cast<int>(peer),
				  GinSignalInc{ginPacketReadId(box, dc.nRanks, dc.rank)}, coop,
				  options);
	}
};

/* For every route. */
using GinPackets = GinPacketsOn<GIN_ROUTES_ALL>;

#endif
