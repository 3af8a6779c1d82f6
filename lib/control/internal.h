/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - for the files of the control plane only
 *
 * The caller holds the lock of struct control, except for controlConnect() and controlThread().
 */
#ifndef GIN_LIB_CONTROL_INTERNAL_H
#define GIN_LIB_CONTROL_INTERNAL_H

#include "control.h"

enum controlType { controlUp = 1, controlDown, controlFail, controlBye };

struct controlHeader {
	uint32_t type;
	uint32_t seq;
	int32_t rank;
	uint32_t result;
	uint64_t bytes;
	char call[CONTROL_CALL];
};

/* Followed by `bytes` bytes: data, or the sentence when result is not ginSuccess. */
struct controlEntry {
	uint32_t rank;
	uint32_t result;
	uint32_t bytes;
};

ginResult_t controlConnect(struct control *c, uint64_t deadline);
int controlLinksOf(int rank, int nRanks); /* in the tree */
void controlReleaseSpare(struct control *c);
int controlFirstChild(const struct control *c); /* its index in link[] */

/* A link that takes no more is shut, so that the thread sees its end as it sees any other. */
void controlSend(const struct controlLink *link, const struct controlHeader *header,
		 const void *data);

/* Own entry or a child's; passes on what is complete. */
ginResult_t controlGatherAdd(struct control *c, const char *call, uint32_t seq,
			     const struct buffer *entries);
ginResult_t controlGatherDone(struct control *c, uint32_t seq, const struct buffer *all);
void controlGatherTick(struct control *c, uint64_t now);
void controlGatherReset(struct control *c);

/*
 * `rank`, or the communicator as a whole (-1), has failed: keeps the first sentence, wakes the
 * waiting call and tells all links but `except`. Returns 1 when it is news: the caller then calls
 * onFailure without the lock.
 */
int controlBreak(struct control *c, int rank, ginResult_t result, const char *why,
		 const struct controlLink *except);

/* The same with onFailure, while the lock is let go. */
void controlBreakHere(struct control *c, int rank, ginResult_t result, const char *why,
		      const struct controlLink *except);
void *controlThread(void *arg);

#endif
