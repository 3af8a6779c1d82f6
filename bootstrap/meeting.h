/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meeting.h - client side of an exchange through a root
 *
 * A meeting is the exchange of one communicator. It is the state of the bootstraps pmix, tcp and
 * unique id.
 */
#ifndef GIN_BOOTSTRAP_MEETING_H
#define GIN_BOOTSTRAP_MEETING_H

#include "root.h"

struct meeting {
	struct rootContact contact;
	char name[BOOTSTRAP_NAME];
	uint32_t generation; /* how many earlier communicators of this process had the name */
	int rank, nRanks;
	int patient; /* retry while nobody listens: the root may start later */
	int watch;   /* connection to the root, open until this rank has joined the others; or -1 */
	int stays;   /* the connection is open until the root closes it: another job may come */
	int local;   /* the root is on the loopback interface only */
	uint64_t deadline; /* of the call that opens the communicator */
	char job[BOOTSTRAP_JOB];
};

/*
 * A meeting at the root; NULL, with `why`: no memory. The generation is the number of earlier calls
 * with this name in this process; `name` NULL: for a unique id, which serves one communicator. The
 * caller fills in rank and nRanks. Any thread.
 */
struct meeting *meetingMake(const struct rootContact *contact, const char *name,
			    const struct bootstrapWanted *wanted, char *why);

/* Implements exchange() of struct bootstrapOps; `state` is a struct meeting. */
int meetingExchange(void *state, const struct bootstrapEntry *mine, int parent,
		    struct bootstrapEntry *root, struct bootstrapEntry *parents, char *why);

/* Implement watch(), lost(), joined(), derive() and close() of struct bootstrapOps. */
int meetingWatch(void *state);
int meetingLost(void *state, char *why);
int meetingJoined(void *state);
void meetingDerive(const void *state, const void *nonce, size_t bytes, uint8_t key[BOOTSTRAP_KEY]);
void meetingClose(void *state);

/* Reads a reply: returns the result of the exchange, with a sentence in `why` unless it is 0. */
int meetingRead(struct rootReply *reply, char *why);

/*
 * Connects to the root, sends the request and waits for the reply. `patient` as in struct meeting.
 * Returns the result of the exchange, with a sentence in `why` unless it is 0. After 0, `*watch` is
 * the connection, which the caller closes with meetingEnd(); `watch` NULL: this rank has joined.
 */
int meetingAsk(const struct rootContact *contact, const struct rootRequest *request, int patient,
	       uint64_t deadline, struct rootReply *reply, int *watch, char *why);

/* Does some address of the contact lead to a root that knows the key? -1 with errno: none does. */
int meetingReach(const struct rootContact *contact, uint64_t deadline);

/* Closes the connection to the root. `joined`: this rank is in the control plane. */
void meetingEnd(int fd, int joined);

#endif
