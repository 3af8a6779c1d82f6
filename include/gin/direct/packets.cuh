/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packets.cuh - the packets of a message on the direct route, and a box's layout
 *
 * Called by class GinPacketsOn (gin/packets.cuh). On the direct route a message goes as packets of
 * 16 bytes: two words, each with 4 bytes of data and the low 32 bits of the message's number as its
 * flag. A word of 8 bytes arrives whole, so the flag tells that its 4 bytes have come: the sender
 * needs no release, the receiver no acquire. The packets are twice as long as the message.
 *
 * A box has a part for each peer, `room` being the length of the longest message:
 *
 *	0		credits of the peer: two words of 4 bytes, by the number's lowest bit
 *	32		messages sent, messages received: words of 8 bytes, of this rank alone
 *	128		two slots of 2 x room bytes, which the peer writes
 *	128 + 4 x room	two slots of room bytes: sources of puts
 */
#ifndef GIN_DIRECT_PACKETS_CUH
#define GIN_DIRECT_PACKETS_CUH

#include "../core/coop.cuh"
#include "copy.cuh"
#include "../core/wait.cuh"

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

/* Do both words of a packet, as ginPacketStore() writes them, have the message's number? */
GIN_FN bool ginPacketIs(const struct ginWord16 &words, uint32_t number)
{
	return static_cast<uint32_t>(words.half[0] >> 32) == number &&
	       static_cast<uint32_t>(words.half[1] >> 32) == number;
}

/* The 8 bytes of a packet. */
GIN_FN uint64_t ginPacketData(const struct ginWord16 &words)
{
	return (words.half[0] & 0xffffffffu) | words.half[1] << 32;
}

/* Has the packet of the message come? If so, *data has its 8 bytes. Loads at each call. */
GIN_FN bool ginPacketLoad(const char *packet, uint32_t number, uint64_t *data)
{
	struct ginWord16 words = ginPollPair(packet);
	*data = ginPacketData(words);
	return ginPacketIs(words, number);
}

/* Bytes 8 i to 8 i + 7 of a message of `bytes` bytes; zeros after its end. */
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
 * Sends packets i, i + size, ... of any message.
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

/*
 * Packets that a thread sends, and receives, at once in a message of many packets for each thread.
 * `fixed`: the coop's size if it is a constant. `few`: the kernel is for direct peers alone. More
 * packets exceed the limits of bench/registers/run.
 */
GIN_FN constexpr uint32_t ginPacketsSent(uint32_t fixed, bool few)
{
	return fixed ? 8 : few ? 2 : 4;
}

GIN_FN constexpr uint32_t ginPacketsTaken(uint32_t fixed, bool few)
{
	return fixed ? few ? 4 : 8 : 2;
}

/* The most packets of each thread in a message that a coop within a warp sends without a call. */
#define GIN_PACKETS_EACH 4u

/*
 * Packets that a thread receives at once near the end of a message, where some may be past its end.
 */
GIN_FN constexpr uint32_t ginPacketsTakenLast(uint32_t fixed, bool few)
{
	return fixed && !few ? GIN_PACKETS_EACH : 2;
}

/* How often a thread looks for a packet before it reads the clock: some 30 us. */
#define GIN_PACKETS_LOOKS 200u

/*
 * The lanes of this thread's warp that call a function of the coop together, as a mask; 0: unknown.
 * They poll together, so that no branch parts them.
 */
template <class Coop> GIN_FN uint32_t ginPacketLanes(Coop)
{
	return 0;
}

GIN_FN uint32_t ginPacketLanes(GinLanes lanes)
{
	return lanes.mask;
}

GIN_FN uint32_t ginPacketLanes(GinWarp)
{
	return UINT32_MAX;
}

GIN_FN uint32_t ginPacketLanes(GinWarpSpan)
{
	return UINT32_MAX;
}

/* The last warp of a block may have fewer lanes. */
GIN_FN uint32_t ginPacketLanes(GinCta)
{
	const uint32_t rest = ginBlockSize() - (ginThreadIndex() & ~31u);

	return rest < 32 ? (1u << rest) - 1 : UINT32_MAX;
}

