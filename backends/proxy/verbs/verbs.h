/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs.h - the network verbs in libgin-rdma.so: structures and functions that only its files use
 *
 * verbs.c       the calls of a network: open, probe
 * end.c         endpoints: completion queue, receives
 * pair.c        queue pairs, one for each endpoint and peer
 * post.c        writes, reads and messages
 * poll.c        completions, errors, sleep
 * event.c       events of the device
 * flush.c       data in GPU memory becomes visible there
 * memory.c      registered memory
 */
#ifndef GIN_PROXY_VERBS_H
#define GIN_PROXY_VERBS_H

#include <pthread.h>
#include <stdatomic.h>

#include "backends/proxy/network/fabric.h"
#include "backends/rdma/nic/port.h"
#include "sizes.h"

#define VERBS_CHAIN 16 /* most work requests of one ibv_post_send() */
#define VERBS_PIECE (1ull << 30)
#define VERBS_USED 16 /* most receives that wait to be posted again */

enum verbsKind { verbsWrite, verbsRead, verbsSend, verbsFlush, verbsConfirm };

/* A work request between its posting and its event. */
struct verbsOp {
	void *context; /* the caller's; NULL: verbsSend, verbsFlush, verbsConfirm */
	uint32_t bytes;
	uint8_t kind;	 /* enum verbsKind */
	uint8_t intoGpu; /* verbsRead: its event waits for a flush */
	uint64_t flush;	 /* intoGpu, completed: the flush that it waits for */
};

struct verbsPeer {
	struct fabricEnd *end;
	struct ibv_qp *qp;
	uint32_t index; /* in the endpoint's peers */
	struct rdmaEnd mine, theirs;

	/*
	 * Work requests by serial numbers, which wrap around: `reported` <= `completed` <= `posted`
	 * <= `begun`, and begun - reported <= depth. From `failed` on they have failed, if the peer
	 * is dead.
	 */
	uint32_t reported, completed, posted, begun, failed;
	struct verbsOp *op; /* [depth] */

	/* From `posted` to `begun`: the chain that submit() posts. */
	const struct ibv_send_wr *write; /* the last one without immediate; NULL: none */
	struct ibv_send_wr wr[VERBS_CHAIN];
	struct ibv_sge sge[VERBS_CHAIN];
	unsigned char (*message)[VERBS_MESSAGE]; /* [depth] */

	unsigned char (*received)[VERBS_MESSAGE]; /* [receives] */

	uint8_t isDead, isDeathReported;
	uint8_t isChained; /* in the endpoint's list `chained` */
	uint8_t hasNews;   /* in the endpoint's list `news`, or in `waiting` */
	struct verbsPeer *nextChained, *nextNews;
	char why[FABRIC_WHY]; /* if it is dead */
};

/* A message or immediate, which may have to wait for a flush. */
struct verbsHeld {
	struct verbsPeer *peer;
	uint64_t flush;
	uint32_t index; /* of the receive */
	uint32_t bytes;
	uint32_t immediate;
	uint8_t isImmediate;
};

/* A buffer of `received`. */
struct verbsReceive {
	struct verbsPeer *peer;
	uint32_t index;
};

/* With its peers: touched by the worker of its lane, under the worker's lock. */
struct fabricEnd {
	struct fabric *fabric;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	uint32_t depth, receives; /* of a queue pair; equal */
	struct verbsShape shape;
	uint32_t unacknowledged; /* events of the channel */
	uint32_t turns;		 /* polls since the last check of the device's events */
	uint8_t isArmed;	 /* the next completion makes `channel` readable */
	int wait;		 /* epoll: the channel, and the device's events; -1: none */
	uint32_t room, peers;
	struct verbsPeer **peer; /* [peers] */
	struct verbsPeer *chained, *news;
	char *buffers; /* [room] times bufferBytes */
	struct fabricRegion *region;
	uint8_t isDownReported;
	char notice[FABRIC_WHY];

	/*
	 * Flushes by serial numbers: `flushed` <= `flushBegun` <= `flushWanted`, and each is at
	 * most one more than the number before it. A flush serves what completed before it was
	 * begun.
	 */
	struct verbsPeer *self; /* the queue pair of flushes; NULL: there is no GPU */
	uint64_t flushed, flushBegun, flushWanted;
	struct verbsPeer *waiting; /* peers with reads that wait for a flush */
	struct verbsHeld
		*held; /* [room * receives]; from firstHeld to endHeld, which wrap around */
	uint64_t firstHeld, endHeld;

	uint32_t used; /* receives whose messages are reported: verbsReceivesRenew() */
	struct verbsReceive usedReceive[VERBS_USED];
};

_Static_assert(sizeof(struct verbsPeer) == VERBS_PEER_BYTES, "sizes.h plans by it");
_Static_assert(sizeof(struct verbsOp) == VERBS_OP_BYTES, "sizes.h plans by it");

struct fabricRegion {
	struct fabric *fabric;
	struct rdmaRegion *region;
	struct rdmaKeys keys;
	char *at;
	size_t bytes;
	uint8_t isGpu, isWindow; /* isWindow: GPU memory that peers write */
	struct fabricRegion *next;
};

