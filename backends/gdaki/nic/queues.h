/* SPDX-License-Identifier: BSD-3-Clause */
/* queues.h - queue pairs over one slab: made, connected, asked, ended */
#ifndef GIN_NIC_QUEUES_H
#define GIN_NIC_QUEUES_H

#include "port.h"

struct nicUar {
	struct mlx5dv_devx_uar *uar;
	const char *kind;
};

/*
 * The best kind that this libmlx5, kernel and device have: a register of its own that is not cached
 * (NC_DEDICATED), one that all of the process share (NC), one with a buffer (BF).
 */
int uarOpen(struct rdmaPort *port, struct nicUar *out, char *why);

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
	uint32_t nUars; /* that there are */
	struct nicQueue queue[];
};

/* queues.c */
int queuesOpen(struct rdmaPort *port, const struct rdmaSlab *slab, struct rdmaQueues **queues,
	       char *why);
void queuesClose(struct rdmaQueues *queues);
void queueRegister(const struct rdmaQueues *queues, uint32_t i, struct rdmaRegister *where);
const struct nicUar *queueUar(const struct rdmaQueues *queues, uint32_t i);

/* make.c */
int queueMake(struct rdmaQueues *queues, uint32_t i, uint32_t index, struct rdmaEnd *mine,
	      char *why);

/* connect.c */
int queueConnect(struct rdmaQueues *queues, uint32_t i, const struct rdmaAddress *address,
		 const struct rdmaEnd *peer, const struct rdmaPath *path, char *why);

/* state.c */
int queueFail(struct rdmaQueues *queues, uint32_t i, char *why);
int queueState(struct rdmaQueues *queues, uint32_t i, int *state, char *why);

/* To the peer's port; `spread` differs among connections, so that they may take different ways. */
int pathSet(const struct rdmaPort *port, const struct rdmaAddress *peer,
	    const struct rdmaPath *path, uint32_t spread, uint8_t *in, char *why);

/* Can the two ports talk at all? 0, or -1 and why not. */
int pathCheck(const struct rdmaPort *port, const struct rdmaAddress *peer, char *why);

#endif