/* Is `mine` true on one of the lanes? Without lanes: on this thread? */
GIN_FN bool ginPacketAny(uint32_t lanes, bool mine)
{
#if GIN_ON_GPU
	if (lanes)
		return __any_sync(lanes, mine);
#else
	(void)lanes;
#endif
	return mine;
}

/*
 * Sends the packets of the bytes at `src` and 1, 2, ... steps further, of `left` bytes; `whole`:
 * there are `flight` packets. Loads without a branch, because with branches they would go one by
 * one: the first word replaces words after the message. Plain loads: L1 may serve them.
 */
template <uint32_t flight, bool whole> GIN_FN void
ginPacketSendFlight(char *slot, const char *src, uint32_t left, uint32_t number, uint32_t step)
{
	uint64_t word[flight];
	for (uint32_t u = 0; u < flight; u++)
		memcpy(&word[u],
		       __builtin_assume_aligned(src + (whole || u * step < left ? u * step : 0), 8),
		       8);
	for (uint32_t u = 0; u < flight; u++)
		if (whole || u * step < left)
			ginPacketStore(slot + 2 * u * step, word[u], number);
}

/*
 * Sends packets `rank`, rank + size, ...: whole packets of an aligned source quickly. `fixed`:
 * `size` if it is a constant, otherwise 0.
 */
template <uint32_t fixed, bool few>
GIN_FN_COLD void ginPacketSend(char *part, uint32_t most, const char *src, uint32_t bytes,
			       uint32_t number, uint32_t rank, uint32_t size)
{
	constexpr uint32_t flight = ginPacketsSent(fixed, few);
	const uint32_t step = 8 * (fixed ? fixed : size);
	char *slot = part + ginPacketSlot(most, number);
	uint32_t at = 0;
	if (ginPacketSweeps(number))
		ginPacketSweep(slot, bytes, ginPacketRoom(most), number, rank, size);
	if (ginMisalignment(src, 8) | bytes % 8 || !bytes)
		return ginPacketSendAny(slot, src, bytes, number, rank, size);
	slot += 16 * rank;
	src += 8 * rank;
	GIN_NO_UNROLL
	for (; at + flight * step <= bytes; at += flight * step)
		ginPacketSendFlight<flight, true>(slot + 2 * at, src + at, 0, number, step);
	GIN_NO_UNROLL
	for (; at + 8 * rank < bytes; at += GIN_PACKETS_EACH * step)
		ginPacketSendFlight<GIN_PACKETS_EACH, false>(slot + 2 * at, src + at,
							     bytes - at - 8 * rank, number, step);
}

/* Does the message have whole packets, at most `most` of them, from or to aligned memory? */
GIN_FN bool ginPacketIsShort(const void *at, uint32_t bytes, uint32_t most)
{
	return !(ginMisalignment(at, 8) | bytes % 8) && bytes - 1 < 8 * most;
}

/* The most packets of each thread in a message that the coop sends and receives without a call. */
template <class Coop> GIN_FN constexpr uint32_t ginPacketsEach()
{
	constexpr uint32_t size = ginFixedSize<Coop>(0);
	return size && size <= 32 ? GIN_PACKETS_EACH : 1;
}

/* Sends a short message. */
template <class Coop> GIN_FN void ginPacketSendShort(char *slot, const char *src, uint32_t bytes,
						     uint32_t number, Coop coop)
{
	const uint32_t step = 8 * ginUnshared(coop.size());
	const uint32_t first = 8 * ginUnshared(coop.thread_rank());
	if (first >= bytes)
		return;
	if (ginPacketsEach<Coop>() == 1 || bytes <= step)
		ginPacketSendFlight<1, true>(slot + 2 * first, src + first, 0, number, step);
	else
		ginPacketSendFlight<GIN_PACKETS_EACH, false>(slot + 2 * first, src + first,
							     bytes - first, number, step);
}

/* The functions below return it when all packets were received. */
#define GIN_PACKETS_ALL UINT32_MAX

/*
 * Receives packets i, i + size, ... of a message into any target. Returns the first packet that
 * does not come soon, or GIN_PACKETS_ALL.
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

/*
 * Receives packets as ginPacketSendFlight() sends them; false: a packet of this thread, or of
 * another of the `lanes`, does not come soon. Polls all packets together, and stores nothing before
 * all have come: with fewer instructions between the loads the thread sees the last packet earlier.
 * A thread without packets passes any packet of the message, and `left` 0.
 */
