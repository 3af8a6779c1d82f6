// SPDX-License-Identifier: BSD-3-Clause
// gpunetio [rounds [few]] - compares the cost of posting by libgin and by NVIDIA GPUNetIO
//
// few: the limits, the steps of a put, and the calls by one thread and one warp.
// Posting only: there is no NIC. Both libraries use one queue memory (rig.cuh), in turn, in one
// process. Each line has the operation, the unit, and median, smallest and largest of libgin and of
// GPUNetIO. Every WQE, doorbell record and doorbell is compared with its expected value.
#include "calls.cuh"
#include "raw.cuh"
#include "steps.cuh"
#include "theirs.cuh"

#include <string>

static std::vector<double> sorted(std::vector<double> values)
{
	std::sort(values.begin(), values.end());
	return values;
}

static std::string spread(const std::vector<double> &values)
{
	std::vector<double> v = sorted(values);
	char text[64];

	if (v.empty())
		return "";
	snprintf(text, sizeof(text), "%10.2f %10.2f %10.2f", v[v.size() / 2], v.front(), v.back());
	return text;
}

static void printRow(const char *what, const char *unit, const std::vector<double> &ours,
		     const std::vector<double> &theirs)
{
	printf("%-62s | %-5s | %s | %s\n", what, unit, spread(ours).c_str(),
	       spread(theirs).c_str());
	fflush(stdout);
}

struct Bench {
	int rounds;
	QueueRig rig;
	Ours ours;
	Calls calls;
	Theirs theirs;

	template <class OurPost, class TheirPost>
	void compare(const char *what, const Shape &shape, bool rate)
	{
		compareSides<OurPost, TheirPost>(ours, what, shape, rate);
	}

	// libgin's side by the calls of class Gin.
	template <class OurPost, class TheirPost>
	void compareCalls(const char *what, const Shape &shape, bool rate)
	{
		compareSides<OurPost, TheirPost>(calls, what, shape, rate);
	}

	// ns: time per call of a thread; M/s: WQEs of all threads together.
	static double figure(const Shape &shape, bool rate, double ns)
	{
		if (!rate)
			return ns / shape.calls;
		return 1e3 * static_cast<double>(shape.posted()) * shape.queues / ns;
	}

	// The first round is a warm-up.
	template <class OurPost, class TheirPost, class Side>
	void compareSides(Side &side, const char *what, const Shape &shape, bool rate)
	{
		std::vector<double> mine, its;

		for (int i = 0; i <= rounds; i++) {
			double a = timeOnce<Side, OurPost>(rig, side, shape);
			double b = timeOnce<Theirs, TheirPost>(rig, theirs, shape);
			if (i == 0)
				continue;
			mine.push_back(figure(shape, rate, a));
			its.push_back(figure(shape, rate, b));
		}
		printRow(what, rate ? "M/s" : "ns", mine, its);
	}

	template <class Post> void limit(const char *what, const Shape &shape, bool rate)
	{
		alone<Post>(ours, what, shape, rate);
	}

	// GPUNetIO has nothing to compare with.
	template <class Post, class Side>
	void alone(Side &side, const char *what, const Shape &shape, bool rate)
	{
		std::vector<double> mine;

		for (int i = 0; i <= rounds; i++)
			mine.push_back(figure(shape, rate, timeOnce<Side, Post>(rig, side, shape)));
		mine.erase(mine.begin());
		printRow(what, rate ? "M/s" : "ns", mine, {});
	}
};

constexpr ginSharing ALONE = ginSharingThread, CTA = ginSharingCta, GPU = ginSharingGpu;

