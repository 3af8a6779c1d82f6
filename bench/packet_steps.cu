// SPDX-License-Identifier: BSD-3-Clause
// packet_steps - what each step of a message of GinPackets costs, beyond stores and polls
//
// Two GPUs of one process play ping-pong with messages: two_gpus.cuh. One line for each way to send
// and receive: nanoseconds one way. By hand, a message is packets.cuh's without the object: the
// first rows have the fewest steps, the following rows one step more, each by itself.
#include "two_gpus.cuh"

enum { MESSAGES = 4000, BOX = 4096, SOURCE = 512 << 10, TARGET = 768 << 10 };

// Steps of a message, beyond the stores of packets and the polls.
enum Step {
	stepSource = 1,	    // load the message from memory
	stepSourceL2 = 2,   // load it by volatile loads, which L1 does not serve
	stepTarget = 4,	    // store the message in memory
	stepCounts = 8,	    // store the number of messages in memory
	stepCredit = 16,    // tell the sender what was read
	stepVote = 32,	    // the coop votes after each call
	stepPeer = 64,	    // load the peer's state after the message
	stepFlight = 128,   // poll with four loads, of which a short message needs one
	stepFunctions = 256 // by the functions of packets.cuh, which are not inlined
};

// The part of the box at one rank for the other one.
struct MessagePlace {
	char *mine, *theirs, *source, *target;

	__device__ explicit MessagePlace(const PairSide &s)
	    : mine(s.mine + BOX + s.peer * ginPacketPart(GIN_PACKETS_MOST)),
	      theirs(s.theirs + BOX + s.dc.rank * ginPacketPart(GIN_PACKETS_MOST)),
	      source(s.mine + SOURCE), target(s.mine + TARGET)
	{
	}
};

