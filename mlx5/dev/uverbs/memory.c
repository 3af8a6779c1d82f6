/* SPDX-License-Identifier: BSD-3-Clause */
#include "uverbs.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>
#include <rdma/mlx5_user_ioctl_cmds.h>
#include <stddef.h>
#include <string.h>

#include "mlx5/dev/device/fabric.h"
#include "mlx5/dev/host/options.h"
#include "mlx5/dev/device/resources.h"

enum { REMOTE_WRITES = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC };

int legacyAllocPd(const struct call *call)
{
	struct pd *pd = pdCreate(call->device, call->context);

	if (!pd)
		return ENOMEM;
	struct ib_uverbs_alloc_pd_resp answer = {.pd_handle = pd->object.handle};
	struct mlx5_ib_alloc_pd_resp driver = {.pdn = pd->object.id};
	attributeOut(call, UVERBS_ATTR_CORE_OUT, &answer, sizeof(answer.pd_handle));
	attributeOut(call, UVERBS_ATTR_UHW_OUT, &driver, sizeof(driver));
	return 0;
}

int legacyDeallocPd(const struct call *call)
{
	return uverbsDestroy(call, KIND_PD,
			     attributeNumber(call, UVERBS_ATTR_CORE_IN) & 0xffffffff);
}

int uverbsDestroyPd(const struct call *call)
{
	return uverbsDestroy(call, KIND_PD, attributeNumber(call, UVERBS_ATTR_DESTROY_PD_HANDLE));
}

/* The kernel's rule: remote write access needs local write access. */
static bool isAccess(uint32_t access)
{
	return !(access & REMOTE_WRITES) || access & IBV_ACCESS_LOCAL_WRITE;
}

static int registered(const struct call *call, const struct mr *mr)
{
	struct ib_uverbs_reg_mr_resp answer;

	if (!mr)
		return errno;
	answer.mr_handle = mr->object.handle;
	answer.lkey = answer.rkey = mr->key;
	trace("key 0x%x: %llu bytes at 0x%llx, from 0x%llx on, access 0x%x", mr->key,
	      (unsigned long long)mr->length, (unsigned long long)mr->address,
	      (unsigned long long)mr->iova, mr->access);
	attributeOut(call, UVERBS_ATTR_CORE_OUT, &answer, sizeof(answer));
	return 0;
}

int legacyRegisterMr(const struct call *call)
{
	struct ib_uverbs_reg_mr in;

	attributeCopy(call, UVERBS_ATTR_CORE_IN, &in, sizeof(in));
	struct pd *pd = objectByHandle(call->context, KIND_PD, in.pd_handle);
	if (!pd)
		return EINVAL;
	if (!isAccess(in.access_flags) || (in.start & 4095) != (in.hca_va & 4095))
		return EINVAL;
	return registered(call, mrCreate(pd, call->context, in.start, in.hca_va, in.length,
					 in.access_flags, -1));
}

int legacyDeregisterMr(const struct call *call)
{
	return uverbsDestroy(call, KIND_MR,
			     attributeNumber(call, UVERBS_ATTR_CORE_IN) & 0xffffffff);
}

int uverbsDestroyMr(const struct call *call)
{
	return uverbsDestroy(call, KIND_MR, attributeNumber(call, UVERBS_ATTR_DESTROY_MR_HANDLE));
}

int uverbsRegisterDmabuf(const struct call *call)
{
	struct pd *pd = objectByHandle(
		call->context, KIND_PD,
		(uint32_t)attributeNumber(call, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE));
	uint64_t offset = attributeNumber(call, UVERBS_ATTR_REG_DMABUF_MR_OFFSET);
	uint64_t iova = attributeNumber(call, UVERBS_ATTR_REG_DMABUF_MR_IOVA);
	uint32_t access = (uint32_t)attributeNumber(call, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS);

	if (!pd || !isAccess(access) || (offset & 4095) != (iova & 4095))
		return EINVAL;
	struct mr *mr = mrCreate(pd, call->context, offset, iova,
				 attributeNumber(call, UVERBS_ATTR_REG_DMABUF_MR_LENGTH), access,
				 (int)attributeNumber(call, UVERBS_ATTR_REG_DMABUF_MR_FD));
	if (!mr)
		return errno;
	attributeOutHandle(call, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, mr->object.handle);
	attributeOut(call, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, &mr->key, sizeof(mr->key));
	attributeOut(call, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, &mr->key, sizeof(mr->key));
	return 0;
}

