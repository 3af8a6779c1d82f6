/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * send_queues - many work requests through send queues that threads share, every byte is checked
 *
 *	WQES=n		about how many; LIMIT_S=n: it is an error when they take longer
 *
 * and what send_rig.h has. Each thread makes posts of one to three: values, sums, bytes from
 * patterns, NOPs. This program does the same to an image of the window; after each piece of the
 * work the two are compared.
 */
#include "mlx5_encoders.h"
#include "send_rig.h"

enum { NUMBERS = 8, COUNTERS = 64, PATTERNS = 64, PATTERN_BYTES = 128, PLACES = 2 };

/* Where things are in the window. */
enum {
	COUNTERS_AT = 0,
	PATTERNS_AT = COUNTERS * 8,
	POSTERS_AT = PATTERNS_AT + PATTERNS * PATTERN_BYTES,
	POSTER_BYTES = NUMBERS * 8 + 32 + PLACES * PATTERN_BYTES
};

enum Kind { NUMBER, NOTHING, SUM, BYTES };

/* One work request of poster p's n-th post. */
struct Request {
	Kind kind;
	uint64_t to, value, from;
	uint32_t bytes;
};

GIN_FN uint64_t posterAt(uint64_t poster)
{
	return POSTERS_AT + poster * POSTER_BYTES;
}

/* 32 bytes inline, two WQEBBs, and a NOP. */
GIN_FN bool isLong(uint64_t n)
{
	return n % 16 == 5;
}

/* The threads of a warp that are there post as one. */
GIN_FN bool isTogether(uint64_t n)
{
	return n % 8 == 7;
}

GIN_FN uint32_t wqesOf(uint64_t poster, uint64_t n)
{
	if (isLong(n))
		return 3;
	return isTogether(n) ? 1
			     : 1 + static_cast<uint32_t>((poster * 7 + n * 2654435761u) >> 8) % 3;
}

GIN_FN bool heldBack(uint64_t poster, uint64_t n)
{
	return (poster + n) % 5 == 0;
}

GIN_FN Request requestOf(uint64_t poster, uint64_t n, uint32_t i)
{
	uint64_t number = posterAt(poster), turn = n + i;
	uint64_t bytes = number + NUMBERS * 8 + 32 + (n >> 2) % PLACES * PATTERN_BYTES;

	switch ((poster + turn * 5 + (n >> 3)) % 4) {
	case 0:
		return {NUMBER, number + turn % NUMBERS * 8, n << 8 | i, 0, 8};
	case 1:
		return {NOTHING, 0, 0, 0, 0};
	case 2:
		return {SUM, COUNTERS_AT + (poster + turn) % COUNTERS * 8, turn % 1000 + 1, 0, 8};
	default:
		return {BYTES, bytes, 0,
			PATTERNS_AT + (poster + n * 3 + i) % PATTERNS * PATTERN_BYTES,
			1 + static_cast<uint32_t>(n * 7 + i * 13) % PATTERN_BYTES};
	}
}

GIN_FN ginMlx5Wqebb encode(const Request &r, ginMlx5Slot slot, const ginSendQueue *q, uint32_t key)
{
	const ginMlx5Memory there = {r.to, key}, here = {r.from, key};

	switch (r.kind) {
	case NUMBER:
		return ginMlx5WriteInline8(slot, there, r.value);
	case SUM:
		return ginMlx5FetchAdd(slot, there, {q->fixed.sink, q->fixed.sinkKey}, r.value);
	case BYTES:
		return ginMlx5Write(slot, there, here, r.bytes);
	default:
		return ginMlx5Nop(slot);
	}
}

/* The operations on the image, by this program. */
static void applyTo(const Request &r, std::vector<uint8_t> &image)
{
	uint64_t value;

	switch (r.kind) {
	case NUMBER:
		memcpy(&image[r.to], &r.value, 8);
		break;
	case SUM:
		memcpy(&value, &image[r.to], 8);
		value += r.value;
		memcpy(&image[r.to], &value, 8);
		break;
	case BYTES:
		memcpy(&image[r.to], &image[r.from], r.bytes);
		break;
	default:
		break;
	}
}

GIN_FN void longValue(uint64_t poster, uint64_t n, uint32_t value[8])
{
	for (uint32_t i = 0; i < 8; i++)
		value[i] = static_cast<uint32_t>(poster * 31 + n * 8 + i);
}

