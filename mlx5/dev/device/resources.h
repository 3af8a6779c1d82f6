/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resources.h - makes and destroys objects for programs: memory keys, umems, doorbell pages,
 * completion queues, shared receive queues, queue pairs
 *
 * These are what uverbs calls end in, and what a program calls that has the engine linked in. NULL
 * or false with errno. `context` is the uverbs descriptor; a program without one gives
 * CONTEXT_NONE.
 */
#ifndef MLX5DEV_RESOURCES_H
#define MLX5DEV_RESOURCES_H

#include "device.h"

enum { CONTEXT_NONE = -1 };

struct pd *pdCreate(struct device *device, int context);
struct ah *ahCreate(struct device *device, int context);

/* dmabuf: a descriptor, mapped from `address` on; negative: address is the program's. */
struct mr *mrCreate(struct pd *pd, int context, uint64_t address, uint64_t iova, uint64_t length,
		    uint32_t access, int dmabuf);
struct umem *umemCreate(struct device *device, int context, uint64_t address, uint64_t length,
			int dmabuf);
struct uar *uarCreate(struct device *device, int context);

/* Adds one whose fields are filled in. */
struct cq *cqCreate(struct device *device, int context, const struct cq *filled);
struct srq *srqCreate(struct device *device, int context, const struct srq *filled);
struct qp *qpCreate(struct device *device, int context, const struct qp *filled);

/* EBUSY while something refers to it. */
bool resourceDestroy(struct object *object);
/* All of a context that is closed. */
void resourcesOfContext(int context);

#endif