/* Any thread: the members before `lock` do not change while it is open. */
struct fabric {
	struct rdmaPort *port;
	struct rdmaPath path;
	struct rdmaAddress address;
	uint32_t peers; /* of an endpoint, about */
	uint32_t mostInline;
	uint8_t hasGpu, isRail;
	pthread_mutex_t lock; /* of `regions`, and of the device's events */
	struct fabricRegion *regions;
	_Atomic(struct fabricRegion *) gpu; /* GPU memory that flushes read; NULL: none yet */
	atomic_uint gpuWindows;
	atomic_ullong downSince; /* when the port went down, in ns; 0: it is up */
	atomic_int isDown;	 /* device or port have failed; `down` is set before */
	char down[FABRIC_WHY];
};

/* verbs.c: a sentence of backends/rdma/nic, shortened. Returns fabricFailed. */
int verbsFail(char *why, const char *reason);
int verbsFailErrno(char *why, const char *what, int error);

/* end.c */
int verbsEndOpen(struct fabric *fabric, struct fabricEnd **out, void *address, char *why);
void verbsEndClose(struct fabricEnd *end);
int verbsReceivePost(struct verbsPeer *peer, uint32_t index);

/* pair.c */
int verbsPairOpen(struct fabricEnd *end, void *pair, uint64_t *peer, char *why);
int verbsPairConnect(struct fabricEnd *end, uint64_t peer, const void *address, const void *theirs,
		     char *why);
void verbsPairClose(struct verbsPeer *peer);

/* post.c */
int verbsPostWrite(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece,
		   const uint32_t *immediate, void *context);
int verbsPostRead(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece,
		  void *context);
int verbsPostMessage(struct fabricEnd *end, uint64_t peer, const void *message, size_t bytes);
/* Reads 8 bytes of GPU memory into `to`, of the endpoint's buffers, and submits. */
int verbsPostFlush(struct fabricEnd *end, const struct fabricRegion *gpu, void *to);
void verbsSubmit(struct fabricEnd *end);

/* poll.c */
int verbsPoll(struct fabricEnd *end, struct fabricEvent *events, int most);
int verbsArm(struct fabricEnd *end, int isBrief);
/* Posts again the receives whose messages poll() has reported. */
void verbsReceivesRenew(struct fabricEnd *end);
/* Every work request from `failed` on has failed. The first sentence counts. */
void verbsPeerDies(struct verbsPeer *peer, uint32_t failed, const char *why);

/* Puts the peer into the list that report() goes through. */
void verbsPeerHasNews(struct verbsPeer *peer);

/* flush.c: the queue pair of flushes. Does nothing without a GPU. */
int verbsFlushOpen(struct fabricEnd *end, char *why);
/* The flush that serves everything completed by now. */
uint64_t verbsFlushOf(struct fabricEnd *end);
/* Begins a flush if one is wanted and none is in flight. */
void verbsFlushTurn(struct fabricEnd *end);
/* The flush in flight is done. */
void verbsFlushDone(struct fabricEnd *end);
/* Peers with waiting reads check for a flush. */
void verbsFlushRelease(struct fabricEnd *end);
/* Must a message that arrives now wait for a flush? */
int verbsHolds(const struct fabricEnd *end);
void verbsHold(struct fabricEnd *end, const struct verbsHeld *held);
/* The next held message whose flush is done; NULL: none. */
const struct verbsHeld *verbsHeldReady(const struct fabricEnd *end);

/* event.c: the next event of the device, if there is one. 1: *event is set. */
int verbsTakeEvent(struct fabricEnd *end, struct fabricEvent *event);
void verbsGoDown(struct fabric *f, const char *text); /* a later verbsTakeEvent() says so */

/* The number of a work request: of a receive, or the serial number of another one. */
#define VERBS_RECEIVE (1ull << 63)

static inline uint64_t verbsNumber(const struct verbsPeer *peer, uint32_t serial)
{
	return (uint64_t)peer->index << 32 | serial;
}

/* Where a work request has its op and its message. */
static inline uint32_t verbsSlot(const struct verbsPeer *peer, uint32_t serial)
{
	return serial & (peer->end->depth - 1);
}

/* memory.c */
int verbsMemoryOpen(struct fabric *fabric, const struct rdmaMemory *memory, unsigned access,
		    uint8_t isGpu, struct fabricRegion **out, char *why);
int verbsMemoryAdd(struct fabric *fabric, void *at, size_t bytes, struct fabricRegion **out,
		   struct fabricKey *key, char *why);
int verbsGpuMemoryAdd(struct fabric *fabric, const struct rdmaMemory *memory,
		      struct fabricRegion **out, struct fabricKey *key, const char **how,
		      char *why);
void verbsMemoryRemove(struct fabricRegion *region);
/* A buffer of the endpoint. */
struct ibv_sge verbsBuffer(const struct fabricEnd *end, const void *at, uint32_t bytes);
/*
 * The address and key of local memory as the NIC sees it, and whether it is GPU memory. 0: it is
 * not registered.
 */
int verbsMemoryFind(struct fabric *fabric, const char *at, uint64_t bytes, struct ibv_sge *out,
		    uint8_t *isGpu);

#endif
