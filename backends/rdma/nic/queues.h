/* SPDX-License-Identifier: BSD-3-Clause */
/* queues.h - queue pairs over one slab, their doorbell registers, and the path to a peer */
#ifndef GIN_NIC_QUEUES_H
#define GIN_NIC_QUEUES_H

#include "port.h"

/* A doorbell register. */
struct nicUar {
	struct mlx5dv_devx_uar *uar;
	const char *kind; /* "NC_DEDICATED", "NC" or "BF" */
};

struct nicQueue {
	struct mlx5dv_devx_obj *cq, *qp; /* NULL: not made */
	uint32_t cqNumber;
	struct rdmaEnd end;
};

struct rdmaQueues {
	struct rdmaPort *port;
	struct rdmaSlab slab;
	struct mlx5dv_devx_umem *umem;
	struct nicUar *uars;
	uint32_t nUars;
	struct nicQueue queue[]; /* [slab.count] */
};

/* Members of struct rdma. */
int queuesOpen(struct rdmaPort *port, const struct rdmaSlab *slab, struct rdmaQueues **queues,
	       char *why);
void queuesClose(struct rdmaQueues *queues);
void queueRegister(const struct rdmaQueues *queues, uint32_t i, struct rdmaRegister *where);
int queueMake(struct rdmaQueues *queues, uint32_t i, uint32_t index, struct rdmaEnd *mine,
	      char *why);
int queueConnect(struct rdmaQueues *queues, uint32_t i, const struct rdmaAddress *address,
		 const struct rdmaEnd *peer, const struct rdmaPath *path, char *why);
int queueFail(struct rdmaQueues *queues, uint32_t i, char *why);
int queueState(struct rdmaQueues *queues, uint32_t i, int *state, char *why);

/*
 * path.c: writes the path to the peer's port into `in`, the mailbox of INIT2RTR_QP. `spread`
 * differs between connections, so that switches can choose different paths for them.
 */
int pathSet(const struct rdmaPort *port, const struct rdmaAddress *peer,
	    const struct rdmaPath *path, uint32_t spread, uint8_t *in, char *why);

#endif
