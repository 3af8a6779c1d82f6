/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5_nic_failures.c - each failure on the way to connected queues is reported, and nothing is
 * left
 *
 * This program stands between libgin-rdma.so and libmlx5: it counts objects that are made and not
 * destroyed, and can let the n-th call fail, in any order of the calls. Tests of the device's own
 * faults follow.
 */
/* COMPILE: -fvisibility=default */
/* LINK: -rdynamic -Wl,--no-as-needed */
/* PACKAGES: libmlx5 libibverbs */
/* NEEDS: libgin-rdma.so */
#include "nic_rig.h"

#include <dlfcn.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

enum { COUNT = 2, DEPTH = 64 };

static int calls;	   /* calls that can fail, so far */
static int failing = -1;   /* the call that fails */
static int made;	   /* objects that are made and not destroyed */
static const char *failed; /* its name */
static int inside;	   /* libmlx5 calls these itself while it opens or closes a device */

static int fails(const char *name)
{
	if (inside || calls++ != failing)
		return 0;
	failed = name;
	errno = ENOSPC;
	return 1;
}

static void *next(const char *name)
{
	void *call = dlsym(RTLD_NEXT, name);

	expectThat(call != NULL, __FILE__, __LINE__, "there is no %s", name);
	return call;
}

static void *counted(void *object)
{
	made += object && !inside;
	return object;
}

static int uncounted(int result)
{
	made -= !result && !inside;
	return result;
}

#define NEXT(name) ((typeof(&name))next(#name))

struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr)
{
	if (fails(__func__))
		return NULL;
	inside = 1;
	struct ibv_context *context = NEXT(mlx5dv_open_device)(device, attr);
	inside = 0;
	return counted(context);
}

int ibv_close_device(struct ibv_context *context)
{
	inside = 1;
	int result = NEXT(ibv_close_device)(context);
	inside = 0;
	return uncounted(result);
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	return fails(__func__) ? NULL : counted(NEXT(ibv_alloc_pd)(context));
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	return uncounted(NEXT(ibv_dealloc_pd)(pd));
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova,
				unsigned int access)
{
	if (fails(__func__))
		return NULL;
	return counted(NEXT(ibv_reg_mr_iova2)(pd, address, bytes, iova, access));
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	return uncounted(NEXT(ibv_dereg_mr)(mr));
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	return fails(__func__) ? NULL : counted(NEXT(ibv_create_ah)(pd, attr));
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	return uncounted(NEXT(ibv_destroy_ah)(ah));
}

struct mlx5dv_devx_umem *mlx5dv_devx_umem_reg(struct ibv_context *context, void *address,
					      size_t bytes, uint32_t access)
{
	if (fails(__func__))
		return NULL;
	return counted(NEXT(mlx5dv_devx_umem_reg)(context, address, bytes, access));
}

int mlx5dv_devx_umem_dereg(struct mlx5dv_devx_umem *umem)
{
	return uncounted(NEXT(mlx5dv_devx_umem_dereg)(umem));
}

/* All kinds of calls fail, or none: one missing kind alone is no failure. */
struct mlx5dv_devx_uar *mlx5dv_devx_alloc_uar(struct ibv_context *context, uint32_t flags)
{
	static int none;

	if (flags >> 31) /* the first that is tried */
		none = fails(__func__);
	if (none)
		return NULL;
	return counted(NEXT(mlx5dv_devx_alloc_uar)(context, flags));
}

void mlx5dv_devx_free_uar(struct mlx5dv_devx_uar *uar)
{
	NEXT(mlx5dv_devx_free_uar)(uar);
	made--;
}

struct mlx5dv_devx_obj *mlx5dv_devx_obj_create(struct ibv_context *context, const void *in,
					       size_t inBytes, void *out, size_t outBytes)
{
	if (fails(__func__))
		return NULL;
	return counted(NEXT(mlx5dv_devx_obj_create)(context, in, inBytes, out, outBytes));
}

int mlx5dv_devx_obj_destroy(struct mlx5dv_devx_obj *object)
{
	return uncounted(NEXT(mlx5dv_devx_obj_destroy)(object));
}

