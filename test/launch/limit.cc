/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * limit.cc - GIN_TIMEOUT is the limit of a whole call: ginDevCommDestroy() ends, tear-down
 * included, and its result says what was given up
 *
 * Each case is a process of its own, because GIN_TIMEOUT is read once, with two ranks as threads.
 */
/* NEEDS: libgin-weak.so */
#include "bootstrap.h"

#include <signal.h>

namespace
{

struct SignalOther {
	ginDevComm dc;
	uint64_t *results;

	GIN_FN void operator()() const
	{
		results[0] = Gin(dc, 0).signal(static_cast<int>(1 - dc.rank), GinSignalInc{0});
	}
};

ginDevComm open(Rank &r, const ginConfig_t *config)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	ginDevComm dc;

	rankOpen(r, config);
	want.signals = 1;
	CHECK(ginDevCommCreate(r.comm, &want, &dc));
	return dc;
}

/* The network loses the signal of rank 0, which never completes: both ranks learn of it. */
int lostSignal(const ginConfig_t *config)
{
	Rank r;
	ginDevComm dc = open(r, config);
	struct sigaction now;

	/* The library of the network takes the signal when it is loaded. */
	EXPECT(!sigaction(SIGINT, nullptr, &now) && now.sa_handler == SIG_DFL);
	if (!r.rank) {
		Results results(r, 1);
		launch(r, 1, 1, SignalOther{dc, results.words});
		EXPECT(results.all(ginSuccess));
	}
	EXPECT_FAILS(ginDevCommDestroy(r.comm, &dc), ginErrorTimeout,
		     "rank 0: 1 descriptors of context 0, the first to rank 1 (host ",
		     "are given up");
	EXPECT_FAILS(ginDevCommDestroy(r.comm, &dc), ginErrorInvalidArgument, "is not of this");
	ginCommDestroy(r.comm);
	return 0;
}

/* Rank 1 comes when rank 0 has given up. It finds a communicator that has failed. */
int lateRank(const ginConfig_t *config)
{
	Rank r;
	ginDevComm dc = open(r, config);

	if (r.rank) {
		ginResult_t error = ginSuccess;
		while (error == ginSuccess) {
			usleep(1000);
			CHECK(ginCommGetAsyncError(r.comm, &error));
		}
		CHECK(ginDevCommDestroy(r.comm, &dc));
	} else {
		EXPECT_FAILS(ginDevCommDestroy(r.comm, &dc), ginErrorTimeout,
			     "no call from rank 1");
	}
	ginCommDestroy(r.comm);
	return 0;
}

bool passes(const char *name, int (*rank)(const ginConfig_t *),
	    std::initializer_list<const char *> variables)
{
	int status = 1;
	pid_t child = fork();

	if (!child) {
		for (const char *variable : variables)
			EXPECT(!putenv(strdup(variable)));
		const int *result = ranksStart(2, 1, rank);
		exit(result[0] || result[1]);
	}
	EXPECT(child > 0 && waitpid(child, &status, 0) == child);
	printf("%s: %s\n", status ? "failed" : "ok", name);
	fflush(stdout);
	return !status;
}

} // namespace

int main()
{
	setenv("GIN_LOG", "none", 0);
	signal(SIGINT, SIG_DFL); /* a shell's background job ignores it */
	bool ok = passes("a signal that is lost", lostSignal,
			 {"GIN_TIMEOUT=4", "GIN_ROUTE=network", "GIN_BACKEND=proxy",
			  "GIN_TRANSPORT=weak", "WEAK_LOSE=1"});

	ok &= passes("a rank that comes late", lateRank, {"GIN_TIMEOUT=2"});
	return !ok;
}
