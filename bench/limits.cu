// SPDX-License-Identifier: BSD-3-Clause
// limits - the operations of gin_perf by the fewest instructions that keep the order
//
// No library is involved in the loop: addresses are known, nothing is looked up, and waits cannot
// be aborted. So the difference to gin_perf is the cost of the library. Options are those of
// gin_perf(1):
//   put_lat, put_bw     each thread stores 16 bytes several times in a row; with --scratch, one
//                       thread of the coop makes bulk copies
//   signal_lat          red.release; with --weak, red.relaxed
// For one or two ranks. libgin only provides the memory.
#include "tools/gin_perf/gin_job.cuh"
#include "tools/gin_perf/ranks.h"
#include "tools/gin_perf/session.cuh"

// Number of polls after which a wait times out.
static const uint32_t mostLooks = 1u << 28;

// Smaller scratch memory is not used.
[[maybe_unused]] static const uint32_t leastScratch = 2048;

#if GIN_ON_GPU && __CUDA_ARCH__ >= 900
#define HAS_BULK 1
#else
#define HAS_BULK 0
#endif

// Words that a thread has in flight. In a large CTA, a thread has few registers.
template <class Coop> GIN_FN constexpr uint32_t wordsInFlight(Coop)
{
	return 16;
}
GIN_FN constexpr uint32_t wordsInFlight(GinCta)
{
	return 4;
}

#if GIN_ON_GPU
// Copies 16-byte words; each thread has `inFlight` of them in flight.
template <uint32_t inFlight>
GIN_FN void copyWords(char *dst, const char *src, uint32_t words, uint32_t rank, uint32_t size)
{
	uint32_t i = rank;
	GIN_NO_UNROLL
	for (; i + (inFlight - 1) * size < words; i += inFlight * size) {
		ginWord16 word[inFlight];
		for (uint32_t u = 0; u < inFlight; u++)
			word[u] = ginDataLoad<ginWord16>(src + (i + u * size) * 16ull);
		for (uint32_t u = 0; u < inFlight; u++)
			ginDataStore<ginWord16>(dst + (i + u * size) * 16ull, word[u]);
	}
	GIN_NO_UNROLL
	for (; i < words; i += size)
		ginDataStore<ginWord16>(dst + i * 16ull, ginDataLoad<ginWord16>(src + i * 16ull));
}
#endif

#if HAS_BULK
// One thread copies chunks through shared memory, with one mbarrier per chunk in flight. The
// scratch memory starts with the mbarriers and their phases.
class Bulk
{
public:
	GIN_FN explicit Bulk(Scratch scratch)
	    : bars(reinterpret_cast<uint64_t *>(scratch.at)),
	      phases(reinterpret_cast<uint32_t *>(scratch.at + 64)), room(scratch.at + HEAD),
	      count(scratch.bytes >= 96 << 10 ? 6 : 4),
	      chunk((scratch.bytes - HEAD) / count / 128 * 128)
	{
	}

	GIN_FN void start() const
	{
		for (uint32_t b = 0; b < count; b++)
			asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared(&bars[b])));
		asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
		*phases = 0;
	}

	// All bytes are visible to this thread when the function returns.
	GIN_FN void copy(char *dst, const char *src, uint64_t bytes) const
	{
		uint32_t chunks = static_cast<uint32_t>((bytes + chunk - 1) / chunk),
			 phase = *phases;
		// The source may have been written by ordinary stores.
		asm volatile("fence.proxy.async;" ::: "memory");
		for (uint32_t c = 0; c < count && c < chunks; c++)
			load(c, c, src, bytes);
		for (uint32_t c = 0, b = 0; c < chunks; c++, b = b + 1 == count ? 0 : b + 1) {
			await(b, phase >> b & 1);
			phase ^= 1u << b;
			store(c, b, dst, bytes);
			// The store of the chunk before has read its shared memory: refill it.
			if (c >= 1 && c - 1 + count < chunks) {
				asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
				load(c - 1 + count, b ? b - 1 : count - 1, src, bytes);
			}
		}
		*phases = phase;
		asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
		asm volatile("fence.proxy.async;" ::: "memory");
	}

private:
	enum { HEAD = 128 };
	uint64_t *bars;
	uint32_t *phases;
	char *room;
	uint32_t count, chunk;

	GIN_FN static uint32_t shared(const void *at)
	{
		return static_cast<uint32_t>(__cvta_generic_to_shared(at));
	}

	GIN_FN uint32_t bytesOf(uint32_t c, uint64_t bytes) const
	{
		uint64_t left = bytes - static_cast<uint64_t>(c) * chunk;
		return left < chunk ? static_cast<uint32_t>(left) : chunk;
	}

	GIN_FN void load(uint32_t c, uint32_t b, const char *src, uint64_t bytes) const
	{
		uint32_t n = bytesOf(c, bytes);
		asm volatile(
			"mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared(&bars[b])),
			"r"(n)
			: "memory");
		asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
			     " [%0], [%1], %2, [%3];" ::"r"(shared(room + b * chunk)),
			     "l"(src + static_cast<uint64_t>(c) * chunk), "r"(n),
			     "r"(shared(&bars[b]))
			     : "memory");
	}

	GIN_FN void await(uint32_t b, uint32_t parity) const
	{
		uint32_t done = 0;
		while (!done)
			asm volatile("{ .reg .pred p;"
				     " mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
				     " selp.u32 %0, 1, 0, p; }"
				     : "=r"(done)
				     : "r"(shared(&bars[b])), "r"(parity)
				     : "memory");
	}

	GIN_FN void store(uint32_t c, uint32_t b, char *dst, uint64_t bytes) const
	{
		asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
				     dst + static_cast<uint64_t>(c) * chunk),
			     "r"(shared(room + b * chunk)), "r"(bytesOf(c, bytes))
			     : "memory");
		asm volatile("cp.async.bulk.commit_group;" ::: "memory");
	}
};
#endif