int mlx5dv_devx_obj_modify(struct mlx5dv_devx_obj *object, const void *in, size_t inBytes,
			   void *out, size_t outBytes)
{
	if (fails(__func__))
		return ENOSPC;
	return NEXT(mlx5dv_devx_obj_modify)(object, in, inBytes, out, outBytes);
}

int mlx5dv_devx_general_cmd(struct ibv_context *context, const void *in, size_t inBytes, void *out,
			    size_t outBytes)
{
	if (fails(__func__))
		return ENOSPC;
	return NEXT(mlx5dv_devx_general_cmd)(context, in, inBytes, out, outBytes);
}

int mlx5dv_devx_query_eqn(struct ibv_context *context, uint32_t vector, uint32_t *eqn)
{
	return fails(__func__) ? ENOSPC : NEXT(mlx5dv_devx_query_eqn)(context, vector, eqn);
}

/* All steps up to connected queues. */
static int connected(struct rig *r)
{
	struct rdmaEnd end[COUNT];

	if (rigOpen(r))
		return -1;
	for (uint32_t i = 0; i < COUNT; i++)
		if (nic->queueMake(r->queues, i, i, &end[i], nicWhy))
			return -1;
	for (uint32_t i = 0; i < COUNT; i++)
		if (nic->queueConnect(r->queues, i, &r->address, &end[i ^ 1], &rigPath, nicWhy))
			return -1;
	return 0;
}

/* Once without a failure, to count the calls; then with each call failing. */
static void each(void)
{
	struct rig r;
	int total;

	rigMemory(&r, COUNT, DEPTH);
	EXPECT_NIC(connected(&r));
	EXPECT(made > 0);
	rigClose(&r);
	EXPECT_EQUAL(made, 0);
	total = calls;
	EXPECT(total > 15);
	for (failing = 0; failing < total; failing++) {
		calls = 0;
		failed = NULL;
		strcpy(nicWhy, "");
		rigMemory(&r, COUNT, DEPTH);
		int result = connected(&r);
		rigClose(&r);
		EXPECT(failed);
		expectThat(!made, __FILE__, __LINE__, "%s failed: %d objects are left", failed,
			   made);
		/* One doorbell register of two is enough. */
		if (!result)
			EXPECT_TEXT(failed, "mlx5dv_devx_alloc_uar");
		else
			EXPECT_HAS(nicWhy, strerror(ENOSPC));
		printf("ok: call %d, %s: %s\n", failing, failed, result ? nicWhy : "not needed");
	}
}

static const char *word;  /* of the device's fault */
static const char *words; /* of the sentence */

static void fault(void)
{
	struct rdmaPort *port;
	struct rig r;

	EXPECT_NIC(
		nic->portOpen(&(struct rdmaWanted){.device = "mlx5_0", .gid = -1}, &port, nicWhy));
	nicFault(word);
	rigMemory(&r, COUNT, DEPTH);
	EXPECT_REFUSED(connected(&r), words);
	rigClose(&r);
	nic->portClose(port);
	EXPECT_EQUAL(made, 0);
}

static void faults(void)
{
	static const char *const list[][2] = {
		{"no-pd=0", "a protection domain: "},
		{"no-mr=0", "cannot be registered (is the limit on locked memory too low?"},
		{"no-umem=0", "cannot hold queues (is the limit"},
		{"no-uar=0", "a doorbell register of any kind: "},
		{"no-cq=0", "CREATE_CQ: "},
		{"no-cq=1", "CREATE_CQ: "},
		{"no-qp=0", "CREATE_QP: "},
		{"no-qp=1", "CREATE_QP: "},
		{"portdown", "port 1 is down"},
		{"remove", "the device is gone"},
	};

	for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
		word = list[i][0];
		words = list[i][1];
		expectChild(word, fault);
	}
}

/* The device disappears while queues are connected, with and without a failed queue. */
static void removed(void)
{
	struct rig r;

	rigMemory(&r, COUNT, DEPTH);
	EXPECT_NIC(connected(&r));
	EXPECT_NIC(nic->queueFail(r.queues, 1, nicWhy));
	nicFault("remove");
	int state;
	EXPECT_REFUSED(nic->queueState(r.queues, 0, &state, nicWhy), "the device is gone");
	rigClose(&r);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	nicLoad();
	nicNeedAtomics();
	expectChild("each call", each);
	faults();
	expectChild("removed", removed);
	return expectFailures != 0;
}