/* Lanes of a warp that run together; a host thread is alone. */
struct Lanes {
	uint32_t mask, count, rank;

	static GIN_FN Lanes here()
	{
#if GIN_ON_GPU
		uint32_t mask = __activemask(), below = mask & ((1u << ginLane()) - 1);
		return {mask, static_cast<uint32_t>(__popc(mask)),
			static_cast<uint32_t>(__popc(below))};
#else
		return {0, 1, 0};
#endif
	}

	GIN_FN uint64_t fromLeader(uint64_t value) const
	{
#if GIN_ON_GPU
		return __shfl_sync(mask, value, __ffs(static_cast<int>(mask)) - 1);
#else
		return value;
#endif
	}

	GIN_FN void sync() const
	{
#if GIN_ON_GPU
		__syncwarp(mask);
#endif
	}
};

struct PostMany {
	Posters posters;
	uint64_t first, posts; /* of each thread */

	GIN_FN ginResult_t claim(ginSendQueue *q, ginSendRange *range) const
	{
		ginSendPatience poll = posters.poll();
		return ginSendReserveWait(q, range, poll, posters.sharing);
	}

	GIN_FN void writeLong(ginSendQueue *q, const ginSendRange &range, uint64_t n) const
	{
		uint64_t poster = posters.self();
		uint32_t value[8];

		longValue(poster, n, value);
		ginMlx5TwoWqebbs two = ginMlx5WriteInline32(
			ginSendSlot(q->fixed, range, 0),
			{posterAt(poster) + NUMBERS * 8, ginMlx5Key(posters.key)}, value);
		ginMlx5StoreWqebb(ginSendWqebb(q->fixed, range.first), two.wqebb[0]);
		ginMlx5StoreWqebb(ginSendWqebb(q->fixed, range.first + 1), two.wqebb[1]);
		ginMlx5StoreWqebb(ginSendWqebb(q->fixed, range.first + 2),
				  ginMlx5Nop(ginSendSlot(q->fixed, range, 2)));
	}

	GIN_FN void write(ginSendQueue *q, const ginSendRange &range, uint32_t at, uint64_t n,
			  uint32_t i) const
	{
		ginMlx5StoreWqebb(ginSendWqebb(q->fixed, range.first + at),
				  encode(requestOf(posters.self(), n, i),
					 ginSendSlot(q->fixed, range, at), q,
					 ginMlx5Key(posters.key)));
	}

	GIN_FN ginResult_t post(ginSendQueue *q, uint64_t n) const
	{
		ginSendRange range = {0, wqesOf(posters.self(), n)};
		ginResult_t result = claim(q, &range);

		if (result != ginSuccess)
			return result;
		for (uint32_t i = 0; i < range.count && !isLong(n); i++)
			write(q, range, i, n, i);
		if (isLong(n))
			writeLong(q, range, n);
		ginSendHandOver(q, q->fixed, range, heldBack(posters.self(), n), posters.sharing);
		return ginSuccess;
	}

	GIN_FN ginResult_t postTogether(ginSendQueue *q, uint64_t n) const
	{
		Lanes lanes = Lanes::here();
		ginSendRange range = {0, lanes.count};
		ginResult_t result = lanes.rank == 0 ? claim(q, &range) : ginSuccess;

		result = static_cast<ginResult_t>(lanes.fromLeader(result));
		range.first = lanes.fromLeader(range.first);
		if (result != ginSuccess)
			return result;
		write(q, range, lanes.rank, n, 0);
		lanes.sync();
		if (lanes.rank == 0)
			ginSendHandOver(q, q->fixed, range, false, posters.sharing);
		return ginSuccess;
	}

	GIN_FN void operator()() const
	{
		ginSendQueue *q = posters.queue();
		bool alone = posters.sharing == ginSharingThread;
		ginResult_t result = ginSuccess;

		for (uint64_t n = first; n < first + posts && result == ginSuccess; n++)
			result = isTogether(n) && !alone ? postTogether(q, n) : post(q, n);
		if (result != ginSuccess)
			countBad(posters.bad, result);
	}
};