template <uint32_t flight, bool whole>
GIN_FN bool ginPacketTakeFlight(const char *packet, char *dst, uint32_t left, uint32_t number,
				uint32_t step, uint32_t lanes)
{
	struct ginWord16 seen[flight] = {};
	bool has = whole || left, missing = ginPacketAny(lanes, has);
	GIN_NO_UNROLL
	for (uint32_t looks = 0; missing && looks < GIN_PACKETS_LOOKS; looks++) {
		bool all = true;
		/* Without a branch, as above. */
		for (uint32_t u = 0; u < flight; u++)
			seen[u] =
				ginPollPair(packet + (whole || u * step < left ? 2 * u * step : 0));
		for (uint32_t u = 0; u < flight; u++)
			all &= ginPacketIs(seen[u], number);
		missing = ginPacketAny(lanes, has && !all);
		if (missing)
			ginYield();
	}
	for (uint32_t u = 0; u < flight; u++) {
		uint64_t word = ginPacketData(seen[u]);
		if (!missing && (whole || u * step < left))
			memcpy(__builtin_assume_aligned(dst + u * step, 8), &word, 8);
	}
	return !missing;
}

/* Receives a short message; false: not all packets come soon. */
template <class Coop> GIN_FN bool ginPacketTakeShort(const char *slot, char *dst, uint32_t bytes,
						     uint32_t number, Coop coop)
{
	const uint32_t step = 8 * ginUnshared(coop.size());
	const uint32_t first = 8 * ginUnshared(coop.thread_rank());
	const uint32_t left = first < bytes ? bytes - first : 0, at = left ? first : 0;
	const uint32_t lanes = ginPacketLanes(coop);
	if (ginPacketsEach<Coop>() == 1 || bytes <= step)
		return ginPacketTakeFlight<1, false>(slot + 2 * at, dst + at, left, number, step,
						     lanes);
	return ginPacketTakeFlight<GIN_PACKETS_EACH, false>(slot + 2 * at, dst + at, left, number,
							    step, lanes);
}

/*
 * As ginPacketTakeAny, from packet i, which is `rank` or rank + a multiple of size: whole packets
 * into an aligned target quickly. `fixed`: `size` if it is a constant, otherwise 0. `lanes`:
 * as ginPacketLanes(), if all of them have i = rank.
 */
template <uint32_t fixed, bool few>
GIN_FN_COLD uint32_t ginPacketTake(const char *part, uint32_t most, char *dst, uint32_t bytes,
				   uint32_t number, uint32_t i, uint32_t rank, uint32_t size,
				   uint32_t lanes)
{
	constexpr uint32_t flight = ginPacketsTaken(fixed, few);
	constexpr uint32_t last = ginPacketsTakenLast(fixed, few);
	const uint32_t step = 8 * (fixed ? fixed : size);
	const char *slot = part + ginPacketSlot(most, number);
	uint32_t at = 8 * (i - rank);
	bool soon = !(ginMisalignment(dst, 8) | bytes % 8) && bytes;
	if (!soon)
		return ginPacketTakeAny(slot, dst, bytes, number, i, size);
	GIN_NO_UNROLL
	while (soon && at + flight * step <= bytes) {
		const uint32_t first = at + 8 * rank;
		soon = ginPacketTakeFlight<flight, true>(slot + 2 * first, dst + first, 0, number,
							 step, lanes);
		at += soon ? flight * step : 0;
	}
	GIN_NO_UNROLL
	while (soon && at < bytes) {
		const uint32_t first = at + 8 * rank, left = first < bytes ? bytes - first : 0;
		soon = ginPacketTakeFlight<last, false>(slot + (left ? 2 * first : 0), dst + first,
							left, number, step, lanes);
		at += soon ? last * step : 0;
	}
	return soon ? GIN_PACKETS_ALL
		    : ginPacketTakeAny(slot, dst, bytes, number, at / 8 + rank, size);
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

/* The options for the rest of a wait for `peer` that began at `since`. */
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

#endif