static void byOneThread(Bench &b)
{
	const Shape one = {1, 1, 1, 8192, 1, false}, two = {1, 1, 1, 8192, 2, false};

	b.compare<OursEach<PUT, ALONE>, TheirsEach<PUT, ALONE>>("put, one thread, exclusive", one,
								false);
	b.compare<OursEach<PUT, GPU>, TheirsEach<PUT, GPU>>("put, one thread, GPU-shared", one,
							    false);
	b.compare<OursEach<PUT_SIGNAL, ALONE>, TheirsEach<PUT_SIGNAL, ALONE>>(
		"put+signal, one thread, exclusive", two, false);
	b.compare<OursEach<PUT_SIGNAL, GPU>, TheirsEach<PUT_SIGNAL, GPU>>(
		"put+signal, one thread, GPU-shared", two, false);
	b.compare<OursEach<PUT_VALUE, ALONE>, TheirsEach<PUT_VALUE, ALONE>>(
		"putValue 8 B, one thread, exclusive", one, false);
	b.compare<OursEach<PUT_VALUE, GPU>, TheirsEach<PUT_VALUE, GPU>>(
		"putValue 8 B, one thread, GPU-shared", one, false);
	b.compare<OursWarp<GPU>, TheirsWarp<GPU>>("put, one by a whole warp, GPU-shared",
						  {1, 32, 1, 256, 1, false, 32}, false);
}

static void byOneBlock(Bench &b)
{
	const Shape warp = {1, 32, 1, 512, 1, false}, cta = {1, 256, 1, 64, 1, false};

	b.compare<OursTogether<PUT, CTA>, TheirsEach<PUT, CTA>>(
		"put, each of a warp's 32 threads, CTA-shared", warp, true);
	b.compare<OursTogether<PUT, GPU>, TheirsEach<PUT, GPU>>(
		"put, each of a warp's 32 threads, GPU-shared", warp, true);
	b.compare<OursTogether<PUT_SIGNAL, GPU>, TheirsEach<PUT_SIGNAL, GPU>>(
		"put+signal, each of a warp's 32 threads, GPU-shared", {1, 32, 1, 256, 2, false},
		true);
	b.compare<OursTogether<PUT_VALUE, GPU>, TheirsEach<PUT_VALUE, GPU>>(
		"putValue 8 B, each of a warp's 32 threads, GPU-shared", warp, true);
	b.compare<OursTogether<PUT, GPU>, TheirsEach<PUT, GPU, THEIR_WARP>>(
		"32 puts by a warp at once (their warp scope), GPU-shared", warp, true);
	b.compare<OursEach<PUT, GPU>, TheirsEach<PUT, GPU>>(
		"put, 32 threads, each posts by itself, GPU-shared", warp, true);
	b.compare<OursTogether<PUT, CTA>, TheirsEach<PUT, CTA>>("put, 256 threads, CTA-shared", cta,
								true);
	b.compare<OursTogether<PUT, GPU>, TheirsEach<PUT, GPU>>("put, 256 threads, GPU-shared", cta,
								true);
}

static void byManyBlocks(Bench &b)
{
	b.compare<OursEach<PUT, GPU>, TheirsEach<PUT, GPU>>("put, 132 CTAs x 1, one queue",
							    {132, 1, 1, 200, 1, false}, true);
	b.compare<OursTogether<PUT, GPU>, TheirsEach<PUT, GPU>>("put, 132 warps, one queue",
								{132, 32, 1, 7, 1, false}, true);
	b.compare<OursEach<PUT, ALONE>, TheirsEach<PUT, ALONE>>(
		"put, 132 CTAs x 1, a queue each, exclusive", {132, 1, 132, 4096, 1, false}, true);
	b.compare<OursTogether<PUT, CTA>, TheirsEach<PUT, CTA>>(
		"put, 132 warps, a queue each, CTA-shared", {132, 32, 132, 256, 1, false}, true);
}

