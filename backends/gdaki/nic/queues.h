/* SPDX-License-Identifier: BSD-3-Clause */
/* queues.h - queue pairs over one slab: made, connected, asked, ended */
#ifndef GIN_NIC_QUEUES_H
#define GIN_NIC_QUEUES_H

#include "port.h"
#include "uar.h"

struct queue {
	struct mlx5dv_devx_obj *cq, *qp; /* NULL: not made */
	uint32_t cqNumber;
	struct rdmaEnd end;
};

struct rdmaQueues {
	struct rdmaPort *port;
	struct rdmaSlab slab;
	struct mlx5dv_devx_umem *umem;
	struct uar *uars;
	uint32_t nUars; /* that there are */
	struct queue queue[];
};

/* queues.c */
int queuesOpen(struct rdmaPort *port, const struct rdmaSlab *slab, struct rdmaQueues **queues,
	       char *why);
void queuesClose(struct rdmaQueues *queues);
void queueRegister(const struct rdmaQueues *queues, uint32_t i, struct rdmaRegister *where);
const struct uar *queueUar(const struct rdmaQueues *queues, uint32_t i);

/* make.c */
int queueMake(struct rdmaQueues *queues, uint32_t i, uint32_t index, struct rdmaEnd *mine,
	      char *why);

/* connect.c */
int queueConnect(struct rdmaQueues *queues, uint32_t i, const struct rdmaAddress *address,
		 const struct rdmaEnd *peer, const struct rdmaPath *path, char *why);

/* state.c */
int queueFail(struct rdmaQueues *queues, uint32_t i, char *why);
int queueState(struct rdmaQueues *queues, uint32_t i, int *state, char *why);

#endif
