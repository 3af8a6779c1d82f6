/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.h - libgin-ofi.so: structures and functions that only its files use
 *
 * ofi.c         endpoints: writes, reads, messages
 * writes.c      operations in flight, and writes that share an acknowledgement
 * memory.c      registered memory
 * provider.c    chooses a provider of libfabric and tries it
 */
#ifndef GIN_PROXY_OFI_H
#define GIN_PROXY_OFI_H

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "backends/proxy/network/fabric.h"

#define OFI_OPS 512	 /* operations of an endpoint in flight */
#define OFI_RECEIVES 256 /* messages of an endpoint that may arrive between two polls */
#define OFI_GROUP 4	 /* most writes that the provider is given as one */

enum ofiKind { ofiTransfer, ofiSend, ofiReceive };

/* A transfer, a sent message, or a buffer for a message to receive. */
struct ofiOp {
	struct fi_context2 context; /* libfabric's; first */
	enum ofiKind kind;
	uint64_t peer;
	void *of;	   /* ofiTransfer: the caller's context */
	struct fid_mr *mr; /* of this transfer only; NULL: none */
	struct ofiOp *next;
	struct fabricPiece piece; /* of a write in a batch */
	struct ofiOp *riders;	  /* writes that land with this one */
	struct ofiOp *with;	  /* writes that the provider has together with this one */
	uint32_t given;		  /* how often the provider has it, without its completion */
	int isRider;		  /* a write that does not land by itself */
	int error;
	unsigned char message[FABRIC_MESSAGE];
};

/* Plain writes to one peer that wait for the provider: writes.c. */
struct ofiBatch {
	struct ofiOp *first, *last;
	uint64_t bytes;
	uint32_t count;
	int isSplit; /* each write asks for an acknowledgement */
};

struct fabric {
	int sharesAcks; /* plain writes go in batches */
	size_t group;	/* most writes of a batch that the provider is given as one */
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	uint32_t opened;       /* endpoints, closed ones too: fixed while workers run */
	struct fabricEnd *end; /* the endpoint that was opened last; NULL: it is closed */
	pthread_mutex_t lock;  /* of `regions` */
	struct fabricRegion *regions;
};

struct fabricRegion {
	struct fabric *fabric;
	struct fid_mr *mr;
	char *at;
	size_t bytes;
	struct fabricRegion *next;
};

/* Touched by the worker of its lane, under the worker's lock. */
struct fabricEnd {
	struct fabric *fabric;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_cq
		*socketCq; /* has no endpoint, only a descriptor: openSocketCq(); NULL: none */
	struct fid_mr *mr; /* of the messages in `op` and `receive`; NULL: not needed */
	struct fi_cq_data_entry early; /* a completion that ofiArm() has read */
	int hasEarly;
	int wait;	/* readable when the completion queue has something; -1: none */
	int socketWait; /* of `socketCq` */
	struct ofiOp *freeOps;
	struct ofiOp *unposted; /* receives that found no room */
	struct ofiBatch batch;
	struct ofiOp *landed, *lastLanded; /* transfers that poll() has to report */
	struct ofiOp op[OFI_OPS], receive[OFI_RECEIVES];
};

extern const struct fabricCalls ginFabric;

int ofiFail(char *why, const char *call, int error);

/* provider.c */
int ofiProbe(const struct fabricWanted *want, struct fabricAbout *about, char *why);
/* The provider and interface. NULL, and why: there is none. */
struct fi_info *ofiInfo(const struct fabricWanted *want, char *why);

/* Does one acknowledgement stand for the writes before it, too? */
int ofiMayShareAcks(const struct fi_info *info);

/* writes.c: the calls of struct fabricCalls. */
int ofiWrite(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece,
	     const uint32_t *immediate, void *context);
int ofiRead(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece, void *context);
void ofiSubmit(struct fabricEnd *end);

/* NULL: all are in flight. */
struct ofiOp *ofiTakeOp(struct fabricEnd *end, enum ofiKind kind, uint64_t peer, void *of);
void ofiGiveOp(struct fabricEnd *end, struct ofiOp *op);

/* The result of a call that begins an operation. `error`: of libfabric, or 0. */
int ofiBegun(struct fabricEnd *end, struct ofiOp *op, ssize_t error);

/*
 * Gives the provider the batch. fabricBusy: it has no room for all, and later operations must wait.
 */
int ofiGiveBatch(struct fabricEnd *end);

/* A completion of a transfer has arrived. */
void ofiTransferred(struct fabricEnd *end, struct ofiOp *op, int error);

/* Makes events of the transfers that have landed. Returns how many. */
int ofiTakeLanded(struct fabricEnd *end, struct fabricEvent *events, int most);

/* memory.c */
int ofiMemoryAdd(struct fabric *f, void *at, size_t bytes, struct fabricRegion **out,
		 struct fabricKey *key, char *why);
void ofiMemoryRemove(struct fabricRegion *region);
/* Registers the endpoint's messages, if the provider needs that. */
int ofiMemoryOfEnd(struct fabricEnd *end, char *why);
/* The descriptor of local memory of a transfer, which may be NULL. An error of libfabric, or 0. */
int ofiDescribe(struct fabricEnd *end, const struct fabricPiece *piece, struct ofiOp *op,
		void **descriptor);

/*
 * Is it the only endpoint? Polls of others read its data from the sockets, and replace its
 * connections. Another worker may close its endpoint meanwhile, which does not change the answer.
 */
static inline int ofiIsAlone(const struct fabricEnd *end)
{
	return end->fabric->opened == 1;
}

static inline void *ofiMessageDescriptor(const struct fabricEnd *end)
{
	return end->mr ? fi_mr_desc(end->mr) : NULL;
}

#endif
