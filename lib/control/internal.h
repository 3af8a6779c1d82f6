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
	uint32_t retired; /* as in struct control */
};

ginResult_t controlConnect(struct control *c, uint64_t deadline);

/* Waits until all children have connected. Connections that do not know the key are refused. */
ginResult_t controlAcceptChildren(struct control *c, int children, uint64_t deadline);

/* Fails when the bootstrap knows that a rank which should connect, here or elsewhere, has died. */
ginResult_t controlReadNews(struct control *c);
void controlAddLink(struct control *c, int fd, int rank);
int controlLinksOf(int rank, int nRanks); /* in the tree */
void controlReleaseSpare(struct control *c);
int controlFirstChild(const struct control *c); /* its index in link[] */

/*
 * Never waits: the thread sends what does not fit the socket's buffer. On failure, shuts the link
 * down: the thread then handles the end of the connection.
 */
void controlSend(struct control *c, struct controlLink *link, const struct controlHeader *header,
		 const void *data);
void controlWake(struct control *c); /* the thread */

/* Adds entries of this rank or of a child; passes them on when the subtree is complete. */
ginResult_t controlGatherAdd(struct control *c, const char *call, uint32_t seq,
			     const struct buffer *entries);
ginResult_t controlGatherDone(struct control *c, uint32_t seq, const struct buffer *all);
void controlGatherTick(struct control *c, uint64_t now);
void controlGatherReset(struct control *c);

/*
 * `rank`, or the whole communicator (-1), has failed: keeps the first sentence, wakes the waiting
 * call and sends a failure message to all links except `except`. Returns 1 when the failure is new:
 * the caller must then call onFailure without the lock.
 */
int controlBreak(struct control *c, int rank, ginResult_t result, const char *why,
		 const struct controlLink *except);

/* controlBreak(), then onFailure when the failure is new; the lock is released for that call. */
void controlBreakHere(struct control *c, int rank, ginResult_t result, const char *why,
		      const struct controlLink *except);
void *controlThread(void *arg);

#endif