// Messages by hand. A thread sends and receives `each` packets at most.
template <uint32_t steps, uint32_t each, class Coop> struct ByHand {
	const PairSide &side;
	MessagePlace at;
	uint32_t bytes;

	__device__ ByHand(const PairSide &s, uint32_t n) : side(s), at(s), bytes(n) {}

	__device__ ginResult_t send(uint32_t number)
	{
		Coop coop;
		if (steps & stepFunctions)
			ginPacketSend<ginFixedSize<Coop>(0)>(at.theirs, GIN_PACKETS_MOST, at.source,
							     bytes, number, coop.thread_rank(),
							     coop.size());
		else
			store(number, coop.thread_rank(), coop.size());
		if (steps & stepCounts && coop.thread_rank() == 0)
			ginLocalStore(ginPacketCounts(at.mine), number);
		return agree(steps & stepPeer ? alive() : ginSuccess);
	}

	__device__ ginResult_t receive(uint32_t number)
	{
		Coop coop;
		uint32_t next = GIN_PACKETS_ALL;
		if (steps & stepFunctions)
			while ((next = take(number, coop.thread_rank(), coop.size())) !=
			       GIN_PACKETS_ALL)
				;
		else
			poll(number, coop.thread_rank(), coop.size());
		if (steps & stepCounts && coop.thread_rank() == 0)
			ginLocalStore(ginPacketCounts(at.mine) + 1, number);
		ginResult_t result = agree(ginSuccess);
		if (steps & stepCredit && coop.thread_rank() == 0)
			ginCreditStore(ginPacketCredits(at.theirs) + (number & 1), number);
		return result;
	}

private:
	__device__ uint32_t take(uint32_t number, uint32_t rank, uint32_t size)
	{
		return ginPacketTake<ginFixedSize<Coop>(0)>(at.mine, GIN_PACKETS_MOST, at.target,
							    bytes, number, rank, rank, size,
							    ginPacketLanes(Coop{}));
	}

	__device__ ginResult_t alive() const
	{
		return ginPeerObserve(&side.dc.peers[side.peer]).state == ginPeerAlive
			       ? ginSuccess
			       : ginErrorPeer;
	}

	__device__ ginResult_t agree(ginResult_t mine) const
	{
		return steps & stepVote ? ginAgree(Coop{}, mine) : mine;
	}

	__device__ uint64_t load(const char *from, uint32_t number) const
	{
		uint64_t word = number;
		if (steps & stepSource)
			asm volatile("ld.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
		if (steps & stepSourceL2)
			word = ginDataLoad<uint64_t>(from);
		return word;
	}

	__device__ void store(uint32_t number, uint32_t rank, uint32_t size)
	{
		char *slot = at.theirs + ginPacketSlot(GIN_PACKETS_MOST, number);
		uint64_t word[each];
		for (uint32_t u = 0; u < each; u++)
			if ((rank + u * size) * 8 < bytes)
				word[u] = load(at.source + (rank + u * size) * 8, number);
		for (uint32_t u = 0; u < each; u++)
			if ((rank + u * size) * 8 < bytes)
				ginPacketStore(slot + (rank + u * size) * 16, word[u], number);
	}

	__device__ void poll(uint32_t number, uint32_t rank, uint32_t size)
	{
		const char *slot = at.mine + ginPacketSlot(GIN_PACKETS_MOST, number) + rank * 16;
		constexpr uint32_t loads = steps & stepFlight ? 4 : each;
		ginWord16 seen[loads];
		bool all = rank * 8 >= bytes;
		while (!all) {
			all = true;
			for (uint32_t u = 0; u < loads; u++)
				seen[u] = ginPollPair(slot +
						      (has(u, rank, size) ? u * size * 16 : 0));
			for (uint32_t u = 0; u < loads; u++)
				all &= ginPacketIs(seen[u], number);
		}
		for (uint32_t u = 0; steps & stepTarget && u < loads; u++)
			if (has(u, rank, size))
				*reinterpret_cast<uint64_t *>(at.target + (rank + u * size) * 8) =
					ginPacketData(seen[u]);
	}

	__device__ bool has(uint32_t u, uint32_t rank, uint32_t size) const
	{
		return (rank + u * size) * 8 < bytes;
	}
};

// By the object.
template <uint32_t routes, class Coop> struct ByObject {
	MessagePlace at;
	GinPacketsOn<routes> packets;
	uint32_t bytes;

	__device__ ByObject(const PairSide &s, uint32_t n)
	    : at(s), packets(s.dc, 0, {s.window, BOX, GIN_PACKETS_MOST, 0}, s.peer), bytes(n)
	{
	}

	__device__ ginResult_t send(uint32_t) { return packets.send(at.source, bytes, Coop{}); }
	__device__ ginResult_t receive(uint32_t)
	{
		return packets.receive(at.target, bytes, Coop{});
	}
};

template <class Turns> __global__ void __launch_bounds__(512, 1)
	messagePingPong(const __grid_constant__ PairSide side, uint32_t bytes)
{
	Turns turns(side, bytes);
	pingPong(side, turns, MESSAGES);
}

struct PacketRig : TwoGpus {
	uint32_t bytes = 8, threads = 32;

	template <class Turns> void row(const char *what)
	{
		char name[80];
		snprintf(name, sizeof(name), "%5u B, %3u threads: %s", bytes, threads, what);
		measure(
			name,
			[this](const PairSide &side) {
				messagePingPong<Turns><<<1, threads>>>(side, bytes);
			},
			MESSAGES);
	}

	// Rows of every size.
	template <uint32_t each, class Coop> void ends(uint32_t b, uint32_t t)
	{
		bytes = b, threads = t;
		row<ByHand<0, each, Coop>>("stores and polls (limit)");
		row<ByHand<stepSource | stepTarget, each, Coop>>("from and to memory (limit)");
		row<ByHand<stepSource | stepTarget | stepVote, each, Coop>>("also vote");
		row<ByHand<stepSourceL2 | stepTarget | stepVote, each, Coop>>(
			"also load the source from L2");
		row<ByObject<GIN_ROUTES_DIRECT, Coop>>("GinPacketsOn<GIN_ROUTES_DIRECT>");
		row<ByObject<GIN_ROUTES_ALL, Coop>>("GinPackets");
	}
};

// Of the short message.
static void steps(PacketRig &rig)
{
	rig.row<ByHand<stepSource, 1, GinWarp>>("also load the source");
	rig.row<ByHand<stepSourceL2, 1, GinWarp>>("also load the source from L2");
	rig.row<ByHand<stepTarget, 1, GinWarp>>("also store at the target");
	rig.row<ByHand<stepCounts, 1, GinWarp>>("also store the counts");
	rig.row<ByHand<stepCredit, 1, GinWarp>>("also store the credit");
	rig.row<ByHand<stepVote, 1, GinWarp>>("also vote");
	rig.row<ByHand<stepVote | stepPeer, 1, GinWarp>>("also vote and look at the peer");
	rig.row<ByHand<stepFlight, 1, GinWarp>>("polls of four loads");
	rig.row<ByHand<stepFunctions, 1, GinWarp>>("by ginPacketSend and ginPacketTake");
	rig.row<ByHand<stepFunctions | stepVote | stepPeer | stepCounts | stepCredit, 1, GinWarp>>(
		"and with all other steps");
}

int main()
{
	PacketRig rig;

	rig.ends<1, GinThread>(8, 1);
	rig.ends<1, GinWarp>(8, 32);
	steps(rig);
	rig.ends<4, GinWarp>(1024, 32);
	rig.ends<16, GinWarp>(4096, 32);
	rig.ends<1, GinCta>(8, 512);
	rig.ends<1, GinCta>(1024, 512);
	rig.ends<1, GinCta>(4096, 512);
	return 0;
}
