/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * internal.h - for the files of the control plane only
 *
 * The caller holds the lock of struct control, except for controlConnect() and controlThread().
 */
#ifndef GIN_LIB_CONTROL_INTERNAL_H
#define GIN_LIB_CONTROL_INTERNAL_H

#include <poll.h>

#include "control.h"

enum controlType {
	controlUp = 1, /* entries, to the parent */
	controlDown,   /* entries, of which one has failed or has another size */
	controlFail,   /* a rank or the communicator has failed */
	controlBye,    /* the sender leaves */
	controlAll,    /* `block` bytes of each rank, in the order of ranks */
	controlColumns /* round `round` of an all-to-all: the columns of the receiver's subtree */
};

struct controlHeader {
	uint32_t type;
	uint32_t seq;
	int32_t rank;
	uint32_t result;
	uint32_t block, round;
	uint32_t retired; /* on the way down: as struct control's allRetired */
	uint32_t unused;
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

enum controlGone {
	controlLeft = 1,  /* the rank has destroyed the communicator */
	controlSilent = 2 /* the rank was lost by silence: so may be the ranks of its host */
};

ginResult_t controlConnect(struct control *c, uint64_t deadline);

/* Waits until all children have connected. Connections that do not know the key are refused. */
ginResult_t controlAcceptChildren(struct control *c, int children, uint64_t deadline);

/*
 * Fails when the bootstrap knows that a rank has died that should connect to this or another rank.
 */
ginResult_t controlReadNews(struct control *c);

/* NULL: no memory. */
struct controlLink *controlAddLink(struct control *c, int fd, int rank);
int controlLinksOf(int rank, int nRanks); /* in the tree */
void controlReleaseSpare(struct control *c);
int controlFirstChild(const struct control *c); /* its index in link[] */

/*
 * The candidate addresses of a rank of another process, whose entry is filled in. Returns 0 after
 * the last. Ranks of this host use loopback.
 */
int controlAddress(const struct control *c, int rank, unsigned i, struct netAddress *out);

/* Is this errno of a connection a sign that its host does not answer? */
int controlIsSilence(int reason);

/*
 * After a failure, the thread's: connects where it is time to. Afterwards pointers to links are not
 * valid.
 */
void controlAttach(struct control *c, uint64_t now);
void controlAttachAt(struct control *c, uint64_t when); /* at the latest */
void controlNoteLeft(struct control *c, const struct controlLink *link);
void controlSendNews(struct control *c, struct controlLink *link); /* all failures */

/* A link that this rank connects: what poll() waits for, and a step when it has come. */
short controlDialEvents(const struct controlLink *link);
void controlDialServe(struct control *c, struct controlLink *link);
void controlDropDial(struct controlLink *link);
void controlDialFarewell(const struct controlLink *link); /* if the other rank may have accepted */

/*
 * After a failure, the thread's: ranks that connect become links. controlReceive() returns -1 when
 * there is no memory. controlReceptionPoll() fills in entries of poll() and returns how many.
 */
#define CONTROL_STRANGERS 64
#define CONTROL_RECEPTION (1 + CONTROL_STRANGERS) /* entries at most */
int controlReceive(struct control *c);
int controlReceptionPoll(struct reception *r, struct pollfd *fds);
void controlReceptionServe(struct reception *r, const struct pollfd *fds);
void controlReceptionClose(struct reception *r);

/*
 * Never waits: the thread sends the bytes that do not fit the socket's buffer. On failure, shuts
 * the link down: the thread then handles the end of the connection.
 */
void controlSend(struct control *c, struct controlLink *link, const struct controlHeader *header,
		 const void *data);
/* controlSend() to all children, with one copy of the bytes that their sockets do not take. */
void controlSendChildren(struct control *c, const struct controlHeader *header, const void *data);
void controlFlush(const struct control *c, struct controlLink *link);
void controlDropParts(struct controlLink *link);
void controlWake(struct control *c); /* the thread */

/* Adds entries of this rank or of a child; passes them on when the subtree is complete. */
ginResult_t controlGatherAdd(struct control *c, const char *call, uint32_t seq,
			     const struct buffer *entries);
int controlWholeEntries(const struct control *c, const struct buffer *b);
void controlGatherTick(struct control *c, uint64_t now);
void controlGatherReset(struct control *c);

/* Rank 0 has the entries of all ranks in c->gather: delivers the result. */
ginResult_t controlGathered(struct control *c);

/* A result from the parent: passes it on and keeps the data for this rank. */
ginResult_t controlDeliver(struct control *c, const struct controlHeader *header,
			   const struct buffer *data);

/* A collective: an allgather, or a round of an all-to-all. */
struct controlRound {
	const char *call;
	uint32_t round;
	size_t block; /* 0: an allgather */
};

/*
 * The halves of a collective: controlBegin() does not wait, controlEnd() does. `bytes`: that this
 * rank contributes. After a failure of controlBegin(), controlEnd() is not called.
 */
ginResult_t controlBegin(struct control *c, const struct controlRound *of, ginResult_t mine,
			 const void *in, size_t bytes);
ginResult_t controlEnd(struct control *c, const struct controlRound *of, void *out, size_t bytes);

/* The bytes that a rank contributes to a round of an all-to-all: a block for each column. */
size_t controlRowBytes(int nRanks, size_t block, uint32_t round);

/* controlBegin() for a round of an all-to-all. `in` as controlAlltoall's. */
ginResult_t controlBeginRound(struct control *c, const struct controlRound *of, ginResult_t mine,
			      const void *in);

/* Bytes of the message that link->in begins with, its header included; 0: the header is wrong. */
size_t controlMessageBytes(const struct control *c, const struct controlLink *link);

/*
 * Handles the message in link->in, which is whole and has room for one more byte, and empties
 * link->in.
 */
void controlTake(struct control *c, struct controlLink *link);

/* The connection has ended, or a wrong message has arrived on it. */
void controlDropLink(struct control *c, struct controlLink *link);

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