int uverbsQueryMr(const struct call *call)
{
	struct mr *mr =
		objectByHandle(call->context, KIND_MR,
			       (uint32_t)attributeNumber(call, UVERBS_ATTR_QUERY_MR_HANDLE));

	if (!mr)
		return ENOENT;
	attributeOut(call, UVERBS_ATTR_QUERY_MR_RESP_LKEY, &mr->key, sizeof(mr->key));
	attributeOut(call, UVERBS_ATTR_QUERY_MR_RESP_RKEY, &mr->key, sizeof(mr->key));
	attributeOut(call, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &mr->length, sizeof(mr->length));
	attributeOut(call, UVERBS_ATTR_QUERY_MR_RESP_IOVA, &mr->iova, sizeof(mr->iova));
	return 0;
}

/* The device resolves the next hop: an unknown GID has none. */
int legacyCreateAh(const struct call *call)
{
	struct ib_uverbs_create_ah in;
	struct mlx5_ib_create_ah_resp driver = {.response_length = sizeof(driver)};

	attributeCopy(call, UVERBS_ATTR_CORE_IN, &in, sizeof(in));
	if (!objectByHandle(call->context, KIND_PD, in.pd_handle))
		return EINVAL;
	int peer = options.roce ? fabricByGid(in.attr.grh.dgid) : 0;
	if (peer < 0)
		return ETIMEDOUT;
	fabricMac(peer, driver.dmac);
	struct ah *ah = ahCreate(call->device, call->context);
	if (!ah)
		return ENOMEM;
	struct ib_uverbs_create_ah_resp answer = {.ah_handle = ah->object.handle};
	attributeOut(call, UVERBS_ATTR_CORE_OUT, &answer, sizeof(answer.ah_handle));
	attributeOut(call, UVERBS_ATTR_UHW_OUT, &driver, sizeof(driver));
	return 0;
}

int legacyDestroyAh(const struct call *call)
{
	return uverbsDestroy(call, KIND_AH,
			     attributeNumber(call, UVERBS_ATTR_CORE_IN) & 0xffffffff);
}

int uverbsDestroyAh(const struct call *call)
{
	return uverbsDestroy(call, KIND_AH, attributeNumber(call, UVERBS_ATTR_DESTROY_AH_HANDLE));
}

int uverbsRegisterUmem(const struct call *call)
{
	int fd = attributeHas(call, MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD)
			 ? (int)attributeNumber(call, MLX5_IB_ATTR_DEVX_UMEM_REG_DMABUF_FD)
			 : -1;
	uint64_t bytes = attributeNumber(call, MLX5_IB_ATTR_DEVX_UMEM_REG_LEN);

	if (!bytes)
		return EINVAL;
	struct umem *umem =
		umemCreate(call->device, call->context,
			   attributeNumber(call, MLX5_IB_ATTR_DEVX_UMEM_REG_ADDR), bytes, fd);
	if (!umem)
		return errno;
	attributeOut(call, MLX5_IB_ATTR_DEVX_UMEM_REG_OUT_ID, &umem->object.id,
		     sizeof(umem->object.id));
	attributeOutHandle(call, MLX5_IB_ATTR_DEVX_UMEM_REG_HANDLE, umem->object.handle);
	return 0;
}

int uverbsDestroyUmem(const struct call *call)
{
	return uverbsDestroy(call, KIND_UMEM,
			     attributeNumber(call, MLX5_IB_ATTR_DEVX_UMEM_DEREG_HANDLE));
}