// A copy by one coop.
template <class Coop> GIN_FN void copyRaw(Coop coop, char *dst, const char *src, uint64_t bytes)
{
#if GIN_ON_GPU
	constexpr uint32_t most = wordsInFlight(Coop{});
	if (!ginMisalignment(dst, 16) && !ginMisalignment(src, 16) && bytes % 16 == 0) {
		uint32_t words = static_cast<uint32_t>(bytes / 16);
		if (words >= most * coop.size())
			copyWords<most>(dst, src, words, coop.thread_rank(), coop.size());
		else
			copyWords<4>(dst, src, words, coop.thread_rank(), coop.size());
		return;
	}
#endif
	ginCopy<4, 0>(dst, src, bytes, coop.thread_rank(), coop.size(), [] { return true; });
}

// Puts, signals and waits by hand. Other calls are libgin's, and are not measured.
struct RawEndpoint : GinEndpoint {
	char *mine, *theirs;
	uint64_t signalsAt; // [contexts][ids], in the window
	uint32_t ids;

	GIN_FN void clearSignals() const
	{
		for (uint32_t i = 0; i < dc.contexts * ids; i++)
			ginWordClear(word(mine, 0, i));
	}

	template <class Coop> GIN_FN void start(Coop coop, Scratch scratch) const
	{
#if HAS_BULK
		if (scratch.bytes >= leastScratch && coop.thread_rank() == 0)
			Bulk(scratch).start();
#endif
		(void)scratch;
		coop.sync();
	}

	GIN_FN void stop() const
	{
	}

	template <class Coop> GIN_FN int put(Coop coop, uint32_t, int, uint64_t to, uint64_t from,
					     uint64_t bytes, Scratch scratch) const
	{
#if HAS_BULK
		if (scratch.bytes >= leastScratch && bytes % 16 == 0) {
			if (coop.thread_rank() == 0)
				Bulk(scratch).copy(theirs + to, mine + from, bytes);
			return 0;
		}
#endif
		(void)scratch;
		copyRaw(coop, theirs + to, mine + from, bytes);
		return 0;
	}

	template <class Coop> GIN_FN int putSignal(Coop coop, uint32_t context, int peer,
						   uint64_t to, uint64_t from, uint64_t bytes,
						   uint32_t id, Scratch scratch) const
	{
		put(coop, context, peer, to, from, bytes, scratch);
		return signal(coop, context, peer, id);
	}

	template <class Coop> GIN_FN int signal(Coop coop, uint32_t context, int, uint32_t id) const
	{
		coop.sync();
		if (coop.thread_rank() == 0)
			ginSignalPublish(true, word(theirs, context, id), 1);
		return 0;
	}

	template <class Coop>
	GIN_FN int weakSignal(Coop coop, uint32_t context, int, uint32_t id) const
	{
		if (coop.thread_rank() == 0)
			ginSignalPublishRelaxed(true, word(theirs, context, id), 1);
		return 0;
	}

	template <class Coop>
	GIN_FN int waitSignal(Coop coop, uint32_t context, uint32_t id, uint64_t least) const
	{
		const uint64_t *at = word(mine, context, id);
		ginResult_t status = ginSuccess;
		if (coop.thread_rank() == 0)
			status = await(at, least);
		return ginAgree(coop, status);
	}

private:
	GIN_FN uint64_t *word(char *window, uint32_t context, uint32_t id) const
	{
		return reinterpret_cast<uint64_t *>(window + signalsAt) + context * ids + id;
	}

	GIN_FN static ginResult_t await(const uint64_t *at, uint64_t least)
	{
		GIN_NO_UNROLL
		for (uint32_t looks = 0; looks < mostLooks; looks++) {
			if (ginSignalObserve(at) >= least)
				return ginSuccess;
#if !GIN_ON_GPU
			sched_yield();
#endif
		}
		return ginErrorTimeout;
	}
};

struct RawJob : GinJob {
	typedef RawEndpoint Endpoint;
	size_t signalsAt = 0;
	uint32_t ids = 0;

	using GinJob::GinJob;

	void prepare(size_t bytes, uint32_t contexts, uint32_t signals, uint32_t timeout)
	{
		if (nRanks > 2)
			usageError("limits needs one or two ranks");
		signalsAt = (bytes + 127) / 128 * 128;
		ids = signals;
		GinJob::prepare(signalsAt + sizeof(uint64_t) * contexts * signals, contexts,
				signals, timeout);
	}

	Endpoint endpoint() const
	{
		Endpoint raw;
		void *theirs;
		CHECK(rank, ginPeerPointer(comm, window, nRanks == 1 ? 0 : 1 - rank, &theirs));
		static_cast<GinEndpoint &>(raw) = GinJob::endpoint();
		raw.mine = memory;
		raw.theirs = static_cast<char *>(theirs);
		raw.signalsAt = signalsAt;
		raw.ids = ids;
		return raw;
	}

	Description describe() const
	{
		Description text = GinJob::describe();
		text.library = "no library";
		return text;
	}
};

struct LimitArguments {
	Options options;
	std::vector<Options> all;
};

static int runRank(const ginConfig_t &config, void *arg)
{
	const LimitArguments *arguments = static_cast<const LimitArguments *>(arg);
	RawJob job(config, arguments->options.host);
	return runSession(job, arguments->all, arguments->options, "limits");
}

int main(int argc, char **argv)
{
	LimitArguments arguments;
	parseOptions(arguments.options, argc, argv);
	arguments.all = allOptions(arguments.options);
	return runRanks(arguments.options.ranks, runRank, &arguments);
}
