/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recover.h - the agreement of the ranks of a communicator, which may have failed, on those that go
 * on
 *
 * The tree of the control plane may have lost its root and any other rank. Each rank therefore also
 * has a datagram socket, from controlPrepare() to controlClose(), whose port all ranks know. The
 * thread of the control plane reads it. Every datagram carries a keyed hash, a number and
 * the rank that it is for; others are dropped, copies among them. Datagrams go only to addresses
 * that the rank had at the start. A closed port means that the rank has died, or has closed its
 * communicator.
 *
 * The lowest rank that goes on leads. All others send it their set of the ranks that are out, until
 * all sets are equal; a set only grows. The leader gathers an entry of each rank and sends each
 * rank two of them. A rank that dies during the attempt, even the leader, is out, and the ranks
 * begin a new attempt.
 */
#ifndef GIN_LIB_RECOVER_H
#define GIN_LIB_RECOVER_H

#include "control.h"

#define RECOVER_ENTRY 2048 /* most bytes of an entry */

/* The ranks that go on. */
struct recoverTeam {
	int rank, nRanks; /* this rank's new number, and how many go on */
	int *members;	  /* [nRanks]: their old numbers, ascending; the caller frees it */
};

/* Begins a call: this rank takes `exclude` to be out. The caller has checked the ranks. */
ginResult_t recoverBegin(struct control *c, const int *exclude, int excludes);

/*
 * Collective among the ranks that go on: agrees on the team. If recoverLost() finds a dead member,
 * ginCommShrink() calls this function again: a new attempt. A rank that already has its
 * communicator takes part after recoverBegin(). ginErrorPeer: this rank is out.
 */
ginResult_t recoverAgree(struct control *c, struct recoverTeam *team);

/*
 * Collective among the team: sends an entry, and gets the entries of the new rank 0 and of this
 * rank's parent in the new tree. `refused`: this rank cannot go on; all ranks then get its entry
 * twice.
 */
struct recoverEntries {
	const void *mine;
	size_t bytes; /* of an entry, equal on all ranks */
	int refused;
	void *root, *parents;
};
ginResult_t recoverExchange(struct control *c, const struct recoverTeam *team,
			    const struct recoverEntries *entries);

/*
 * Has a rank of the team died since recoverAgree()? A result and a sentence of SENTENCE_BYTES, or
 * 0.
 */
int recoverLost(struct control *c, char *why);

/* Ends the call. `succeeded`: this rank has the new communicator. */
void recoverEnd(struct control *c, int succeeded);

/* Has a call given this rank a new communicator? */
int recoverFinished(struct control *c);

#endif
