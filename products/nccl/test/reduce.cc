/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce.cc - sums and copies between the parts of a domain: whole outputs, with their neighbours
 *
 * A rank's part has the inputs of three areas and, after them, the outputs. All lengths, and all
 * offsets of inputs and outputs within 16 bytes.
 */
#include "rig.h"

enum { AREA = 256, GUARD = 77 }; /* elements of an area; the value before a test writes */

/* Element `i` of area `area` of rank `rank`. */
GIN_FN int valueOf(int rank, int area, int i)
{
	return rank + 3 * area + i % 5 + 1;
}

/* The sum of element `i` of area 0 of the ranks `first` to `first + count - 1`. */
static int sumOf(int first, int count, int i)
{
	int sum = 0;
	for (int r = first; r < first + count; r++)
		sum += valueOf(r, 0, i);
	return sum;
}

/* The calls to compare: all write `count` elements to area `out` at `to`. */
enum Call { sum, sumWindow, sumOp, copy, copyWindow, sumCopy, sumCopyWindow, toOne, local, CALLS };

template <class T> struct Maximum {
	GIN_FN T operator()(const T &a, const T &b) const { return a < b ? b : a; }
};

/* Pointers of one area of all ranks of the domain, as a program's lambda gives them. */
template <class T> struct Parts {
	ncclSymPtr<T> part;
	GIN_FN T *operator()(int i) const { return part.lsaPtr(i); }
};

template <class T> struct Reduce : Kernel {
	ncclWindow_t w;
	Call call;
	int count, from, to;

	GIN_FN ncclSymPtr<T> area(int i) const { return ncclSymPtr<T>(w) + i * AREA; }

	template <class Coop> GIN_FN void run(Coop coop, ncclTeam_t lsa) const
	{
		const ncclSymPtr<T> in = area(0) + from, out = area(3) + to;
		const size_t n = static_cast<size_t>(count);
		/* A rank's own area of a peer, so that no two ranks write one element. */
		const ncclSymPtr<T> own = area(4 + dc.lsaRank) + to;

		if (call == sum)
			ncclLsaReduceSum(coop, in, out.localPtr(), n, lsa);
		else if (call == sumWindow)
			ncclLsaReduceSum(coop, w, in.offset, out.localPtr(), n, dc);
		else if (call == sumOp)
			ncclLsaReduceLsaCopy<T>(coop, Parts<T>{in}, lsa.nRanks,
						ginNcclAt<T>{out.localPtr(), 0}, 1, Maximum<T>(),
						n);
		else if (call == copy)
			ncclLsaCopy(coop, in.localPtr(), own, count, lsa);
		else if (call == copyWindow)
			ncclLsaCopy(coop, in.localPtr(), w, own.offset, count, dc);
		else if (call == sumCopy)
			ncclLsaReduceSumCopy(coop, in, own, count, lsa);
		else if (call == sumCopyWindow)
			ncclLsaReduceSumCopy<T, Coop, int, 8>(coop, w, in.offset, w, own.offset,
							      count, dc);
		else if (call == toOne)
			ncclLsaReduceSumCopy(coop, in, lsa, own, ncclTeam_t{1, 0, 1}, count);
		else
			locals(coop, in.localPtr(), out.localPtr());
	}

	/* Areas 0 to 2 to areas 3 and 4: number 3 by a sum, then a copy of it. */
	template <class Coop> GIN_FN void locals(Coop coop, T *in, T *out) const
	{
		ncclLocalReduceSum(coop, 3, in, AREA, out, count);
		coop.sync();
		ncclLocalCopy(coop, out, 2, out + AREA, AREA, count);
		coop.sync();
		/* In place: 2 sums of areas 3 and 4, to areas 4 and 5. */
		ncclLocalReduceSumCopy(coop, 2, out, AREA, 2, out + AREA, AREA, count);
	}

	GIN_FN void operator()() const
	{
		ncclLsaBarrierSession<ncclCoopCta> bar{ncclCoopCta(), dc, ncclTeamTagLsa(), 0};

		bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
		run(ncclCoopCta(), ncclTeamLsa(dc));
		bar.sync(ncclCoopCta(), cuda::memory_order_acq_rel);
	}
};

