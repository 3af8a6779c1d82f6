/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live.cc - operations between ranks of several hosts while one of them dies, loses its network or
 * stops
 *
 *	live MOMENT VICTIM	every exchange with VICTIM fails, and no other exchange
 *	live MOMENT VICTIM back	VICTIM stops for a second: no exchange fails
 *	live now		the time, as in MOMENT
 *
 * The file MOMENT holds two times, before and after the event, in ns of CLOCK_MONOTONIC, which all
 * namespaces of a machine share. Each pair of ranks has a context of its own, in which both put a
 * stamp with a signal, wait for the completion of the put, and wait for the peer's signal. The
 * exchanges without VICTIM end 2 s after the moment. Each rank prints one line:
 *
 *	rank R: known K ms, detected D ms, back B ms, hangs H, false F, stale S, others O: WHY
 *
 * K: from the start of the event to the failure of the communicator. D: to the last error of an
 * exchange. B: to the first round with a peer that had none for half a second. H: exchanges that do
 * not end. F: with VICTIM, puts that were begun after the moment and completed before it came back;
 * a put in flight may have arrived. S: signals that came before their stamps. O: rounds of other
 * pairs since the moment.
 */
#include "meeting.h"

#include <time.h>

#include <thread>

#define MILLISECOND 1000000ull
#define LAST (1ull << 63) /* in the stamp of a rank that leaves after this round */
#define GRACE (2000 * MILLISECOND)
#define AWAY (900 * MILLISECOND) /* VICTIM does nothing for that long at least */
#define PAUSE (500 * MILLISECOND)
#define HUNG (90000 * MILLISECOND)

/* Results of the exchange with one peer. Its thread writes them, the main thread reads them. */
struct Exchanged {
	uint64_t rounds, roundsAfter; /* in all, and since the moment */
	uint64_t lastAt, backAt;      /* of the last round; of the first one after a long pause */
	uint64_t claims;	      /* puts begun since the moment, and completed within AWAY */
	uint64_t endedAt;	      /* 0: it runs */
	uint32_t result;
	uint32_t stale;
};

struct Course {
	uint64_t start;	 /* of the event */
	uint64_t moment; /* its end; 0: it has not come */
	uint64_t leaves; /* 1: exchanges end */
};

