/* SPDX-License-Identifier: BSD-3-Clause */
#include "host.h"

#include <dlfcn.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "expect.h"

static struct ibv_context *context;
static struct ibv_pd *pd;

void hostOpen(void)
{
	struct mlx5dv_context_attr attributes = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
	struct ibv_device **list = ibv_get_device_list(NULL);

	EXPECT(list && list[0] && mlx5dv_is_supported(list[0]));
	context = mlx5dv_open_device(list[0], &attributes);
	EXPECT(context);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	EXPECT(pd);
}

uint32_t hostPdn(void)
{
	struct mlx5dv_pd driver;
	struct mlx5dv_obj object = {.pd = {pd, &driver}};

	EXPECT(!mlx5dv_init_obj(&object, MLX5DV_OBJ_PD));
	return driver.pdn;
}

uint32_t hostRegister(void *address, size_t bytes, uint64_t iova, unsigned int access)
{
	struct ibv_mr *mr = ibv_reg_mr_iova2(pd, address, bytes, iova, access);

	return mr ? mr->lkey : 0;
}

uint32_t hostRegisterElsewhere(void *address, size_t bytes, uint64_t iova, unsigned int access)
{
	struct ibv_mr *mr = ibv_reg_mr_iova2(ibv_alloc_pd(context), address, bytes, iova, access);

	return mr ? mr->lkey : 0;
}

uint32_t hostUmem(void *address, size_t bytes)
{
	struct mlx5dv_devx_umem *umem =
		mlx5dv_devx_umem_reg(context, address, bytes, IBV_ACCESS_LOCAL_WRITE);

	return umem ? umem->umem_id : 0;
}

/*
 * A register of its own. Before rdma-core 45 there is none without write combining but the one that
 * all share, in which a device that polls may miss a doorbell.
 */
bool hostUar(struct host_uar *uar)
{
	struct mlx5dv_devx_uar *made = mlx5dv_devx_alloc_uar(context, 1u << 31);

	if (!made)
		made = mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_BF);
	if (!made)
		return false;
	*uar = (struct host_uar){made->page_id, made->reg_addr, (struct host_object *)made};
	return true;
}

struct host_object *hostCreate(const void *in, size_t inBytes, void *out, size_t outBytes)
{
	return (struct host_object *)mlx5dv_devx_obj_create(context, in, inBytes, out, outBytes);
}

bool hostModify(struct host_object *object, const void *in, size_t inBytes, void *out,
		size_t outBytes)
{
	return !mlx5dv_devx_obj_modify((struct mlx5dv_devx_obj *)object, in, inBytes, out,
				       outBytes);
}

bool hostQuery(struct host_object *object, const void *in, size_t inBytes, void *out,
	       size_t outBytes)
{
	return !mlx5dv_devx_obj_query((struct mlx5dv_devx_obj *)object, in, inBytes, out, outBytes);
}

bool hostGeneral(const void *in, size_t inBytes, void *out, size_t outBytes)
{
	return !mlx5dv_devx_general_cmd(context, in, inBytes, out, outBytes);
}

void hostDestroy(struct host_object *object)
{
	EXPECT(!mlx5dv_devx_obj_destroy((struct mlx5dv_devx_obj *)object));
}

/* Calls a function of the preloaded device. */
static void callDevice(const char *name)
{
	void (*function)(void);

	*(void **)&function = dlsym(RTLD_DEFAULT, name);
	EXPECT(function);
	function();
}

void hostHold(void)
{
	callDevice("engineHold");
}

void hostStep(void)
{
	callDevice("engineStep");
}

void hostRelease(void)
{
	callDevice("engineRelease");
}
