/* SPDX-License-Identifier: BSD-3-Clause */
#include "slab.h"

#include "gin/gdaki/mlx5.h"
#include "dmabuf.h"

static ginResult_t blank(const struct device *d, uint32_t count, uint32_t depth, char *slab)
{
	const struct ginMlx5Cqe empty = {.state = ginMlx5CqeEmpty()};
	ginResult_t result = deviceWrite(d, slab, NULL, rdmaSlabBytes(count, depth));

	for (uint32_t i = 0; i < count && result == ginSuccess; i++)
		result = deviceWrite(d, slab + rdmaPlaceOf(i, depth).cqe, &empty, sizeof(empty));
	return result;
}

int slabIsNear(const struct device *d)
{
	return d->cuda && paramChoice(paramGdakiQueues) != gdakiQueuesHost;
}

ginResult_t slabMemory(const struct device *d, size_t bytes, void **at)
{
	if (paramChoice(paramGdakiQueues) == gdakiQueuesHost)
		return memoryAllocOnNode(d, bytes, d->numaNode, at);
	return memoryAlloc(d, bytes, at);
}

ginResult_t slabAlloc(const struct device *d, uint32_t count, uint32_t depth, char **slab)
{
	size_t bytes = rdmaSlabBytes(count, depth);
	void *at = NULL;
	ginResult_t result = slabMemory(d, bytes, &at);

	if (result != ginSuccess)
		return result;
	result = blank(d, count, depth, at);
	if (result == ginSuccess)
		*slab = at;
	else
		memoryFree(d, at);
	return result;
}

void slabFree(const struct device *d, char *slab)
{
	if (slab)
		memoryFree(d, slab);
}

ginResult_t slabQueues(const struct device *d, const struct rdma *rdma, struct rdmaPort *port,
		       char *slab, const struct rdmaSlab *shape, struct rdmaQueues **queues)
{
	struct rdmaSlab whole = *shape;
	char why[RDMA_WHY];

	whole.memory = dmabufOf(d, slab, rdmaSlabBytes(shape->count, shape->depth));
	int failed = rdma->queuesOpen(port, &whole, queues, why);
	dmabufClose(&whole.memory);
	return failed ? fail(ginErrorSystem, "gdaki: %s", why) : ginSuccess;
}