static uint64_t look(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void show(uint64_t *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

struct Exchanges {
	ginDevComm dc;
	ginWindow_t window; /* [nRanks] stamps of the peers, then [nRanks] for the peers */
	uint64_t *words;
	Exchanged *seen; /* [nRanks] */
	const Course *course;

	/* The failure of another peer does not end the wait. */
	GIN_FN static ginOptions dependsOn(uint32_t peer)
	{
		ginOptions options = {};

		options.from = {peer, 1, 1};
		return options;
	}

	GIN_FN ginResult_t send(const Gin &gin, uint32_t peer, uint64_t stamp) const
	{
		uint32_t from = dc.nRanks + peer;

		words[from] = stamp;
		ginResult_t result =
			gin.put(static_cast<int>(peer), window, dc.rank * sizeof(uint64_t), window,
				from * sizeof(uint64_t), sizeof(uint64_t), GinSignalInc{dc.rank});
		return result == ginSuccess ? gin.wait(gin.flushAsync(static_cast<int>(peer)),
						       GinThread{}, dependsOn(peer))
					    : result;
	}

	GIN_FN ginResult_t receive(const Gin &gin, uint32_t peer, uint64_t rounds) const
	{
		return gin.waitSignal(peer, rounds, GinThread{}, dependsOn(peer));
	}

	GIN_FN void note(Exchanged &e, uint32_t peer) const
	{
		uint64_t now = nowNs();

		e.stale += (look(&words[peer]) & ~LAST) < e.rounds + 1;
		if (e.rounds && now - e.lastAt > PAUSE && !e.backAt)
			show(&e.backAt, now);
		e.lastAt = now;
		e.rounds++;
		if (look(&course->moment))
			e.roundsAfter++;
	}

	/* Returns 1 when one of the two leaves. */
	GIN_FN int turn(const Gin &gin, uint32_t peer, Exchanged &e) const
	{
		uint64_t begun = nowNs(), leaves = look(&course->leaves), moment;

		e.result = send(gin, peer, (e.rounds + 1) | (leaves ? LAST : 0));
		moment = look(&course->moment);
		if (e.result == ginSuccess && moment && begun > moment && nowNs() < moment + AWAY)
			e.claims++;
		if (e.result == ginSuccess)
			e.result = receive(gin, peer, e.rounds + 1);
		if (e.result != ginSuccess)
			return 1;
		note(e, peer);
		return leaves || look(&words[peer]) == (LAST | e.rounds);
	}

	GIN_FN void operator()() const
	{
		uint32_t peer = ginBlockIndex();
		uint32_t low = peer < dc.rank ? peer : dc.rank;
		Gin gin(dc, low * dc.nRanks + (peer + dc.rank - low));
		Exchanged &e = seen[peer];

		while (peer != dc.rank && !turn(gin, peer, e))
			;
		show(&e.endedAt, nowNs());
	}
};

static Course readMoment(const char *file)
{
	char text[64] = "", *after;
	int fd = open(file, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return {0, 0, 0};
	ssize_t bytes = read(fd, text, sizeof(text) - 1);
	close(fd);
	uint64_t start = bytes > 0 ? strtoull(text, &after, 10) : 0;
	return {start, start ? strtoull(after, nullptr, 10) : 0, 0};
}

static uint64_t since(uint64_t moment, uint64_t at)
{
	return at > moment ? (at - moment) / MILLISECOND : 0;
}

/* The line of this rank. Returns whether all is well. */
static bool report(const Rank &r, const std::vector<Exchanged> &seen, int victim, bool back,
		   const Course &course, uint64_t known)
{
	uint64_t detected = 0, backAfter = 0, others = 0;
	int hangs = 0, claims = 0, stale = 0, failures = 0, missed = 0;

	for (int peer = 0; peer < r.nRanks; peer++) {
		const Exchanged &e = seen[static_cast<size_t>(peer)];
		bool fails = peer != r.rank && e.endedAt && e.result != ginSuccess;
		hangs += !e.endedAt;
		stale += static_cast<int>(e.stale);
		claims += peer == victim ? static_cast<int>(e.claims) : 0;
		failures += fails && (peer != victim || back);
		missed += peer == victim && peer != r.rank && !fails && !back;
		if (fails && since(course.start, e.endedAt) > detected)
			detected = since(course.start, e.endedAt);
		if (since(course.start, e.backAt) > backAfter)
			backAfter = since(course.start, e.backAt);
		others += peer == victim ? 0 : e.roundsAfter;
	}
	ginResult_t error = ginSuccess;
	CHECK(ginCommGetAsyncError(r.comm, &error));
	printf("rank %d: known %llu ms, detected %llu ms, back %llu ms, hangs %d, false %d, stale "
	       "%d, others %llu "
	       "rounds: %s\n",
	       r.rank, static_cast<unsigned long long>(since(course.start, known)),
	       static_cast<unsigned long long>(detected),
	       static_cast<unsigned long long>(backAfter), hangs, claims, stale,
	       static_cast<unsigned long long>(others), error ? ginGetLastError() : "no error");
	fflush(stdout);
	return !hangs && !claims && !stale && !failures && !missed && back == (error == ginSuccess);
}

static bool allEnded(const std::vector<Exchanged> &seen)
{
	for (const Exchanged &e : seen)
		if (!look(&e.endedAt))
			return false;
	return true;
}

/* Wait until the others have ended: the end of a process is the death of a rank. */
static void linger(const Rank &r, int victim, bool back)
{
	uint64_t start = nowNs();

	leave(variable("MEET") + ("/done." + std::to_string(r.rank)), "", 0);
	for (int peer = 0; peer < r.nRanks && (r.rank != victim || back); peer++) {
		std::string done = variable("MEET") + ("/done." + std::to_string(peer));
		while ((peer != victim || back) && access(done.c_str(), F_OK) &&
		       nowNs() < start + HUNG)
			usleep(1000);
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "now"))
		return printf("%llu\n", static_cast<unsigned long long>(nowNs())) < 0;
	if (argc != 3 && argc != 4) {
		fprintf(stderr, "live MOMENT VICTIM [back]: see live.cc\n");
		return 2;
	}
	ginConfig_t config = worldConfig();
	int victim = atoi(argv[2]);
	Course course = {0, 0, 0};
	Rank r;
	rankOpen(r, &config);
	size_t n = static_cast<size_t>(r.nRanks);
	std::vector<Exchanged> seen(n);
	Buffer buffer(r, 2 * n * sizeof(uint64_t));
	memset(buffer.ptr, 0, buffer.bytes);
	Device device(r, static_cast<uint32_t>(n * n), static_cast<uint32_t>(n));
	std::thread kernel([&] {
		launch(r, static_cast<uint32_t>(n), 1,
		       Exchanges{device.dc, buffer.window, reinterpret_cast<uint64_t *>(buffer.ptr),
				 seen.data(), &course});
	});
	std::string pid = std::to_string(getpid());
	usleep(300000); /* rounds without a failure */
	leave(variable("MEET") + ("/up." + std::to_string(r.rank)), pid.data(), pid.size());
	uint64_t known = 0;
	ginResult_t error = ginSuccess;
	while (!allEnded(seen) && (!course.moment || nowNs() < course.moment + HUNG)) {
		usleep(1000);
		CHECK(ginCommGetAsyncError(r.comm, &error));
		known = known || !error ? known : nowNs();
		if (!course.moment) {
			Course read = readMoment(argv[1]);
			course.start = read.start;
			show(&course.moment, read.moment);
		}
		show(&course.leaves, course.moment && nowNs() > course.moment + GRACE);
	}
	bool well = report(r, seen, victim, argc == 4, course, known);
	linger(r, victim, argc == 4);
	_exit(well ? 0 : 1); /* threads may hang, and peers may be dead */
}
