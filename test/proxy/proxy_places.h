/* SPDX-License-Identifier: BSD-3-Clause */
/* proxy_places.h - fills places of 32 bytes through the proxy in every way, and checks them */
#ifndef GIN_TEST_PROXY_PLACES_H
#define GIN_TEST_PROXY_PLACES_H

#include "suite.h"

/* How the bytes of a place arrive; the ways alternate from place to place. */
enum Way {
	asValue = 8, /* below: values of several sizes */
	withSignal = 8,
	withWeakSignal,
	byPut,
	byPutAndSignal,
	byGet,
	byAtomic,
	asLongValue,
	byAddress,
	WAYS
};

enum { PLACE = 32 };

struct Place {
	unsigned char byte[PLACE];
};

/* Every byte of a place depends on sender, round and place. */
GIN_FN Place placeOf(uint32_t sender, uint32_t round, uint64_t place)
{
	Place out;
	uint64_t x = place * 0x9e3779b97f4a7c15ull +
		     (sender * 0x10001ull + round) * 0x2545f4914f6cdd1dull;
	for (int i = 0; i < PLACE; i += 8) {
		x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull + static_cast<uint64_t>(i);
		memcpy(out.byte + i, &x, 8);
	}
	return out;
}

GIN_FN uint32_t valueBytes(uint64_t place)
{
	return 0x08201f1408070401ull >> (place % 8 * 8) & 0xff;
}

/* The number of bytes that are written at the target; the rest is poison. */
GIN_FN uint32_t bytesAtTarget(uint64_t place)
{
	switch (place % WAYS) {
	case withSignal:
	case withWeakSignal:
		return 8;
	case byPutAndSignal:
		return 24;
	case byGet:
	case byAtomic:
		return 0;
	case byPut:
	case asLongValue:
	case byAddress:
		return PLACE;
	}
	return valueBytes(place);
}

/* Puts from memory send the bytes of round 0 always: the source is not written again. */
GIN_FN uint32_t roundAtTarget(uint64_t place, uint32_t round)
{
	uint64_t way = place % WAYS;
	return way == byPut || way == byPutAndSignal || way == byAddress ? 0 : round;
}

template <uint32_t n> struct Head {
	unsigned char byte[n];
};

struct Windows {
	ginWindow_t target, source, got, words;
	char *targetAt, *sourceAt, *gotAt;
};

/* All threads post all places of a round; at the end each waits for its own posts. */
struct PostRound {
	ginDevComm dc;
	Windows at;
	uint64_t places;
	uint32_t round;
	uint64_t *results;

	template <uint32_t n, class Remote>
	GIN_FN ginResult_t head(const Gin &gin, uint64_t place, Remote remote) const
	{
		Place all = placeOf(dc.rank, round, place);
		Head<n> value;
		memcpy(value.byte, all.byte, n);
		return gin.putValue(rightOf(dc), at.target, place * PLACE, value, remote);
	}

	GIN_FN ginResult_t value(const Gin &gin, uint64_t place) const
	{
		switch (valueBytes(place)) {
		case 1:
			return head<1>(gin, place, GinNone{});
		case 4:
			return head<4>(gin, place, GinNone{});
		case 7:
			return head<7>(gin, place, GinNone{});
		case 8:
			return head<8>(gin, place, GinNone{});
		case 20:
			return head<20>(gin, place, GinNone{});
		case 31:
			return head<31>(gin, place, GinNone{});
		}
		return head<32>(gin, place, GinNone{});
	}

	GIN_FN ginResult_t other(const Gin &gin, uint64_t place) const
	{
		int to = rightOf(dc);
		size_t off = place * PLACE;
		switch (place % WAYS) {
		case withSignal:
			return head<8>(gin, place, GinSignalInc{0});
		case withWeakSignal:
			return head<8>(gin, place, GinWeakSignalAdd{0, 2});
		case byPut:
			return gin.put(to, at.target, off, at.source, off, PLACE, GinNone{},
				       GinCounterInc{0});
		case byPutAndSignal:
			return gin.put(to, at.target, off, at.source, off, 24, GinSignalInc{0},
				       GinCounterInc{0});
		case byGet:
			return gin.get(to, at.source, off, at.got, off, PLACE);
		case byAtomic:
			return gin.atomicFetchAdd(to, at.words, 0, place);
		case byAddress:
			return gin.putFrom(to, at.target, off, at.sourceAt + off, PLACE);
		}
		return head<PLACE>(gin, place, GinNone{});
	}

	GIN_FN void operator()() const
	{
		uint64_t thread = ginBlockIndex() * ginBlockSize() + ginThreadIndex();
		uint64_t threads = static_cast<uint64_t>(ginGridSize()) * ginBlockSize();
		Gin gin(dc, 0, threads == 1 ? ginSharingThread : ginSharingGpu);
		ginResult_t result = ginSuccess;
		for (uint64_t p = thread; p < places && result == ginSuccess; p += threads)
			result = p % WAYS < asValue ? value(gin, p) : other(gin, p);
		if (result == ginSuccess)
			result = gin.wait(gin.flushAsync(rightOf(dc)));
		results[thread] = result;
	}
};

/* Counts wrong bytes. */
struct CountWrong {
	ginDevComm dc;
	Windows at;
	uint64_t places;
	uint32_t round;
	uint64_t *wrong;

	GIN_FN uint64_t compare(const char *seen, const Place &expected, uint32_t bytes) const
	{
		uint64_t n = 0;
		for (uint32_t i = 0; i < PLACE; i++)
			n += static_cast<unsigned char>(seen[i]) !=
			     (i < bytes ? expected.byte[i] : 0x5a);
		return n;
	}

	GIN_FN void operator()() const
	{
		uint64_t thread = ginBlockIndex() * ginBlockSize() + ginThreadIndex(), n = 0;
		uint64_t threads = static_cast<uint64_t>(ginGridSize()) * ginBlockSize();
		uint32_t left = static_cast<uint32_t>(leftOf(dc));
		uint32_t right = static_cast<uint32_t>(rightOf(dc));
		for (uint64_t p = thread; p < places; p += threads) {
			n += compare(at.targetAt + p * PLACE,
				     placeOf(left, roundAtTarget(p, round), p), bytesAtTarget(p));
			n += compare(at.gotAt + p * PLACE, placeOf(right, 0, p),
				     p % WAYS == byGet ? static_cast<uint32_t>(PLACE) : 0);
		}
		wrong[thread] = n;
	}
};

/* The sums of all rounds, by one thread: counter, signal, and the word of the atomics. */
struct ReadSums {
	ginDevComm dc;
	ginWindow_t words;
	uint64_t *values;

	GIN_FN void operator()() const
	{
		Gin gin(dc, 0);
		values[0] = gin.flush();
		values[1] = gin.readCounter(0);
		values[2] = gin.readSignal(0);
		values[3] = gin.readSignal(words, 0);
	}
};

/* In these tests the program itself drives the proxy. */
inline bool isCallerDriven()
{
	return numberOr("GIN_PROXY_THREADS", 1) == 0;
}

#endif