// 1024 slots, and a block that plays the NIC: posts sometimes wait for room.
static void withNic(Bench &b)
{
	const Shape one = {1, 1, 1, 16384, 1, true};

	b.compare<OursEach<PUT, ALONE>, TheirsEach<PUT, ALONE>>(
		"put, one thread, exclusive, 1024 slots", one, false);
	b.compare<OursEach<PUT, GPU>, TheirsEach<PUT, GPU>>(
		"put, one thread, GPU-shared, 1024 slots", one, false);
	b.compare<OursTogether<PUT, GPU>, TheirsEach<PUT, GPU>>(
		"put, each of a warp's 32 threads, GPU-shared, 1024 slots",
		{1, 32, 1, 512, 1, true}, true);
	b.compare<OursEach<PUT, GPU>, TheirsEach<PUT, GPU>>(
		"put, 100 CTAs x 1, one queue, 1024 slots", {100, 1, 1, 200, 1, true}, true);
}

static void callsByOneThread(Bench &b)
{
	const Shape one = {1, 1, 1, 8192, 1, false}, two = {1, 1, 1, 8192, 2, false};

	b.compareCalls<CallsEach<PUT, ALONE>, TheirsEach<PUT, ALONE>>(
		"Gin: put, one thread, exclusive", one, false);
	b.compareCalls<CallsEach<PUT, GPU>, TheirsEach<PUT, GPU>>(
		"Gin: put, one thread, GPU-shared", one, false);
	b.calls.all = ginRouteNone;
	b.alone<CallsEach<PUT, ALONE>>(
		b.calls, "Gin: put, one thread, exclusive, beside direct peers", one, false);
	b.alone<CallsEach<PUT, GPU>>(
		b.calls, "Gin: put, one thread, GPU-shared, beside direct peers", one, false);
	b.calls.all = ginRouteGdaki;
	b.compareCalls<CallsEach<PUT_SIGNAL, ALONE>, TheirsEach<PUT_SIGNAL, ALONE>>(
		"Gin: put+signal, one thread, exclusive", two, false);
	b.compareCalls<CallsEach<PUT_SIGNAL, GPU>, TheirsEach<PUT_SIGNAL, GPU>>(
		"Gin: put+signal, one thread, GPU-shared", two, false);
	b.compareCalls<CallsEach<PUT_VALUE, ALONE>, TheirsEach<PUT_VALUE, ALONE>>(
		"Gin: putValue 8 B, one thread, exclusive", one, false);
	b.compareCalls<CallsEach<PUT_VALUE, GPU>, TheirsEach<PUT_VALUE, GPU>>(
		"Gin: putValue 8 B, one thread, GPU-shared", one, false);
	b.compareCalls<CallsEach<PUT, GPU, GinWarp>, TheirsWarp<GPU>>(
		"Gin: put, one by a whole warp, GPU-shared", {1, 32, 1, 256, 1, false, 32}, false);
}

// Calls in a kernel that is compiled for route gdaki alone.
template <What what, ginSharing sharing>
static void callsOnGdaki(Bench &b, const char *name, const Shape &shape)
{
	b.compareCalls<CallsEach<what, sharing, GinThread, GIN_ROUTES_GDAKI>,
		       TheirsEach<what, sharing>>(name, shape, shape.block > 1);
}

static void callsOnGdaki(Bench &b)
{
	const Shape one = {1, 1, 1, 8192, 1, false}, two = {1, 1, 1, 8192, 2, false};
	const Shape warp = {1, 32, 1, 512, 1, false}, warpTwo = {1, 32, 1, 256, 2, false};

	callsOnGdaki<PUT, ALONE>(b, "GinOn<GDAKI>: put, one thread, exclusive", one);
	callsOnGdaki<PUT, GPU>(b, "GinOn<GDAKI>: put, one thread, GPU-shared", one);
	callsOnGdaki<PUT_SIGNAL, ALONE>(b, "GinOn<GDAKI>: put+signal, one thread, exclusive", two);
	callsOnGdaki<PUT_SIGNAL, GPU>(b, "GinOn<GDAKI>: put+signal, one thread, GPU-shared", two);
	callsOnGdaki<PUT_VALUE, ALONE>(b, "GinOn<GDAKI>: putValue 8 B, one thread, exclusive", one);
	callsOnGdaki<PUT_VALUE, GPU>(b, "GinOn<GDAKI>: putValue 8 B, one thread, GPU-shared", one);
	callsOnGdaki<PUT, GPU>(b, "GinOn<GDAKI>: put, each of a warp's 32 threads, GPU-shared",
			       warp);
	callsOnGdaki<PUT_SIGNAL, GPU>(
		b, "GinOn<GDAKI>: put+signal, each of a warp's 32 threads, GPU-shared", warpTwo);
}

