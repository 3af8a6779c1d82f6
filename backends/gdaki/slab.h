/* SPDX-License-Identifier: BSD-3-Clause */
/* slab.h - the memory of queues: in the GPU, or on the host by GIN_GDAKI_QUEUES */
#ifndef GIN_GDAKI_SLAB_H
#define GIN_GDAKI_SLAB_H

#include "backends/backend.h"
#include "rdma.h"

/* Is it memory of this GPU? */
int slabIsNear(const struct device *d);

/* Memory where queues are, for what their completions have to prove. The scope is entered. */
ginResult_t slabMemory(const struct device *d, size_t bytes, void **at);

/* Of rdmaSlabBytes(), with every completion entry empty. The scope is entered. */
ginResult_t slabAlloc(const struct device *d, uint32_t count, uint32_t depth, char **slab);

/* No NIC has it any more; NULL is allowed. */
void slabFree(const struct device *d, char *slab);

/* Queues in it, none of which is made yet. */
ginResult_t slabQueues(const struct device *d, const struct rdma *rdma, struct rdmaPort *port,
		       char *slab, const struct rdmaSlab *shape, struct rdmaQueues **queues);

#endif
