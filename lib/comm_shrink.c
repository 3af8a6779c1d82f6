/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm_shrink.c - a communicator of the ranks that go on; the control plane's recovery is its
 * bootstrap
 */
#include <stdio.h>
#include <stdlib.h>

#include "comm_from.h"
#include "lib/base/deadline.h"
#include "lib/base/log.h"
#include "lib/control/recover.h"
#include "window.h"

/* The new communicator, while it is made. */
struct commShrink {
	struct commFrom from; /* first */
	struct recoverTeam team;
	ginResult_t mine; /* not ginSuccess: this rank refuses to go on */
	char refusal[SENTENCE_BYTES];
	int isRefused; /* by some rank: all ranks know */
};

_Static_assert(sizeof(struct bootstrapEntry) <= RECOVER_ENTRY, "the exchange carries entries");

/* A rank that cannot go on still takes part, and refuses: no other rank waits for it. */
static struct bootstrapEntry ownEntry(const struct commShrink *shrink,
				      const struct bootstrapEntry *mine)
{
	struct bootstrapEntry entry = *mine;

	if (shrink->mine != ginSuccess && !entry.refused) {
		entry.refused = shrink->mine;
		snprintf(entry.refusal, sizeof(entry.refusal), "%s", shrink->refusal);
	}
	return entry;
}

static int shrinkExchange(void *state, const struct bootstrapEntry *mine, int parent,
			  struct bootstrapEntry *root, struct bootstrapEntry *parents, char *why)
{
	struct commShrink *shrink = state;
	const struct bootstrapEntry entry = ownEntry(shrink, mine);
	const struct recoverEntries entries = {.mine = &entry,
					       .bytes = sizeof(entry),
					       .refused = entry.refused != 0,
					       .root = root,
					       .parents = parents};

	(void)parent; /* recoverExchange() finds it */
	ginResult_t result = recoverExchange(&shrink->from.comm->control, &shrink->team, &entries);

	if (result != ginSuccess) {
		snprintf(why, BOOTSTRAP_WHY, "%s", ginGetLastError());
		return result;
	}
	shrink->isRefused = root->refused > 0;
	if (shrink->isRefused)
		snprintf(why, BOOTSTRAP_WHY, "%.*s", (int)sizeof(root->refusal) - 1, root->refusal);
	return shrink->isRefused ? root->refused : 0;
}

static int shrinkLost(void *state, char *why)
{
	return recoverLost(&((const struct commShrink *)state)->from.comm->control, why);
}

static const struct bootstrapOps shrinkOps = {
	.name = "shrink",
	.open = fromOpen,
	.exchange = shrinkExchange,
	.lost = shrinkLost,
	.derive = fromDerive,
	.isLocal = fromIsLocal,
};

static ginResult_t checkExclude(ginComm_t comm, const int *exclude, int excludes)
{
	if (excludes < 0 || (excludes && !exclude))
		return fail(ginErrorInvalidArgument,
			    "exclude is %s and excludes %d: must be the number of ranks at exclude",
			    exclude ? "set" : "NULL", excludes);
	for (int i = 0; i < excludes; i++) {
		if (exclude[i] < 0 || exclude[i] >= comm->nRanks)
			return fail(ginErrorInvalidArgument, "exclude[%d] is %d: must be 0 to %d",
				    i, exclude[i], comm->nRanks - 1);
		if (exclude[i] == comm->rank)
			return fail(ginErrorInvalidArgument,
				    "exclude[%d] is this rank, which must not make the call then",
				    i);
	}
	return ginSuccess;
}

/* Begins without the ranks at `exclude`, and without the ranks that this rank has masked. */
static ginResult_t begin(ginComm_t comm, const int *exclude, int excludes)
{
	int *out = malloc(((size_t)excludes + (size_t)comm->nRanks) * sizeof(*out)), outs = 0;

	if (!out)
		return fail(ginErrorSystem, "no memory");
	for (int i = 0; i < excludes; i++)
		out[outs++] = exclude[i];
	pthread_mutex_lock(&comm->lock);
	for (int r = 0; r < comm->nRanks; r++)
		if (comm->lost[r] & lostMasked)
			out[outs++] = r;
	pthread_mutex_unlock(&comm->lock);
	ginResult_t result = recoverBegin(&comm->control, out, outs);
	free(out);
	return result;
}

/* The ranks that have agreed make the communicator, and then its windows. */
static ginResult_t makeSurvivors(struct commShrink *shrink, ginComm_t *out)
{
	shrink->from.rank = shrink->team.rank;
	shrink->from.nRanks = shrink->team.nRanks;
	ginResult_t result = commFromOpen("ginCommShrink", &shrink->from, &shrinkOps, out);

	if (result != ginSuccess)
		return result;
	result = windowsInherit(*out, shrink->from.comm);
	return result == ginSuccess ? ginSuccess : commDrop(*out, result);
}

static void refuse(struct commShrink *shrink, ginResult_t result)
{
	shrink->mine = result;
	snprintf(shrink->refusal, sizeof(shrink->refusal), "%s", ginGetLastError());
}

#define TRIES_MOST 8 /* without the death of a rank */

/* Can another rank's new attempt be the cause of the last attempt's failure? */
static int mayPass(ginResult_t result, int tries)
{
	return (result == ginErrorPeer || result == ginErrorBootstrap) && tries < TRIES_MOST;
}

/*
 * After a failure all ranks agree again. If a rank has died since, its death counts as the cause,
 * and the others try again. Otherwise a rank refuses, with the failure as the reason, which ends
 * the call on all ranks.
 */
static ginResult_t shrinkOften(struct commShrink *shrink, ginComm_t *out)
{
	ginResult_t failed = ginSuccess;

	for (int tries = 0;; tries++) {
		int before = shrink->team.nRanks;
		free(shrink->team.members);
		shrink->team.members = NULL;
		ginResult_t result = recoverAgree(&shrink->from.comm->control, &shrink->team);
		if (result != ginSuccess)
			return result;
		if (shrink->team.nRanks != before)
			tries = 0;
		else if (failed != ginSuccess && !mayPass(failed, tries))
			refuse(shrink, failed);
		failed = makeSurvivors(shrink, out);
		if (failed == ginSuccess || shrink->isRefused)
			return failed;
	}
}

ginResult_t ginCommShrink(ginComm_t comm, const int *exclude, int excludes, ginComm_t *survivors)
{
	ginResult_t result = commEnter(comm, "ginCommShrink");
	struct commShrink shrink = {.from = {.comm = comm}};
	ginComm_t made = NULL;

	if (result != ginSuccess)
		return result;
	result = survivors ? checkExclude(comm, exclude, excludes)
			   : fail(ginErrorInvalidArgument, "survivors is NULL");
	refuse(&shrink, result);
	uint64_t before = deadlineBegin();
	result = begin(comm, exclude, result == ginSuccess ? excludes : 0);
	if (result == ginSuccess) {
		result = shrinkOften(&shrink, &made);
		free(shrink.team.members);
		recoverEnd(&comm->control, result == ginSuccess);
	}
	deadlineEnd(before);
	if (result != ginSuccess)
		return result;
	logWrite(logInfo, "goes on as rank %d of %d", made->rank, made->nRanks);
	*survivors = made;
	return ginSuccess;
}
