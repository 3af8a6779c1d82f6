/* SPDX-License-Identifier: BSD-3-Clause */
/* queues.c - the slab, its doorbell registers, and the end of all queues in it */
#include "queues.h"

#include <stdlib.h>

#include "memory.h"
#include "say.h"

static int check(const struct rdmaPort *port, const struct rdmaSlab *slab, char *why)
{
	struct rdmaAddress address;
	struct rdmaFeatures can;

	portTell(port, &address, &can);
	if (slab->depth & (slab->depth - 1) || slab->depth < RDMA_MIN_DEPTH)
		return say(why, "a queue depth of %u: a power of two, %d at least", slab->depth,
			   RDMA_MIN_DEPTH);
	if (slab->depth > can.maxDepth)
		return say(why, "a queue depth of %u: the device has queues of %u at most",
			   slab->depth, can.maxDepth);
	if (slab->count > can.maxQueues)
		return say(why,
			   "%u queue pairs: the device has %u at most; fewer contexts need "
			   "fewer",
			   slab->count, can.maxQueues);
	if (slab->memory.bytes < rdmaSlabBytes(slab->count, slab->depth) ||
	    (uintptr_t)slab->memory.address % RDMA_PAGE)
		return say(why, "a slab of %zu bytes at %p does not hold %u queues",
			   slab->memory.bytes, slab->memory.address, slab->count);
	return 0;
}

/* As many as there are of those that are wanted, but one at least. */
static int openUars(struct rdmaQueues *q, char *why)
{
	q->uars = calloc(q->slab.registers, sizeof(*q->uars));
	if (!q->uars)
		return say(why, "no memory");
	while (q->nUars < q->slab.registers && !uarOpen(q->port, &q->uars[q->nUars], why))
		q->nUars++;
	return q->nUars ? 0 : -1;
}

int queuesOpen(struct rdmaPort *port, const struct rdmaSlab *slab, struct rdmaQueues **queues,
	       char *why)
{
	if (check(port, slab, why))
		return -1;
	struct rdmaQueues *q = calloc(1, sizeof(*q) + slab->count * sizeof(q->queue[0]));
	if (!q)
		return say(why, "no memory");
	q->port = port;
	q->slab = *slab;
	q->slab.registers += !slab->registers;
	if (umemOpen(port, &slab->memory, &q->umem, why) || openUars(q, why)) {
		queuesClose(q);
		return -1;
	}
	*queues = q;
	return 0;
}

/*
 * A device that is gone refuses all of it, and the kernel has then ended what it held: nothing is
 * left to be done about it.
 */
void queuesClose(struct rdmaQueues *q)
{
	for (uint32_t i = 0; i < q->slab.count; i++) {
		if (q->queue[i].qp)
			mlx5dv_devx_obj_destroy(q->queue[i].qp);
		if (q->queue[i].cq)
			mlx5dv_devx_obj_destroy(q->queue[i].cq);
	}
	while (q->nUars)
		mlx5dv_devx_free_uar(q->uars[--q->nUars].uar);
	if (q->umem)
		mlx5dv_devx_umem_dereg(q->umem);
	free(q->uars);
	free(q);
}

const struct uar *queueUar(const struct rdmaQueues *q, uint32_t i)
{
	return &q->uars[i % q->nUars];
}

/* A dedicated one may be any of those in its page, so that only reg_addr says where it is. */
void queueRegister(const struct rdmaQueues *q, uint32_t i, struct rdmaRegister *where)
{
	const struct uar *u = queueUar(q, i);
	uintptr_t at = (uintptr_t)u->uar->reg_addr;

	*where = (struct rdmaRegister){(void *)at, (void *)(at - at % RDMA_PAGE), u->kind};
}
