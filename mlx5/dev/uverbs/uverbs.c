/* SPDX-License-Identifier: BSD-3-Clause */
#include "uverbs.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <sys/mman.h>

#include "mlx5/dev/engine/doorbell.h"
#include "mlx5/dev/device/event.h"
#include "mlx5/dev/host/options.h"
#include "mlx5/dev/device/resources.h"

enum { CONTEXTS = 256, MMAP_OFFSET = 0x100000 };

static struct context {
	bool isOpen;
	int fd, index;
} contexts[CONTEXTS];

static struct context *find(int fd)
{
	for (int i = 0; i < CONTEXTS; i++)
		if (contexts[i].isOpen && contexts[i].fd == fd)
			return &contexts[i];
	return NULL;
}

void uverbsOpened(int fd, int index)
{
	deviceLock();
	for (int i = 0; i < CONTEXTS; i++) {
		if (contexts[i].isOpen)
			continue;
		contexts[i] = (struct context){true, fd, index};
		break;
	}
	deviceUnlock();
}

void uverbsClosed(int fd)
{
	deviceLock();
	struct context *context = find(fd);
	if (context) {
		resourcesOfContext(fd);
		eventCloseAsync(fd);
		context->isOpen = false;
	}
	deviceUnlock();
}

/* An open descriptor does not close while another thread uses it. */
bool uverbsIsOpen(int fd)
{
	return find(fd);
}

static const struct method {
	uint16_t object, method;
	uverbs_method *run;
} methods[] = {
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, uverbsGetContext},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, uverbsQueryPort},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, uverbsQueryGid},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, uverbsQueryGidTable},
	{UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, uverbsInvokeWrite},
	{UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, uverbsAsyncEvents},
	{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, uverbsCreateCq},
	{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, uverbsDestroyCq},
	{UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, uverbsCreateSrq},
	{UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, uverbsDestroySrq},
	{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, uverbsCreateQp},
	{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, uverbsDestroyQp},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, uverbsRegisterDmabuf},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, uverbsQueryMr},
	{UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, uverbsDestroyMr},
	{UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, uverbsDestroyPd},
	{UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, uverbsDestroyAh},
	{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_ALLOC, uverbsAllocUar},
	{MLX5_IB_OBJECT_UAR, MLX5_IB_METHOD_UAR_OBJ_DESTROY, uverbsDestroyUar},
	{MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_REG, uverbsRegisterUmem},
	{MLX5_IB_OBJECT_DEVX_UMEM, MLX5_IB_METHOD_DEVX_UMEM_DEREG, uverbsDestroyUmem},
	{MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_OTHER, uverbsDevxOther},
	{MLX5_IB_OBJECT_DEVX, MLX5_IB_METHOD_DEVX_QUERY_EQN, uverbsDevxQueryEqn},
	{MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_CREATE, uverbsDevxCreate},
	{MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_MODIFY, uverbsDevxModify},
	{MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_QUERY, uverbsDevxQuery},
	{MLX5_IB_OBJECT_DEVX_OBJ, MLX5_IB_METHOD_DEVX_OBJ_DESTROY, uverbsDevxDestroy},
};

static uverbs_method *methodFind(const struct ib_uverbs_ioctl_hdr *header)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
		if (methods[i].object == header->object_id &&
		    methods[i].method == header->method_id)
			return methods[i].run;
	trace("uverbs object 0x%x has no method 0x%x here", header->object_id, header->method_id);
	return NULL;
}

/* A removed device frees its own objects, and no others. */
static bool isDestroying(const struct ib_uverbs_ioctl_hdr *header)
{
	uverbs_method *run = methodFind(header);

	return run == uverbsDestroyCq || run == uverbsDestroyQp || run == uverbsDestroySrq ||
	       run == uverbsDestroyMr || run == uverbsDestroyPd || run == uverbsDestroyAh ||
	       run == uverbsDestroyUar || run == uverbsDestroyUmem || run == uverbsDevxDestroy;
}

static int run(int fd, struct ib_uverbs_ioctl_hdr *header)
{
	struct context *context = find(fd);
	uverbs_method *method = methodFind(header);

	if (!context)
		return EBADF;
	struct call call = {header, fd, &devices[context->index]};
	if (call.device->removed && !isDestroying(header))
		return EIO;
	return method ? method(&call) : EPROTONOSUPPORT;
}

int uverbsIoctl(int fd, struct ib_uverbs_ioctl_hdr *header)
{
	int before = errno;

	deviceStart();
	deviceLock();
	int error = run(fd, header);
	deviceUnlock();
	errno = error ? error : before;
	return error ? -1 : 0;
}

void *uverbsMmap(void *where, size_t bytes, int protection, int flags, uint64_t offset)
{
	uint64_t first = (offset - MMAP_OFFSET) / DOORBELL_PAGE_BYTES;
	void *at = MAP_FAILED;

	deviceLock();
	if (offset >= MMAP_OFFSET && first + bytes / DOORBELL_PAGE_BYTES <= DOORBELL_PAGES)
		at = doorbellMap(where, bytes, protection, flags, (uint32_t)first);
	else
		errno = EINVAL;
	deviceUnlock();
	return at;
}

int uverbsDestroy(const struct call *call, enum kind kind, uint64_t handle)
{
	struct object *object = objectByHandle(call->context, kind, (uint32_t)handle);

	if (!object)
		return ENOENT;
	return resourceDestroy(object) ? 0 : errno;
}

int uverbsAllocUar(const struct call *call)
{
	struct uar *uar = uarCreate(call->device, call->context);
	uint32_t bytes = DOORBELL_PAGE_BYTES;

	if (!uar)
		return ENOMEM;
	uint64_t offset = MMAP_OFFSET + (uint64_t)uar->index * DOORBELL_PAGE_BYTES;
	attributeOutHandle(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_HANDLE, uar->object.handle);
	attributeOut(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_OFFSET, &offset, sizeof(offset));
	attributeOut(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_MMAP_LENGTH, &bytes, sizeof(bytes));
	attributeOut(call, MLX5_IB_ATTR_UAR_OBJ_ALLOC_PAGE_ID, &uar->object.id,
		     sizeof(uar->object.id));
	return 0;
}

int uverbsDestroyUar(const struct call *call)
{
	return uverbsDestroy(call, KIND_UAR,
			     attributeNumber(call, MLX5_IB_ATTR_UAR_OBJ_DESTROY_HANDLE));
}
