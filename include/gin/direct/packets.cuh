/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * packets.cuh - the packets of a message on the direct route, and a box's layout
 *
 * Called by class GinPacketsOn (gin/packets.cuh). On the direct route a message goes as packets of 16
 * bytes: two words, each with 4 bytes of data and the low 32 bits of the message's number as its flag.
 * A word of 8 bytes arrives whole, so the flag tells that its 4 bytes have come: the sender needs no
 * release, the receiver no acquire. The packets are twice as long as the message.
 *
 * A box has a part for each peer, `room` being the length of the longest message:
 *
 *	0		credits of the peer: two words of 4 bytes, by the number's lowest bit
 *	32		messages sent, messages received: words of 8 bytes, of this rank alone
 *	128		two slots of 2 x room bytes, which the peer writes
 *	128 + 4 x room	two slots of room bytes: what is sent by a put
 */
#ifndef GIN_DIRECT_PACKETS_CUH
#define GIN_DIRECT_PACKETS_CUH

#include "../coop.cuh"
#include "copy.cuh"
#include "../detail/wait.cuh"

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

/* Packets whose bytes a thread loads before it sends them; packets that it polls together. */
#define GIN_PACKETS_AHEAD 4u
#define GIN_PACKETS_FLIGHT 4u

/* How often a thread looks for a packet before it looks at the clock: some 30 us. */
#define GIN_PACKETS_LOOKS 200u

/*
 * Sends the packets of the bytes at `src` and 1, 2, ... steps further, of `left` bytes. Loads without
 * a branch, or they would go one by one: the first word replaces words after the message. Plain
 * loads: L1 may serve them.
 */
template <uint32_t flight> GIN_FN void
ginPacketSendFlight(char *slot, const char *src, uint32_t left, uint32_t number, uint32_t step)
{
	uint64_t word[flight];
	for (uint32_t u = 0; u < flight; u++)
		memcpy(&word[u],
		       __builtin_assume_aligned(src + (u * step < left ? u * step : 0), 8), 8);
	for (uint32_t u = 0; u < flight; u++)
		if (u * step < left)
			ginPacketStore(slot + 2 * u * step, word[u], number);
}

/* Sends packet i of an aligned source. */
GIN_FN void ginPacketSendOne(char *slot, const char *src, uint32_t number, uint32_t i)
{
	ginPacketSendFlight<1>(slot + 16 * i, src + 8 * i, 8, number, 8);
}

/* Sends packets i, i + size, ...: whole ones of an aligned source quickly. */
GIN_FN_COLD void ginPacketSend(char *part, uint32_t most, const char *src, uint32_t bytes,
			       uint32_t number, uint32_t i, uint32_t size)
{
	char *slot = part + ginPacketSlot(most, number);
	const uint32_t step = 8 * size;
	if (ginPacketSweeps(number))
		ginPacketSweep(slot, bytes, ginPacketRoom(most), number, i, size);
	if (ginMisalignment(src, 8) | bytes % 8 || !bytes)
		return ginPacketSendAny(slot, src, bytes, number, i, size);
	if (bytes <= step) {
		if (8 * i < bytes)
			ginPacketSendOne(slot, src, number, i);
		return;
	}
	GIN_NO_UNROLL
	for (uint32_t at = 8 * i; at < bytes; at += GIN_PACKETS_AHEAD * step)
		ginPacketSendFlight<GIN_PACKETS_AHEAD>(slot + 2 * at, src + at, bytes - at, number,
						       step);
}

/* Is any() of the coop a sync, too? */
template <class Coop> GIN_FN constexpr auto ginVoteIsSync(int) -> decltype(Coop::anyIsSync)
{
	return Coop::anyIsSync;
}

template <class Coop> GIN_FN constexpr bool ginVoteIsSync(long)
{
	return false;
}

/* Is a message short: whole packets, at most one for each thread, from or to aligned memory? */
GIN_FN bool ginPacketIsShort(const void *at, uint32_t bytes, uint32_t size)
{
	return !(ginMisalignment(at, 8) | bytes % 8) && bytes - 1 < 8 * size;
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

/*
 * Receives packets as ginPacketSendFlight() sends them; false: not all of them come soon. Polls all
 * packets together, and stores nothing before all have come: the fewer instructions between the loads,
 * the earlier the thread sees the last packet.
 */
template <uint32_t flight> GIN_FN bool
ginPacketTakeFlight(const char *slot, char *dst, uint32_t left, uint32_t number, uint32_t step)
{
	struct ginWord16 seen[flight];
	bool all = false;
	GIN_NO_UNROLL
	for (uint32_t looks = 0; !all && looks < GIN_PACKETS_LOOKS; looks++) {
		all = true;
		/* Without a branch, as above. */
		for (uint32_t u = 0; u < flight; u++)
			seen[u] = ginPollPair(slot + (u * step < left ? 2 * u * step : 0));
		for (uint32_t u = 0; u < flight; u++)
			all &= ginPacketIs(seen[u], number);
		if (!all)
			ginYield();
	}
	for (uint32_t u = 0; u < flight; u++) {
		uint64_t word = ginPacketData(seen[u]);
		if (all && u * step < left)
			memcpy(__builtin_assume_aligned(dst + u * step, 8), &word, 8);
	}
	return all;
}

/* Receives packet i into an aligned target; false: it does not come soon. */
GIN_FN bool ginPacketTakeOne(const char *slot, char *dst, uint32_t number, uint32_t i)
{
	return ginPacketTakeFlight<1>(slot + 16 * i, dst + 8 * i, 8, number, 8);
}

/* As ginPacketTakeAny: whole packets into an aligned target quickly. */
GIN_FN_COLD uint32_t ginPacketTake(const char *part, uint32_t most, char *dst, uint32_t bytes,
				   uint32_t number, uint32_t i, uint32_t size)
{
	const char *slot = part + ginPacketSlot(most, number);
	const uint32_t step = 8 * size;
	if (ginMisalignment(dst, 8) | bytes % 8 || !bytes)
		return ginPacketTakeAny(slot, dst, bytes, number, i, size);
	if (bytes <= step) {
		bool mine = 8 * i < bytes;
		return !mine || ginPacketTakeOne(slot, dst, number, i) ? GIN_PACKETS_ALL : i;
	}
	GIN_NO_UNROLL
	for (uint32_t at = 8 * i; at < bytes; at += GIN_PACKETS_FLIGHT * step)
		if (!ginPacketTakeFlight<GIN_PACKETS_FLIGHT>(slot + 2 * at, dst + at, bytes - at,
							     number, step))
			return ginPacketTakeAny(slot, dst, bytes, number, at / 8, size);
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

#endif
