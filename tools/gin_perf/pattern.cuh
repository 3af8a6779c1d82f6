// SPDX-License-Identifier: BSD-3-Clause
// pattern.cuh - the bytes that are sent, and the comparison of the bytes received
//
// Each rank has one window: target slots first, then sources. A message has `bytes` bytes, with a
// guard before and after it. Each sender has `slots` slots at its target, and `variants` sources
// with different bytes. Message k goes from variant k % variants to slot k % slots. Before a
// launch, targets and their guards are filled with poison; after it, they are compared. The guards
// of sources have other bytes, which a copy of too many bytes leaves in a target's guard.
#ifndef GIN_PERF_PATTERN_CUH
#define GIN_PERF_PATTERN_CUH

#include "launch.cuh"

enum { GUARD = 64 };
static const uint64_t poison = 0x5a5a5a5a5a5a5a5aull;

struct BufferLayout {
	uint64_t bytes;
	uint64_t stride;   // from one message to the next, with guards
	uint32_t lanes;	   // number of peers that memory is provided for: 1, or all ranks
	uint32_t slots;	   // per lane
	uint32_t variants; // per lane
	uint64_t sources;  // offset of the first source

	BufferLayout() = default;

	BufferLayout(uint64_t bytes_, uint32_t lanes_, uint32_t slots_, uint32_t variants_)
	    : bytes(bytes_), stride((bytes_ + 63) / 64 * 64 + 2 * GUARD), lanes(lanes_),
	      slots(slots_), variants(variants_), sources(stride * lanes_ * slots_)
	{
	}

	GIN_FN uint64_t total() const { return sources + stride * lanes * variants; }

	GIN_FN uint64_t target(uint32_t lane, uint32_t slot) const
	{
		return (static_cast<uint64_t>(lane) * slots + slot) * stride + GUARD;
	}

	GIN_FN uint64_t source(uint32_t lane, uint32_t variant) const
	{
		return sources + (static_cast<uint64_t>(lane) * variants + variant) * stride +
		       GUARD;
	}

	GIN_FN uint32_t lane(int rank) const
	{
		return lanes == 1 ? 0 : static_cast<uint32_t>(rank);
	}
};

// Slot and variant of message k, without a division.
struct Cursor {
	uint32_t slot = 0, variant = 0;

	GIN_FN void next(const BufferLayout &layout)
	{
		slot = slot + 1 == layout.slots ? 0 : slot + 1;
		variant = variant + 1 == layout.variants ? 0 : variant + 1;
	}
};

// splitmix64
GIN_FN uint64_t patternMix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15ull;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

// `run` differs for each launch and seed.
GIN_FN uint64_t patternKey(uint64_t run, int from, int to, uint32_t variant)
{
	uint64_t ranks = static_cast<uint64_t>(from) << 32 | static_cast<uint32_t>(to);
	return patternMix(patternMix(run ^ patternMix(ranks)) + variant);
}

// The eight bytes at offset 8 * index of a message.
GIN_FN uint64_t patternWord(uint64_t key, uint64_t index)
{
	return patternMix(key + index);
}

// The messages of one launch, as one rank sees them.
struct Traffic {
	BufferLayout layout;
	uint64_t run;
	int me;
	int partner;	  // the peer, with one lane
	bool receives;	  // with one lane: this rank receives from the partner
	bool self;	  // with several lanes: each rank sends to itself too
	uint32_t written; // messages per lane

	GIN_FN int rankOf(uint32_t lane) const
	{
		return layout.lanes == 1 ? partner : static_cast<int>(lane);
	}

	GIN_FN bool arrives(uint32_t lane) const
	{
		return layout.lanes == 1 ? receives : self || static_cast<int>(lane) != me;
	}
};

// Calls word(offset) for each 8-byte word; all threads of the launch share the words.
template <class Word> GIN_FN void eachWord(uint64_t bytes, Word word)
{
	uint64_t step = static_cast<uint64_t>(ginGridSize()) * ginBlockSize() * 8;
	uint64_t at =
		(static_cast<uint64_t>(ginBlockIndex()) * ginBlockSize() + ginThreadIndex()) * 8;
	for (; at < bytes; at += step)
		word(at);
}

