/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport.h - the interface between the proxy and the code that moves its data
 *
 * A transport serves some peers of a communicator, and transports.c chooses which. It has one lane
 * for each worker. A lane is used under its worker's lock with the device's scope entered, so a
 * lane needs no lock; the lanes with one index of two ranks talk to each other. All other calls
 * come from the communicator's calls, one at a time, with the device's scope entered.
 *
 * A work "lands" when its data is in the peer's memory and, if the transport carries its word, the
 * word has changed. A get lands when its data is in this rank's memory. Works may land in any
 * order, whatever the order of the transport.
 *
 * The engine owns a work until it is started, and again when it has landed. The transport owns
 * registrations and connections, the core owns the memory.
 */
#ifndef GIN_PROXY_TRANSPORT_H
#define GIN_PROXY_TRANSPORT_H

#include "window.h"
#include "words/word_lock.h"

/*
 * The result of a transport without room: nothing was begun, and the engine tries again. It never
 * leaves the proxy.
 */
#define transportBusy ((ginResult_t)1000)

enum transportOrder {
	/*
	 * CPUs of this process reach the words at the peer, and the engine changes them. It calls
	 * raise() only for words in GPU memory, when all data that the word covers has landed.
	 */
	transportHere,
	/*
	 * Operations of a lane are done at the peer in the order in which it sends them: the
	 * transport carries a work's word, and changes it after the data of the work and of all
	 * puts that were started before.
	 */
	transportOrdered,
	/* The engine calls raise() when all data that the word covers has landed. */
	transportUnordered
};

/* The surroundings of a transport. They outlive the transport. */
struct transportScope {
	const struct backendHost *host;
	const struct proxySlots *slots; /* the windows that peers may name */
	const uint8_t *serves;		/* [nRanks]: 1: this transport serves the peer */
	uint32_t lanes;
	struct wordLock *const *locks; /* [nRanks]: wordLocks.of; NULL: no words in GPU memory */
};

struct transportOps {
	const char *name;

	/*
	 * Can this rank reach `peer`? `mine` and `theirs` are blobs of the proxy. `why` says how,
	 * or why not. As backendOps.reach.
	 */
	int (*reach)(const struct backendHost *host, int peer, const void *mine, const void *theirs,
		     char *why);

	ginResult_t (*open)(const struct transportScope *scope, void **state);
	/* No work is in flight. */
	void (*close)(void *state);
	void *(*lane)(void *state, uint32_t index);
	enum transportOrder (*order)(const void *state);

	/*
	 * Opens a lane's endpoint of the network: `address`, of TRANSPORT_ADDRESS bytes, is for the
	 * peers. Then pair() makes the lane's objects for one peer, where the network needs them:
	 * `pair`, of struct proxyBlob's pairBytes, is for the peer. Then connects the lane to the
	 * lane of this index of a peer, whose `pair` for this rank is NULL where there is none.
	 * NULL: not needed.
	 */
	ginResult_t (*address)(void *state, uint32_t index, void *address);
	ginResult_t (*pair)(void *state, uint32_t index, int peer, void *pair);
	ginResult_t (*connect)(void *state, uint32_t index, int peer, const void *address,
			       const void *pair);
	/*
	 * When the lanes of all ranks are connected: fails if this rank and a peer do not reach
	 * each other. NULL: not needed.
	 */
	ginResult_t (*meet)(void *state);

	/*
	 * As the calls of struct backendOps. Offers are of struct proxyOffer. On an error *link may
	 * be set, and is deregistered.
	 */
	ginResult_t (*windowOffer)(void *state, const struct memory *memory,
				   struct proxyOffer *offer, void **link);
	/* As windowOffer(), for memory that is a source of this rank only. NULL: nothing to do. */
	ginResult_t (*windowLocal)(void *state, const struct memory *memory, void **link);
	ginResult_t (*windowRegister)(void *state, ginResult_t mine, const uint8_t *offers,
				      size_t stride, void *link);
	void (*windowDeregister)(void *state, void *link);
	/* Fills in where CPUs or GPUs of this process reach the part of a served peer. */
	void (*windowDescribe)(void *state, void *link, int peer, struct proxyPart *part);

	/*
	 * Starts a put, putValue or get; on an ordered transport also every work whose wordState is
	 * wordUnderWay, with that word. On success either the work has landed already, and
	 * work->state is workLanded, or landed() returns it later. transportBusy: nothing was
	 * begun. On another error not all data was moved, and landed() does not return the work.
	 */
	ginResult_t (*start)(void *lane, struct proxyWork *work);

	/*
	 * Starts to change the word of a work whose data has landed. landed() returns the work
	 * again. Errors as of start().
	 */
	ginResult_t (*raise)(void *lane, struct proxyWork *work);

	/*
	 * Makes progress, and serves peers. Returns how many events it handled. NULL: nothing
	 * arrives, and peers need no progress of this rank.
	 */
	uint32_t (*receive)(void *lane);

	/*
	 * Before a sleep: a file descriptor that becomes readable when receive() has something to
	 * do, or when a peer's data comes; or -1: sleep briefly. `isBrief`: for microseconds only.
	 * NULL if receive is NULL.
	 */
	int (*arm)(void *lane, int isBrief);

	/* Submits the works started since the last call, and acknowledges messages. */
	void (*chain)(void *lane);

	/* The next work that has landed or failed, as work->result says; NULL: none now. */
	struct proxyWork *(*landed)(void *lane);

	/* Waits until works have landed, or makes progress once. */
	void (*drain)(void *lane);

	/*
	 * The communicator has failed: forgets all works in flight, and ends all activity. NULL:
	 * works in flight always land.
	 */
	void (*stop)(void *lane);

	/* Adds the costs of a communicator and of a window. */
	void (*plan)(struct plan *plan, uint32_t lanes);
};

#define TRANSPORT_ADDRESS 288

enum { TRANSPORT_IPC, TRANSPORT_NETWORK, TRANSPORTS };

extern const struct transportOps transportIpc, transportNetwork;

struct transportLane {
	const struct transportOps *ops; /* NULL: the transport is not in use */
	void *state;
	enum transportOrder order;
};

/* The lanes of one worker. */
struct transportLanes {
	struct transportLane lane[TRANSPORTS];
	const uint8_t *of; /* [nRanks]: which transport serves the peer */
};

#endif