/* What area `area` has after the call, where the call wrote it; or GUARD. */
template <class T> static T expected(const Reduce<T> &k, int area, int i)
{
	const int first = k.dc.rank - k.dc.lsaRank, n = k.dc.lsaSize, at = i - k.to + k.from;
	const bool isOwn = area >= 4 && area < 4 + n;
	const int localSum = 3 * valueOf(k.dc.rank, 1, at);

	if (i < k.to || i >= k.to + k.count)
		return static_cast<T>(GUARD);
	if (k.call == local)
		return static_cast<T>(area == 3 ? localSum : area <= 5 ? 2 * localSum : GUARD);
	if (k.call == sum || k.call == sumWindow)
		return static_cast<T>(area == 3 ? sumOf(first, n, at) : GUARD);
	if (k.call == sumOp)
		return static_cast<T>(area == 3 ? valueOf(first + n - 1, 0, at) : GUARD);
	if (!isOwn || (k.call == toOne && area != 4 + k.dc.lsaRank))
		return static_cast<T>(GUARD);
	const bool isCopy = k.call == copy || k.call == copyWindow;
	return static_cast<T>(isCopy ? valueOf(first + area - 4, 0, at) : sumOf(first, n, at));
}

/* A call, and a look at all areas of this rank. */
template <class T> static void one(const Rank &r, const Device &device, Buffer &buffer, Call call,
				   int count, int from, int to)
{
	const int areas = 4 + (device.dc.lsaSize < 3 ? 3 : device.dc.lsaSize);
	std::vector<T> all(static_cast<size_t>(areas * AREA), static_cast<T>(GUARD));
	const Reduce<T> k{{device.dc, nullptr}, buffer.window, call, count, from, to};

	for (int i = 0; i < 3 * AREA; i++)
		all[static_cast<size_t>(i)] = static_cast<T>(valueOf(r.rank, i / AREA, i % AREA));
	copyBytes(buffer.ptr, all.data(), all.size() * sizeof(T));
	launch(r, 1, r.gpu ? 64 : 4, k);
	copyBytes(all.data(), buffer.ptr, all.size() * sizeof(T));
	for (int i = 3 * AREA; i < areas * AREA; i++) {
		const T want = expected(k, i / AREA, i % AREA), got = all[static_cast<size_t>(i)];
		if (memcmp(&want, &got, sizeof(T)))
			fprintf(stderr,
				"call %d, %d elements of %zu bytes, from %d to %d: area %d,"
				" element %d\n",
				call, count, sizeof(T), from, to, i / AREA, i % AREA);
		EXPECT(!memcmp(&want, &got, sizeof(T)));
	}
}

template <class T> static void type(const Rank &r, const Device &device, Buffer &buffer)
{
	static const int counts[] = {0, 1, 3, 33, 200};

	for (int call = 0; call < CALLS; call++)
		for (int count : counts)
			one<T>(r, device, buffer, static_cast<Call>(call), count, count % 5,
			       (count + call) % 2 ? count % 5 : 1);
}

/* A type that no access of 16 bytes divides. */
struct Three {
	int16_t of[3];

	Three() = default;
	GIN_FN explicit Three(int x)
	    : of{static_cast<int16_t>(x), static_cast<int16_t>(2 * x), static_cast<int16_t>(x)}
	{
	}
	GIN_FN Three operator+(const Three &b) const
	{
		Three c;
		for (int i = 0; i < 3; i++)
			c.of[i] = static_cast<int16_t>(of[i] + b.of[i]);
		return c;
	}
	GIN_FN bool operator<(const Three &b) const { return of[0] < b.of[0]; }
};

static void run(const Rank &r)
{
	ncclDevCommRequirements want = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
	want.lsaBarrierCount = 1;
	Buffer buffer(r, static_cast<size_t>(4 + r.nRanks + 3) * AREA * sizeof(int64_t));
	Device device(r, want);

	type<unsigned char>(r, device, buffer);
	type<int16_t>(r, device, buffer);
	type<float>(r, device, buffer);
	type<int64_t>(r, device, buffer);
	type<Three>(r, device, buffer);
#ifdef __CUDA_FP16_TYPES_EXIST__
	type<__half>(r, device, buffer);
	type<__nv_bfloat16>(r, device, buffer);
#endif
}