struct PutWord {
	char *window;
	const Traffic &traffic;

	GIN_FN void operator()(uint64_t at) const { ginDataStore<uint64_t>(window + at, word(at)); }

private:
	GIN_FN uint64_t word(uint64_t at) const
	{
		const BufferLayout &layout = traffic.layout;
		uint64_t region = at / layout.stride, in = at - region * layout.stride;
		if (at < layout.sources)
			return poison;
		if (in < GUARD || in >= GUARD + layout.bytes)
			return ~poison; // seen in a target's guard, where it is not poison
		region -= layout.lanes * static_cast<uint64_t>(layout.slots);
		uint32_t lane = static_cast<uint32_t>(region / layout.variants);
		uint32_t variant = static_cast<uint32_t>(region % layout.variants);
		uint64_t key = patternKey(traffic.run, traffic.me, traffic.rankOf(lane), variant);
		return patternWord(key, (in - GUARD) / 8);
	}
};

// Fills targets and their guards with poison, writes the sources and clears the signals.
template <class Endpoint> struct Fill {
	static constexpr uint32_t mostThreads = 256;
	Shared shared;
	Endpoint endpoint;
	Traffic traffic;
	char *window;

	GIN_FN void operator()() const
	{
		if (ginBlockIndex() == 0 && ginThreadIndex() == 0)
			endpoint.clearSignals();
		eachWord(traffic.layout.total(), PutWord{window, traffic});
	}
};

// The wrong bytes that one thread found.
struct Finding {
	uint64_t bytes; // number of wrong bytes
	uint64_t at;	// offset of the first wrong word in the window
	uint64_t expected, seen;
};

struct CompareWord {
	const char *window;
	const Traffic &traffic;
	Finding &finding;

	GIN_FN void operator()(uint64_t at) const
	{
		uint64_t wanted = expected(at), seen = ginDataLoad<uint64_t>(window + at);
		if (wanted == seen)
			return;
		if (!finding.bytes) {
			finding.at = at;
			finding.expected = wanted;
			finding.seen = seen;
		}
		for (uint64_t differ = wanted ^ seen; differ; differ >>= 8)
			finding.bytes += (differ & 0xff) != 0;
	}

private:
	// The word that the last message to this slot left; poison outside messages.
	GIN_FN uint64_t expected(uint64_t at) const
	{
		const BufferLayout &layout = traffic.layout;
		uint64_t region = at / layout.stride, in = at - region * layout.stride;
		uint32_t lane = static_cast<uint32_t>(region / layout.slots);
		uint32_t slot = static_cast<uint32_t>(region % layout.slots);
		if (in < GUARD || in >= GUARD + layout.bytes || slot >= traffic.written ||
		    !traffic.arrives(lane))
			return poison;
		uint32_t laps = (traffic.written - 1 - slot) / layout.slots;
		uint32_t variant = (slot + laps * layout.slots) % layout.variants;
		uint64_t key = patternKey(traffic.run, traffic.rankOf(lane), traffic.me, variant);
		uint64_t word = patternWord(key, (in - GUARD) / 8),
			 left = GUARD + layout.bytes - in;
		uint64_t mask = left >= 8 ? UINT64_MAX : (1ull << 8 * left) - 1;
		return (word & mask) | (poison & ~mask);
	}
};

// Compares all targets: messages, guards, and slots that no message used.
struct Compare {
	static constexpr uint32_t mostThreads = 256;
	Shared shared;
	Traffic traffic;
	const char *window;
	Finding *findings; // one per thread

	GIN_FN void operator()() const
	{
		Finding finding = {};
		eachWord(traffic.layout.sources, CompareWord{window, traffic, finding});
		findings[ginBlockIndex() * ginBlockSize() + ginThreadIndex()] = finding;
	}
};

#endif
