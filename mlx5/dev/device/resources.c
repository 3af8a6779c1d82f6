/* SPDX-License-Identifier: BSD-3-Clause */
#include "resources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mlx5/dev/engine/doorbell.h"
#include "fabric.h"
#include "fault.h"
#include "late.h"
#include "mlx5/dev/host/memory.h"
#include "mlx5/dev/host/options.h"
#include "mlx5/dev/engine/qp.h"

static void *create(struct device *device, int context, enum kind kind, size_t bytes)
{
	if (faultAtCreation(kind))
		return errno = ENOMEM, NULL;
	struct object *object = calloc(1, bytes);
	if (!object)
		return NULL;
	objectAdd(object, device, kind, fabricNewId(device->index, kind), context);
	return object;
}

struct pd *pdCreate(struct device *device, int context)
{
	return create(device, context, KIND_PD, sizeof(struct pd));
}

struct ah *ahCreate(struct device *device, int context)
{
	return create(device, context, KIND_AH, sizeof(struct ah));
}

/* A CPU cannot map a GPU's; as on kernels without dma-buf there is the way by address then. */
static void *refuseDmabuf(const char *why)
{
	trace("a dma-buf is refused: %s; memory of a GPU can be registered by its address, as with "
	      "nvidia-peermem",
	      why);
	return errno = EOPNOTSUPP, MAP_FAILED;
}

/* Of a dma-buf the device has a mapping of its own; other memory is the program's, NULL. */
static void *mapped(int dmabuf, uint64_t offset, uint64_t length, uint64_t *address, size_t *bytes)
{
	if (dmabuf < 0)
		return memoryTake(offset, length) ? NULL : (errno = EFAULT, MAP_FAILED);
	if (!options.dmabuf)
		return refuseDmabuf("the profile says nodmabuf");
	*bytes = offset + length;
	void *all = mmap(NULL, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
	if (all == MAP_FAILED)
		return refuseDmabuf("this CPU cannot map it");
	*address = (uintptr_t)all + offset;
	return all;
}

static void unmapped(void *all, size_t bytes, uint64_t address, uint64_t length)
{
	if (all)
		munmap(all, bytes);
	else
		memoryForget(address, length);
}

struct mr *mrCreate(struct pd *pd, int context, uint64_t address, uint64_t iova, uint64_t length,
		    uint32_t access, int dmabuf)
{
	size_t bytes = 0;
	void *all = mapped(dmabuf, address, length, &address, &bytes);
	struct mr *mr = NULL;

	if (all == MAP_FAILED)
		return NULL;
	mr = create(pd->object.device, context, KIND_MR, sizeof(*mr));
	if (!mr)
		return unmapped(all, bytes, address, length), NULL;
	mr->pd = pd;
	mr->pd->object.users++;
	mr->key = mr->object.id << 8 | 0x5a;
	mr->address = address;
	mr->iova = iova;
	mr->length = length;
	mr->access = access;
	mr->mapped = all;
	mr->mappedBytes = bytes;
	return mr;
}

struct umem *umemCreate(struct device *device, int context, uint64_t address, uint64_t length,
			int dmabuf)
{
	size_t bytes = 0;
	void *all = mapped(dmabuf, address, length, &address, &bytes);
	struct umem *umem = NULL;

	if (all == MAP_FAILED)
		return NULL;
	umem = create(device, context, KIND_UMEM, sizeof(*umem));
	if (!umem)
		return unmapped(all, bytes, address, length), NULL;
	umem->address = address;
	umem->length = length;
	umem->mapped = all;
	umem->mappedBytes = bytes;
	return umem;
}

struct uar *uarCreate(struct device *device, int context)
{
	int page = faultAtCreation(KIND_UAR) ? -1 : doorbellPage(device->index);

	if (page < 0)
		return errno = ENOMEM, NULL;
	struct uar *uar = calloc(1, sizeof(*uar));
	if (!uar)
		return NULL;
	uar->index = (uint32_t)page;
	objectAdd(&uar->object, device, KIND_UAR, DOORBELL_PAGE_ID + uar->index, context);
	return uar;
}

struct cq *cqCreate(struct device *device, int context, const struct cq *filled)
{
	struct cq *cq = create(device, context, KIND_CQ, sizeof(*cq));
	struct object object;

	if (!cq)
		return NULL;
	object = cq->object;
	*cq = *filled;
	cq->object = object;
	cq->request = ~0u; /* none */
	if (cq->memory)
		cq->memory->users++;
	if (cq->record)
		cq->record->users++;
	return cq;
}

static void cqUnmake(struct cq *cq)
{
	if (cq->memory)
		cq->memory->users--;
	if (cq->record)
		cq->record->users--;
}

struct srq *srqCreate(struct device *device, int context, const struct srq *filled)
{
	struct srq *srq = create(device, context, KIND_SRQ, sizeof(*srq));
	struct object object;

	if (!srq)
		return NULL;
	object = srq->object;
	*srq = *filled;
	srq->object = object;
	srq->pd->object.users++;
	return srq;
}

struct qp *qpCreate(struct device *device, int context, const struct qp *filled)
{
	if (faultAtCreation(KIND_QP))
		return errno = ENOMEM, NULL;
	struct qp *qp = malloc(sizeof(*qp));
	if (!qp)
		return NULL;
	*qp = *filled;
	objectAdd(&qp->object, device, KIND_QP, fabricNewQpn(device->index), context);
	qpAdd(qp);
	return qp;
}

static void mrUnmake(struct mr *mr)
{
	lateFlushAll(mr->object.device);
	mr->pd->object.users--;
	unmapped(mr->mapped, mr->mappedBytes, mr->address, mr->length);
}

static void umemUnmake(struct umem *umem)
{
	unmapped(umem->mapped, umem->mappedBytes, umem->address, umem->length);
}

bool resourceDestroy(struct object *object)
{
	if (object->users)
		return errno = EBUSY, false;
	switch (object->kind) {
	case KIND_QP:
		qpDestroy((
			struct qp *)object); /* stays, for the sake of the sentence about its use */
		return true;
	case KIND_MR:
		mrUnmake((struct mr *)object);
		break;
	case KIND_UMEM:
		umemUnmake((struct umem *)object);
		break;
	case KIND_UAR:
		doorbellPageFree(((struct uar *)object)->index);
		break;
	case KIND_CQ:
		cqUnmake((struct cq *)object);
		break;
	case KIND_SRQ:
		((struct srq *)object)->pd->object.users--;
		break;
	default:
		break;
	}
	objectRemove(object);
	return true;
}

static void destroyAnyhow(struct object *object)
{
	resourceDestroy(object);
}

void resourcesOfContext(int context)
{
	objectsOfContext(context, destroyAnyhow);
}