/* Where packs of 16 bytes may begin: one pointer that lies otherwise rules them out. */
static void alignment()
{
	typedef ginNcclAlignment<char, char *(*)(int), char *(*)(int)> Alignment;
	alignas(16) static char bytes[32];
	static int odd; /* the pointer, 0 to 3 */
	const auto from = [](int i) -> char * { return bytes + 3 + (i == odd); };
	const auto to = [](int i) -> char * { return bytes + 19 - 16 * i + (i + 2 == odd); };

	for (odd = 0; odd < 5; odd++)
		EXPECT(Alignment::head(from, 2, to, 2) == (odd < 4 ? Alignment::none : 13));
}

static int sixteen[16];
static const ginNcclAt<int> none = {sixteen, 1};

/* Calls `form` in a process of its own: does a signal end it? */
static bool endsBySignal(void (*form)())
{
	int status = 0;
	const pid_t child = fork();

	if (child == 0) {
		form();
		_exit(0);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status);
}

/* Every form with multimem ends its process: there is no memory that it could use. */
static void multimem()
{
	typedef ncclCoopThread One;
	static void (*const forms[])() = {
		[] { ncclMultimemReduceSum(One(), ncclSymPtr<int>(), sixteen, 1, {}); },
		[] { ncclMultimemReduceSum(One(), sixteen, sixteen, 1); },
		[] { ncclMultimemReduceSum(One(), ncclWindow_t(), 0, sixteen, 1, {}); },
		[] { ncclMultimemCopy(One(), sixteen, ncclSymPtr<int>(), 1, {}); },
		[] { ncclMultimemCopy(One(), sixteen, sixteen, 1); },
		[] { ncclMultimemCopy(One(), sixteen, ncclWindow_t(), 0, 1, {}); },
		[] {
			ncclMultimemReduceSumCopy(One(), ncclSymPtr<int>(), {}, ncclSymPtr<int>(),
						  {}, 1);
		},
		[] { ncclMultimemReduceSumCopy(One(), sixteen, sixteen, 1); },
		[] {
			ncclMultimemReduceSumCopy<int>(One(), ncclWindow_t(), 0, {}, ncclWindow_t(),
						       0, {}, 1);
		},
		[] {
			ncclLsaReduceSumMultimemCopy(One(), ncclSymPtr<int>(), {},
						     ncclSymPtr<int>(), ncclMultimemHandle_t(), 1);
		},
		[] { ncclLsaReduceSumMultimemCopy(One(), ncclSymPtr<int>(), {}, sixteen, 1); },
		[] {
			ncclMultimemReduceSumLsaCopy(One(), ncclSymPtr<int>(),
						     ncclMultimemHandle_t(), ncclSymPtr<int>(),
						     ncclTeam_t(), 1);
		},
		[] {
			ncclMultimemReduceSumLsaCopy(One(), sixteen, ncclSymPtr<int>(),
						     ncclTeam_t(), 1);
		},
		[] { ncclLsaReduceSumMultimemCopy<int>(One(), none, 1, none, 1, 1); },
		[] { ncclMultimemReduceSumLsaCopy<int>(One(), none, 1, none, 1, 1); },
		[] { ncclMultimemReduceSumMultimemCopy<int>(One(), none, 1, none, 1, 1); },
		[] { ncclLsaReduceMultimemCopy<int>(One(), none, 1, none, 1, Maximum<int>(), 1); },
	};

	for (void (*form)() : forms)
		EXPECT(endsBySignal(form));
	EXPECT(!endsBySignal([] { ncclLsaReduceSumLsaCopy<int>(One(), none, 1, none, 1, 1); }));
}

int main(int argc, char **argv)
{
	alignment();
	multimem();
	return rigMain(argc, argv, "nccl sums and copies", run);
}
