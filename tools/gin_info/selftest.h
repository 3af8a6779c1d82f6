/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selftest.h - gin_info --selftest: puts and signals between all pairs of ranks on every route
 *
 * The environment variables that choose a route are read once per process. Each pass therefore
 * runs in child processes, one of each rank, which form a communicator of their own. A child that
 * crashes or hangs does not end the test.
 */
#ifndef GIN_TOOLS_GIN_INFO_SELFTEST_H
#define GIN_TOOLS_GIN_INFO_SELFTEST_H

#include <gin.h>

#include "lib/selftest/selftest.h"

#define SELFTEST_CHILD "--selftest-child" /* not for users */

/* A way to choose routes: up to SELFTEST_SETTINGS variables. */
enum { SELFTEST_SETTINGS = 3 };
struct selftestPass {
	const char *name;
	const char *settings[SELFTEST_SETTINGS]; /* "GIN_ROUTE=direct" */
};

extern const struct selftestPass selftestPasses[];

/* What a child process reads. */
struct selftestJob {
	ginUniqueId_t id;
	int rank, nRanks;
	int pass;    /* index in selftestPasses[] */
	int hideGpu; /* use host threads */
	int timeout; /* seconds */
};

/* Of pairs. */
struct selftestCount {
	long good, broken, noRoute;
};

/* What a child process writes, followed by a cell for each rank if `made`. */
struct selftestAnswer {
	int made;		    /* the communicator was made */
	int ended;		    /* the process ended without an answer: its parent wrote this */
	char why[320];		    /* if not made */
	struct selftestCount count; /* of the cells: its parent wrote this */
};

/* The results of a pass. */
struct selftestResult {
	const struct selftestPass *pass;
	struct selftestAnswer answer;
	/* On rank 0: [from][to]; NULL: there is no communicator. Other ranks have no cells. */
	struct selftestCell *cells;
	long pairs; /* of all ranks, as the counts */
	struct selftestCount count;
};

struct selftestReport {
	int nRanks, passes;
	int *host;		       /* [nRanks]: the lowest rank of the rank's host */
	const char *device;	       /* what the test runs on */
	struct selftestResult *result; /* [passes] */
};

/* The plug-in of the self-test; NULL, and `why` has the reason. */
const struct selftestCalls *selftestLoad(char *why, size_t room);

/* The main function of a child process. */
int selftestChild(void);

/* Collective. Returns the exit status; rank 0 prints. */
int selftestAll(ginComm_t comm, int json);

/* "untested", "no route", "broken" or "good". */
const char *selftestState(uint32_t state);

/* The settings of a pass as one line, "" without settings. */
const char *selftestSettings(const struct selftestPass *pass, char *out, size_t room);

void selftestPrint(const struct selftestReport *report, int asJson);

#endif
