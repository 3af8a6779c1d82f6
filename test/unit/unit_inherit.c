/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unit_inherit.c - ginCommShrink() when a window of the older communicator cannot be registered
 * again: all ranks get that failure, or try again and inherit all windows but one that a rank
 * lacks. A rank that leaves meanwhile makes them try as often as before.
 */
/* LINK: -Wl,--wrap=windowMake,--wrap=windowsFree,--wrap=commClosing,--wrap=recoverAgree */
#include "ranks.h"
#include "expect.h"

#include "lib/control/recover.h"
#include "lib/window.h"

enum { RANKS = 3, WINDOWS = 4, FAILS = 2 /* the window that rank 0 fails to register */ };

static _Thread_local int registers; /* this thread shrinks, and is rank 0 */
static ginResult_t failure;	    /* of rank 0 */
static int failures;		    /* how often it fails */

ginResult_t __real_windowMake(ginComm_t comm, ginResult_t mine, void *ptr, size_t bytes,
			      int isLocal, struct window **out);

/* The other ranks register the window with the rank that fails. */
ginResult_t __wrap_windowMake(ginComm_t comm, ginResult_t mine, void *ptr, size_t bytes,
			      int isLocal, struct window **out)
{
	if (registers && comm->windowSerial == FAILS && failures > 0) {
		failures--;
		mine = fail(failure, "the window cannot be registered again");
	}
	return __real_windowMake(comm, mine, ptr, bytes, isLocal, out);
}

void __real_windowsFree(ginComm_t comm);

/* ginCommShrink() itself releases all of a communicator that it gives up. */
void __wrap_windowsFree(ginComm_t comm)
{
	EXPECT(!registers || !comm->windows);
	__real_windowsFree(comm);
}

void __real_commClosing(ginComm_t comm);

/* The end of a communicator has failures of its own. */
void __wrap_commClosing(ginComm_t comm)
{
	if (registers)
		fail(ginErrorCuda, "a sentence of the end of the communicator");
	__real_commClosing(comm);
}

static int leavesAfter; /* calls of recoverAgree() of the last rank; 0: never */

ginResult_t __real_recoverAgree(struct control *c, struct recoverTeam *team);

ginResult_t __wrap_recoverAgree(struct control *c, struct recoverTeam *team)
{
	if (leavesAfter && c->rank == RANKS - 1 && !--leavesAfter)
		return fail(ginErrorAborted, "the rank leaves");
	return __real_recoverAgree(c, team);
}

static ginResult_t shrink(ginComm_t comm, int rank, ginComm_t *made)
{
	registers = rank == 0;
	ginResult_t result = ginCommShrink(comm, NULL, 0, made);
	registers = 0;
	return result;
}

static void registerAll(ginComm_t comm, void *ptr, ginWindow_t *window)
{
	for (int i = 0; i < WINDOWS; i++)
		EXPECT_SUCCESS(ginWindowRegister(comm, ptr, 64, 0, &window[i]));
}

static int refused(const ginConfig_t *config)
{
	ginWindow_t window[WINDOWS];
	ginComm_t comm, made = NULL;
	void *ptr;

	EXPECT_SUCCESS(ginCommInit(config, &comm));
	EXPECT_SUCCESS(ginMemAlloc(comm, 64, &ptr));
	registerAll(comm, ptr, window);
	EXPECT_FAILS(shrink(comm, config->rank, &made), ginErrorSystem,
		     "rank 0: the window cannot be registered again");
	EXPECT(!made);
	EXPECT_SUCCESS(ginCommDestroy(comm));
	EXPECT_SUCCESS(ginMemFree(NULL, ptr));
	return 0;
}

static struct window *find(ginComm_t comm, ginWindow_t window)
{
	pthread_mutex_lock(&comm->lock);
	struct window *found = windowFind(comm, window);
	pthread_mutex_unlock(&comm->lock);
	return found;
}

static int passing(const ginConfig_t *config)
{
	ginWindow_t window[WINDOWS], inherited;
	ginCommInfo_t info = GIN_COMM_INFO_INIT;
	ginComm_t comm, made = NULL;
	void *ptr, *at;

	EXPECT_SUCCESS(ginCommInit(config, &comm));
	EXPECT_SUCCESS(ginMemAlloc(comm, 64, &ptr));
	registerAll(comm, ptr, window);
	struct window *lacking = find(comm, window[0]);
	/* As if rank 1 had no such window: other ranks may have it after a death. */
	lacking->isRetired = config->rank == 1;
	EXPECT_SUCCESS(shrink(comm, config->rank, &made));
	lacking->isRetired = 0;
	EXPECT_FAILS(ginWindowInherited(made, window[0], &inherited), ginErrorInvalidArgument,
		     "has inherited no window");
	EXPECT_SUCCESS(ginCommQuery(made, &info));
	EXPECT_TEXT(info.bootstrap, "shrink");
	for (int i = 1; i < WINDOWS; i++) {
		EXPECT_SUCCESS(ginWindowInherited(made, window[i], &inherited));
		EXPECT_SUCCESS(ginPeerPointer(made, inherited, (config->rank + 1) % RANKS, &at));
		EXPECT(at != NULL);
	}
	EXPECT_SUCCESS(ginCommDestroy(made));
	EXPECT_SUCCESS(ginCommDestroy(comm));
	EXPECT_SUCCESS(ginMemFree(NULL, ptr));
	return 0;
}

/* More attempts than without the end of a rank. */
static int leaving(const ginConfig_t *config)
{
	ginWindow_t window[WINDOWS];
	ginComm_t comm, made = NULL;
	int leaves = config->rank == RANKS - 1;
	void *ptr;

	EXPECT_SUCCESS(ginCommInit(config, &comm));
	EXPECT_SUCCESS(ginMemAlloc(comm, 64, &ptr));
	registerAll(comm, ptr, window);
	ginResult_t result = shrink(comm, config->rank, &made);
	EXPECT_EQUAL(result, leaves ? ginErrorAborted : ginSuccess);
	if (leaves)
		EXPECT_SUCCESS(ginCommAbort(comm));
	else
		EXPECT_SUCCESS(ginCommDestroy(made));
	ginCommDestroy(comm);
	EXPECT_SUCCESS(ginMemFree(NULL, ptr));
	return 0;
}

static void expectRanks(ginResult_t as, int often, int (*body)(const ginConfig_t *config))
{
	failure = as;
	failures = often;
	const int *result = ranksStart(RANKS, 1, body);
	for (int r = 0; r < RANKS; r++)
		EXPECT_EQUAL(result[r], 0);
	EXPECT_EQUAL(failures, 0);
}

int main(void)
{
	setenv("GIN_LOG", "none", 0);
	setenv("GIN_TIMEOUT", "30", 0);
	expectRanks(ginErrorSystem, 1, refused);
	expectRanks(ginErrorPeer, 1, passing); /* as if a rank had begun a new attempt */
	leavesAfter = 6;
	expectRanks(ginErrorPeer, 12, leaving);
	return 0;
}