static void callsByMany(Bench &b)
{
	const Shape warp = {1, 32, 1, 512, 1, false};

	b.compareCalls<CallsEach<PUT, CTA>, TheirsEach<PUT, CTA>>(
		"Gin: put, each of a warp's 32 threads, CTA-shared", warp, true);
	b.compareCalls<CallsEach<PUT, GPU>, TheirsEach<PUT, GPU>>(
		"Gin: put, each of a warp's 32 threads, GPU-shared", warp, true);
	b.compareCalls<CallsEach<PUT_SIGNAL, GPU>, TheirsEach<PUT_SIGNAL, GPU>>(
		"Gin: put+signal, each of a warp's 32 threads, GPU-shared",
		{1, 32, 1, 256, 2, false}, true);
	b.compareCalls<CallsEach<PUT, GPU>, TheirsEach<PUT, GPU>>(
		"Gin: put, 256 threads, GPU-shared", {1, 256, 1, 64, 1, false}, true);
	b.compareCalls<CallsEach<PUT, GPU>, TheirsEach<PUT, GPU>>(
		"Gin: put, 132 CTAs x 1, one queue", {132, 1, 1, 200, 1, false}, true);
	b.compareCalls<CallsEach<PUT, GPU>, TheirsEach<PUT, GPU>>("Gin: put, 132 warps, one queue",
								  {132, 32, 1, 7, 1, false}, true);
	b.compareCalls<CallsEach<PUT, ALONE>, TheirsEach<PUT, ALONE>>(
		"Gin: put, 132 CTAs x 1, a queue each, exclusive", {132, 1, 132, 4096, 1, false},
		true);
	b.compareCalls<CallsEach<PUT, GPU>, TheirsEach<PUT, GPU>>(
		"Gin: put, each of a warp's 32 threads, GPU-shared, 1024 slots",
		{1, 32, 1, 512, 1, true}, true);
}

static void limits(Bench &b)
{
	const Shape one = {1, 1, 1, 8192, 1, false}, warp = {1, 32, 1, 512, 1, false};

	b.limit<RawPost<SYSTEM_FENCES>>("limit: WQE, fence.sys, record, fence.sys, doorbell", one,
					false);
	b.limit<RawPost<GPU_FENCES>>("limit: WQE, fence.gpu, record, fence.gpu, doorbell", one,
				     false);
	b.limit<RawPost<ONE_FENCE>>("limit: WQE, fence.gpu, record, doorbell", one, false);
	b.limit<RawPost<RELEASE_FENCE>>("limit: WQE, fence.release.gpu, record, doorbell", one,
					false);
	b.limit<RawPost<NO_MMIO>>("limit: WQE, fence.gpu, record, doorbell not by st.mmio", one,
				  false);
	b.limit<RawPost<NO_FENCE>>("limit: WQE, record, doorbell, no fence", one, false);
	b.limit<RawShared<1>>("limit: shared, by one thread", one, false);
	b.limit<RawShared<32>>("limit: shared, by a warp's 32 threads together", warp, true);
}

int main(int argc, char **argv)
{
	int gpus = 0;

	if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {
		printf("there is no GPU\n");
		return 77;
	}
	setenv("CUDA_MODULE_LOADING", "EAGER", 1);
	Bench bench = {argc > 1 ? atoi(argv[1]) : 11, {}, {}, {}, {}};
	limits(bench);
	stepsOfPut(bench);
	if (argc < 3) {
		byOneThread(bench);
		byOneBlock(bench);
		byManyBlocks(bench);
		withNic(bench);
	}
	callsByOneThread(bench);
	callsOnGdaki(bench);
	callsByMany(bench);
	return 0;
}
