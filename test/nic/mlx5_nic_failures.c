/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5_nic_failures.c - each failure on the way to connected queues, of gdaki and of the network
 * verbs, is reported, and nothing is left
 *
 * This program stands between libgin-rdma.so and libmlx5: it counts objects that are made and not
 * destroyed, and can let the n-th call fail, in any order of the calls. Tests of the device's own
 * faults follow.
 */
/* COMPILE: -fvisibility=default */
/* LINK: -rdynamic -Wl,--no-as-needed */
/* PACKAGES: libmlx5 libibverbs */
/* NEEDS: libgin-rdma.so */
#include "backends/proxy/network/fabric.h"
#include "files.h"
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

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	if (fails(__func__))
		return NULL;
	inside = 1;
	struct ibv_context *context = NEXT(ibv_open_device)(device);
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

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	return fails(__func__) ? ENOSPC : NEXT(ibv_query_device)(context, attr);
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	return fails(__func__) ? NULL : counted(NEXT(ibv_create_comp_channel)(context));
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	return uncounted(NEXT(ibv_destroy_comp_channel)(channel));
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entries, void *of,
			     struct ibv_comp_channel *channel, int vector)
{
	if (fails(__func__))
		return NULL;
	return counted(NEXT(ibv_create_cq)(context, entries, of, channel, vector));
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return uncounted(NEXT(ibv_destroy_cq)(cq));
}

static typeof(((struct ibv_context_ops *)0)->post_recv) postReceive;
static struct ibv_qp *receiving;

/* One failure for each queue pair. */
static int firstReceive(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int isFirst = qp != receiving;

	receiving = qp;
	return isFirst && fails("ibv_post_recv") ? ENOSPC : postReceive(qp, wr, bad);
}

/* Without room for messages in requests a second try has success. */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static int none;

	if (attr->cap.max_inline_data)
		none = fails(__func__);
	if (pd->context->ops.post_recv != firstReceive)
		postReceive = pd->context->ops.post_recv;
	pd->context->ops.post_recv = firstReceive;
	receiving = NULL;
	return none ? NULL : counted(NEXT(ibv_create_qp)(pd, attr));
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	return uncounted(NEXT(ibv_destroy_qp)(qp));
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return fails(__func__) ? ENOSPC : NEXT(ibv_modify_qp)(qp, attr, mask);
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

static int queuesOnce(void)
{
	struct rig r;

	rigMemory(&r, COUNT, DEPTH);
	int result = connected(&r);
	rigClose(&r);
	return result;
}

static const struct fabricCalls *net;

/* An endpoint with GPU memory, which is its own peer. */
static int endOnce(struct fabric *f, void *memory)
{
	const struct rdmaMemory gpu = {memory, RIG_WINDOW, -1, 0};
	unsigned char address[FABRIC_ADDRESS], pair[16];
	struct fabricRegion *region[2] = {NULL, NULL};
	struct fabricEnd *end = NULL;
	struct fabricKey key;
	const char *how;
	uint64_t peer;

	int result = net->endOpen(f, &end, address, nicWhy);
	if (!result)
		result = net->memoryAdd(f, memory, RIG_WINDOW, &region[0], &key, nicWhy);
	if (!result)
		result = net->gpuMemoryAdd(f, &gpu, &region[1], &key, &how, nicWhy);
	if (!result)
		result = net->pairOpen(end, pair, &peer, nicWhy);
	if (!result)
		result = net->pairConnect(end, peer, address, pair, nicWhy);
	if (end)
		net->endClose(end);
	for (int i = 0; i < 2; i++)
		if (region[i])
			net->memoryRemove(region[i]);
	return result;
}

static uint8_t serviceLevel = 7; /* the highest on Ethernet */

static int networkOnce(void)
{
	static struct rdmaWanted port = {.device = "mlx5_0", .gid = -1, .isPlain = 1};
	const struct rdmaPath path = {
		.serviceLevel = serviceLevel, .timeout = 14, .retries = 7, .hopLimit = 64};
	const struct fabricWanted wanted = {.provider = "",
					    .interface = "",
					    .address = "",
					    .nic = &port,
					    .path = &path,
					    .peers = COUNT,
					    .hasGpu = 1};
	static void *memory;
	struct fabric *f;

	memory = memory ? memory : rigPages(RIG_WINDOW);
	int result = net->open(&wanted, &f, nicWhy);
	if (result)
		return result;
	result = endOnce(f, memory);
	net->close(f);
	return result;
}

/* Once without a failure, to count the calls; then with each call failing. */
static void eachOf(int (*once)(void), const char *notNeeded)
{
	int total;

	calls = 0;
	failing = -1;
	EXPECT_NIC(once());
	EXPECT_EQUAL(made, 0);
	const int files = countFiles();
	total = calls;
	EXPECT(total > 15);
	for (failing = 0; failing < total; failing++) {
		calls = 0;
		failed = NULL;
		strcpy(nicWhy, "");
		int result = once();
		EXPECT(failed);
		expectThat(!made, __FILE__, __LINE__, "%s failed: %d objects are left", failed,
			   made);
		EXPECT_EQUAL(countFiles(), files);
		if (!result)
			EXPECT_TEXT(failed, notNeeded);
		else
			EXPECT_HAS(nicWhy, strerror(ENOSPC));
		printf("ok: call %d, %s: %s\n", failing, failed, result ? nicWhy : "not needed");
	}
}

/* One doorbell register of two is enough. */
static void queues(void)
{
	eachOf(queuesOnce, "mlx5dv_devx_alloc_uar");
}

static void network(void)
{
	static const struct plugin plugin = {"libgin-rdma.so", FABRIC_SYMBOL,
					     sizeof(struct fabricCalls)};
	const void *found = NULL;

	EXPECT(pluginOpen(&plugin, &found, nicWhy, sizeof(nicWhy)) == pluginFound);
	net = found;
	eachOf(networkOnce, "");
	serviceLevel = 8;
	failing = -1;
	if (nicProfile("roce"))
		EXPECT_REFUSED(networkOnce(), "GIN_NIC_SL: must be 0 to 7 on Ethernet");
	else
		EXPECT_NIC(networkOnce());
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
	expectChild("each call, queues", queues);
	expectChild("each call, the network", network);
	faults();
	expectChild("removed", removed);
	return expectFailures != 0;
}