/* How many work requests the posts from `first` on are; the image is as after them. */
static uint64_t replay(uint32_t posters, uint64_t first, uint64_t posts,
		       std::vector<uint8_t> &image)
{
	uint64_t count = 0;

	for (uint64_t poster = 0; poster < posters; poster++)
		for (uint64_t n = first; n < first + posts; n++) {
			uint32_t value[8];

			longValue(poster, n, value);
			if (isLong(n))
				memcpy(&image[posterAt(poster) + NUMBERS * 8], value, 32);
			for (uint32_t i = 0; i < wqesOf(poster, n) && !isLong(n); i++)
				applyTo(requestOf(poster, n, i), image);
			count += isLong(n) ? 2 : wqesOf(poster, n);
		}
	return count;
}

/* But for where old values go. */
static void expectSame(const SendRig &rig, const std::vector<uint8_t> &image)
{
	std::vector<uint8_t> seen = rig.image();

	for (size_t i = 0; i < image.size() - 8; i++) {
		if (seen[i] == image[i])
			continue;
		fprintf(stderr,
			"byte %zu of the window (posters from %d on, %d each) is 0x%02x, not "
			"0x%02x\n",
			i, POSTERS_AT, POSTER_BYTES, seen[i], image[i]);
		_exit(1);
	}
}

/* All reserved WQEs are done, nothing failed, and the turn is in the slot after the last one. */
static uint64_t expectQuiet(const SendRig &rig)
{
	uint64_t wqebbs = 0;

	for (uint32_t i = 0; i < rig.nQueues; i++) {
		ginSendQueue q = rig.look(i);
		EXPECT(!q.latched && q.done == q.reserved && q.handed == q.reserved);
		EXPECT(q.rung == q.reserved);
		wqebbs += q.reserved;
	}
	return wqebbs;
}

static void fillPatterns(const SendRig &rig, std::vector<uint8_t> &image)
{
	for (uint32_t i = 0; i < PATTERNS * PATTERN_BYTES; i++)
		image[PATTERNS_AT + i] = static_cast<uint8_t>(i * 37 + i / PATTERN_BYTES);
	copyBytes(rig.window, image.data(), image.size());
}

static void say(const SendRig &rig, const char *how, uint64_t count, uint64_t nanoseconds)
{
	printf("%s%llu work requests by %u threads of %s, %u queues of %u in %s memory, %.1f s, "
	       "%.3f M/s\n",
	       how, static_cast<unsigned long long>(count), rig.threads(),
	       ON_GPU ? "a GPU" : "the host", rig.nQueues, 1u << rig.logDepth,
	       settingIs("MEMORY", "gpu") ? "GPU" : "host", static_cast<double>(nanoseconds) / 1e9,
	       static_cast<double>(count) * 1e3 / static_cast<double>(nanoseconds));
	fflush(stdout);
}

/* One piece of the work; how long it took. */
static uint64_t postPiece(const SendRig &rig, uint64_t first, uint64_t posts)
{
	uint64_t start = ginHostNow();

	launch(rig.grid, rig.block, PostMany{rig.posters(), first, posts});
	for (ginResult_t result : rig.finish())
		EXPECT(result == ginSuccess);
	return ginHostNow() - start;
}

int main()
{
	bool onGpu = settingIs("MEMORY", "gpu");
	SendRig rig(ON_GPU ? 132 : 3, ON_GPU ? 32 : 2, ON_GPU ? 4 : 2, ON_GPU ? 12 : 6);
	uint64_t wanted = numberOr("WQES", onGpu ? 100000 : 1000000),
		 limit = numberOr("LIMIT_S", 280);
	uint64_t posts = wanted / 2 / rig.threads() + 1, count = 0, took = 0, said = 0;
	uint64_t piece = (onGpu ? 50000 : 1000000) / rig.threads() + 1;

	rig.open(posterAt(rig.threads()));
	std::vector<uint8_t> image(rig.windowBytes);
	fillPatterns(rig, image);
	for (uint64_t n = 0; n < posts; n += piece) {
		uint64_t now = posts - n < piece ? posts - n : piece;

		took += postPiece(rig, n, now);
		count += replay(rig.threads(), n, now, image);
		expectSame(rig, image);
		if (took - said > 20000000000) {
			say(rig, "so far ", count, took);
			said = took;
		}
		if (took > limit * 1000000000) {
			say(rig, "only ", count, took);
			return 1;
		}
	}
	say(rig, "", count, took);
	printf("%llu WQEBBs: no violation, every byte right\n",
	       static_cast<unsigned long long>(expectQuiet(rig)));
	return 0;
}
