/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5_nic_paths.c - what libgin sets in queue pairs, completion queues and keys
 *
 * This program is between libgin-rdma.so and libmlx5, notes the objects that libgin-rdma.so makes,
 * and queries the device for the attributes of each object. It needs two devices, of which mlx5_1
 * has the smaller MTU and fewer READs:
 *
 *	mlx5/dev/with-device --devices 2 --profile cx7,ib,mtu=4096/0,mtu=1024/1,reads=4/1
 */
/* COMPILE: -fvisibility=default */
/* LINK: -rdynamic -Wl,--no-as-needed */
/* PACKAGES: libmlx5 libibverbs */
/* NEEDS: libgin-rdma.so */
#include "nic_part.h"
#include "nic_rig.h"

#include <dlfcn.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "mlx5/prm.h"

enum { LIMIT = 4096, DEPTH = 64, QUEUES = 2, HOPS = 64, MTU_1024 = 3, LOG_MESSAGE = 30 };

/* The path of these tests: no two of its numbers are equal. */
static const struct rdmaPath path = {
	.serviceLevel = 3, .trafficClass = 0x6a, .timeout = 19, .retries = 5, .hopLimit = 33};

/* An object of the device. */
struct made {
	struct mlx5dv_devx_obj *object;
	uint32_t number;
};

/* In the order of creation. */
static struct made cqs[LIMIT], qps[LIMIT];
static uint32_t nCqs, nQps;
static int unacknowledged;  /* events */
static int withoutShared;   /* a register of its own, not the one that the process shares */
static unsigned lastAccess; /* of the region that was registered last */

#define NEXT(name) ((typeof(&name))next(#name))

static void *next(const char *name)
{
	void *call = dlsym(RTLD_NEXT, name);

	expectThat(call != NULL, __FILE__, __LINE__, "there is no %s", name);
	return call;
}

static void note(struct made *list, uint32_t *count, struct made made)
{
	uint32_t i = __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);

	EXPECT(i < LIMIT);
	list[i] = made;
}

struct mlx5dv_devx_obj *mlx5dv_devx_obj_create(struct ibv_context *context, const void *in,
					       size_t inBytes, void *out, size_t outBytes)
{
	struct mlx5dv_devx_obj *object =
		NEXT(mlx5dv_devx_obj_create)(context, in, inBytes, out, outBytes);

	struct made made = {object, (uint32_t)fieldGet(out, OUT_NUMBER)};

	if (object && fieldGet(in, IN_OPCODE) == COMMAND_CREATE_CQ)
		note(cqs, &nCqs, made);
	if (object && fieldGet(in, IN_OPCODE) == COMMAND_CREATE_QP)
		note(qps, &nQps, made);
	return object;
}

/* Uncached registers that are not dedicated are one register for the whole process. */
struct mlx5dv_devx_uar *mlx5dv_devx_alloc_uar(struct ibv_context *context, uint32_t flags)
{
	if (withoutShared && flags == MLX5DV_UAR_ALLOC_TYPE_NC)
		return NULL;
	return NEXT(mlx5dv_devx_alloc_uar)(context, flags);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t bytes, uint64_t iova,
				unsigned int access)
{
	lastAccess = access;
	return NEXT(ibv_reg_mr_iova2)(pd, address, bytes, iova, access);
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	int result = NEXT(ibv_get_async_event)(context, event);

	unacknowledged += !result;
	return result;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	NEXT(ibv_ack_async_event)(event);
	unacknowledged--;
}

/* A port with queues of its own. */
struct side {
	struct rig rig;
	struct rdmaEnd end[QUEUES];
	uint32_t firstQp; /* of this side, in qps */
};

static struct side here, there;

static void sideOpen(struct side *s, const char *device)
{
	const struct rdmaWanted wanted = {.device = device, .gid = -1};
	const struct rdmaMemory memory = {s->rig.window, RIG_WINDOW, -1, 0};
	struct rig *r = &s->rig;

	EXPECT_NIC(nic->portOpen(&wanted, &r->port, nicWhy));
	nic->portDescribe(r->port, &r->address, &r->features);
	EXPECT_NIC(nic->regionOpen(r->port, &memory, rdmaRemote, &r->region, &r->keys, nicWhy));
	EXPECT_NIC(nic->queuesOpen(r->port, &r->slab, &r->queues, nicWhy));
	s->firstQp = nQps;
	for (uint32_t i = 0; i < QUEUES; i++)
		EXPECT_NIC(nic->queueMake(r->queues, i, i, &s->end[i], nicWhy));
}

static void sidesOpen(void)
{
	rigMemory(&here.rig, QUEUES, DEPTH);
	rigMemory(&there.rig, QUEUES, DEPTH);
	sideOpen(&here, "mlx5_0");
	sideOpen(&there, "mlx5_1");
}

static void sidesClose(void)
{
	rigClose(&here.rig);
	rigClose(&there.rig);
}

static void joinOne(struct side *s, uint32_t i, const struct side *peer)
{
	EXPECT_NIC(nic->queueConnect(s->rig.queues, i, &peer->rig.address, &peer->end[i], &path,
				     nicWhy));
}

static void join(uint32_t i)
{
	joinOne(&here, i, &there);
	joinOne(&there, i, &here);
}

/* The answer to QUERY_QP or QUERY_CQ. */
struct attributes {
	uint8_t out[QUERY_QP_OUT_BYTES];
};

static struct attributes ask(const struct made *made, uint32_t opcode)
{
	uint8_t in[COMMAND_BYTES] = {0};
	struct attributes answer = {{0}};

	fieldSet(in, IN_OPCODE, opcode);
	fieldSet(in, QP_IN_QPN, made->number);
	EXPECT(!mlx5dv_devx_obj_query(made->object, in, sizeof(in), answer.out,
				      sizeof(answer.out)));
	return answer;
}

static struct attributes askQp(const struct side *s, uint32_t i)
{
	return ask(&qps[s->firstQp + i], COMMAND_QUERY_QP);
}

static uint32_t qpc(const struct attributes *a, uint32_t field)
{
	return (uint32_t)fieldGet(a->out, fieldAt(QP_OUT_QPC, field));
}

static uint32_t ads(const struct attributes *a, uint32_t field)
{
	return qpc(a, fieldAt(QPC_PRIMARY_PATH, field));
}

static int hasGid(const struct attributes *a, const uint8_t *gid)
{
	return !memcmp(a->out + (QP_OUT_QPC + QPC_PRIMARY_PATH + ADS_RGID) / 8, gid, 16);
}

/* `out`, `in`: log2 of the READs in flight as requester and as responder. */
static void expectLimits(const struct attributes *a, uint32_t out, uint32_t in)
{
	EXPECT_EQUAL(qpc(a, QPC_MTU), MTU_1024);
	EXPECT_EQUAL(qpc(a, QPC_LOG_MSG_MAX), LOG_MESSAGE);
	EXPECT_EQUAL(qpc(a, QPC_LOG_SRA_MAX), out);
	EXPECT_EQUAL(qpc(a, QPC_LOG_RRA_MAX), in);
}

static void expectTries(const struct attributes *a)
{
	EXPECT_EQUAL(qpc(a, QPC_RETRY_COUNT), path.retries);
	EXPECT_EQUAL(ads(a, ADS_ACK_TIMEOUT), path.timeout);
	EXPECT_EQUAL(qpc(a, QPC_RNR_RETRY), 7);
	EXPECT_EQUAL(qpc(a, QPC_MIN_RNR_NAK), 12);
}

/* Masked atomics take both sizes. */
static int hasMasked(void)
{
	return !nicProfile("nomasked") && !nicProfile("only8");
}

static void expectPair(const struct attributes *a, const struct side *s, const struct side *peer)
{
	EXPECT_EQUAL(qpc(a, QPC_REMOTE_QPN), peer->end[0].number);
	EXPECT_EQUAL(qpc(a, QPC_NEXT_SEND_PSN), s->end[0].packet);
	EXPECT_EQUAL(qpc(a, QPC_NEXT_RCV_PSN), peer->end[0].packet);
	EXPECT_EQUAL(qpc(a, QPC_PM_STATE), QPC_PM_MIGRATED);
	EXPECT_EQUAL(qpc(a, QPC_LOG_SQ_SIZE), __builtin_ctz(DEPTH));
	EXPECT_EQUAL(qpc(a, QPC_TS_FORMAT),
		     nicProfile("cx6") ? QPC_TS_FREE_RUNNING : QPC_TS_DEFAULT);
	EXPECT_EQUAL(qpc(a, QPC_ATOMIC_MODE),
		     hasMasked() ? QPC_ATOMIC_UP_TO_64B : QPC_ATOMIC_IB_SPEC);
	EXPECT(qpc(a, QPC_RRE) && qpc(a, QPC_RWE) && qpc(a, QPC_RAE));
	EXPECT_EQUAL(ads(a, ADS_VHCA_PORT_NUM), 1);
	EXPECT_EQUAL(ads(a, ADS_TCLASS), path.trafficClass);
}

/* Both sides use the smaller MTU, and neither reads more at a time than its peer answers. */
static void limits(void)
{
	sidesOpen();
	EXPECT_EQUAL(here.rig.address.mtu, 5);
	EXPECT_EQUAL(there.rig.address.mtu, MTU_1024);
	EXPECT_EQUAL(here.rig.address.logReads, 4);
	EXPECT_EQUAL(there.rig.address.logReads, 2);
	EXPECT_EQUAL(here.rig.address.atomics,
		     rdmaAtomics8 | (hasMasked() ? rdmaAtomicsMasked : 0));
	join(0);
	struct attributes a = askQp(&here, 0), b = askQp(&there, 0);
	expectLimits(&a, 2, 4);
	expectLimits(&b, 2, 2);
	expectTries(&a);
	expectTries(&b);
	expectPair(&a, &here, &there);
	expectPair(&b, &there, &here);
	sidesClose();
}

/* No code counts consumed CQEs of these queues: with overrun checks they would fail. */
static void completions(void)
{
	sidesOpen();
	EXPECT_EQUAL(nCqs, 2 * QUEUES);
	for (uint32_t i = 0; i < nCqs; i++) {
		struct attributes a = ask(&cqs[i], COMMAND_QUERY_CQ);
		EXPECT_EQUAL(fieldGet(a.out, fieldAt(QUERY_CQ_OUT_CQC, CQC_CC)), 1);
		EXPECT_EQUAL(fieldGet(a.out, fieldAt(QUERY_CQ_OUT_CQC, CQC_OI)), 1);
	}
	sidesClose();
}

static void infiniBand(void)
{
	sidesOpen();
	join(0);
	struct attributes a = askQp(&here, 0);
	EXPECT_EQUAL(ads(&a, ADS_RLID), there.rig.address.lid);
	EXPECT_EQUAL(ads(&a, ADS_SL), path.serviceLevel);
	EXPECT_EQUAL(ads(&a, ADS_GRH), 0);
	EXPECT_EQUAL(ads(&a, ADS_HOP_LIMIT), 0);
	there.rig.address.gid[3] ^= 1; /* another subnet */
	joinOne(&here, 1, &there);
	a = askQp(&here, 1);
	EXPECT_EQUAL(ads(&a, ADS_RLID), there.rig.address.lid);
	EXPECT_EQUAL(ads(&a, ADS_GRH), 1);
	EXPECT_EQUAL(ads(&a, ADS_HOP_LIMIT), path.hopLimit);
	EXPECT_EQUAL(ads(&a, ADS_SRC_ADDR_INDEX), here.rig.features.gid);
	EXPECT(hasGid(&a, there.rig.address.gid));
	here.rig.address.grh = 1; /* one subnet, and the port requires the header */
	joinOne(&there, 1, &here);
	a = askQp(&there, 1);
	EXPECT_EQUAL(ads(&a, ADS_GRH), 1);
	EXPECT(hasGid(&a, here.rig.address.gid));
	sidesClose();
}

static void roce(void)
{
	static const uint8_t mac[] = {0x02, 0x15, 0xb3, 0, 0, 2};
	uint32_t sports[QUEUES];

	sidesOpen();
	for (uint32_t i = 0; i < QUEUES; i++) {
		join(i);
		struct attributes a = askQp(&here, i);
		EXPECT(hasGid(&a, there.rig.address.gid));
		EXPECT_EQUAL(ads(&a, ADS_SRC_ADDR_INDEX), here.rig.features.gid);
		EXPECT_EQUAL(ads(&a, ADS_HOP_LIMIT), path.hopLimit);
		EXPECT_EQUAL(ads(&a, ADS_DSCP), path.trafficClass >> 2);
		EXPECT_EQUAL(ads(&a, ADS_ETH_PRIO), path.serviceLevel);
		EXPECT_EQUAL(ads(&a, ADS_RMAC_47_32), mac[0] << 8 | mac[1]);
		EXPECT_EQUAL(ads(&a, ADS_RMAC_31_0), (uint32_t)mac[2] << 24 | mac[5]);
		sports[i] = ads(&a, ADS_UDP_SPORT);
		EXPECT(sports[i] >= 0xc000);
	}
	EXPECT(sports[0] != sports[1]);
	sidesClose();
}

static struct ginMlx5Memory ofSide(const struct side *s, uint64_t offset)
{
	return (struct ginMlx5Memory){s->rig.keys.first + offset, ginMlx5Key(s->rig.keys.remote)};
}

/* Messages of many packets, and more READs at once than the peer answers at a time. */
static void transfers(void)
{
	enum { BYTES_OF_MANY = 20000, READS = 16 };
	struct rigQueue q;

	sidesOpen();
	join(0);
	q = rigQueue(&here.rig, 0, &here.end[0]);
	memset(here.rig.window, 0x5a, BYTES_OF_MANY);
	EXPECT_EQUAL(rigRun(&q, ginMlx5Write(rigSlot(&q), ofSide(&there, 0), ofSide(&here, 0),
					     BYTES_OF_MANY)),
		     ginMlx5CqeRequest);
	EXPECT(!memcmp(here.rig.window, there.rig.window, BYTES_OF_MANY));
	for (uint64_t i = 0; i < READS; i++)
		rigStore(&q, ginMlx5Read(rigSlot(&q), ofSide(&there, 0),
					 ofSide(&here, BYTES_OF_MANY + i * 8), 8));
	rigRing(&q);
	EXPECT_EQUAL(rigAwait(&q), ginMlx5CqeRequest);
	sidesClose();
}

/* Queues share the registers round robin. */
static void registers(void)
{
	struct rdmaRegister first, second;

	withoutShared = 1;
	sidesOpen();
	EXPECT_EQUAL(here.rig.slab.registers, QUEUES);
	nic->queueRegister(here.rig.queues, 0, &first);
	nic->queueRegister(here.rig.queues, 1, &second);
	EXPECT(first.at != second.at);
	struct attributes a = askQp(&here, 0), b = askQp(&here, 1);
	EXPECT(qpc(&a, QPC_UAR_PAGE) != qpc(&b, QPC_UAR_PAGE) || first.page == second.page);
	sidesClose();
}

static void expectAccess(unsigned access, unsigned flags)
{
	const struct rdmaMemory memory = {here.rig.window, RIG_WINDOW, -1, 0};
	struct rdmaRegion *region;
	struct rdmaKeys keys;

	EXPECT_NIC(nic->regionOpen(here.rig.port, &memory, access, &region, &keys, nicWhy));
	EXPECT_EQUAL(lastAccess, flags);
	nic->regionClose(region);
}

static void rights(void)
{
	const unsigned local = IBV_ACCESS_LOCAL_WRITE;
	const unsigned remote =
		local | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	sidesOpen();
	expectAccess(rdmaLocal, local);
	expectAccess(rdmaRemote, remote);
	expectAccess(rdmaRemote | rdmaRelaxed, remote | IBV_ACCESS_RELAXED_ORDERING);
	sidesClose();
}

/* A peer uses the key of memory that is local only. */
static void localOnly(void)
{
	struct rdmaRegion *region;
	struct rdmaKeys keys;
	struct rigQueue q;

	sidesOpen();
	const struct rdmaMemory memory = {there.rig.window, RIG_WINDOW, -1, 0};
	EXPECT_NIC(nic->regionOpen(there.rig.port, &memory, rdmaLocal, &region, &keys, nicWhy));
	struct ginMlx5Memory target = {keys.first, ginMlx5Key(keys.remote)};
	join(0);
	q = rigQueue(&here.rig, 0, &here.end[0]);
	EXPECT_EQUAL(rigRun(&q, ginMlx5Write(rigSlot(&q), target, ofSide(&here, 0), 8)),
		     ginMlx5CqeRequestError);
	EXPECT_EQUAL(rigSyndrome(&q), ginMlx5RemoteAccess);
	join(1);
	q = rigQueue(&here.rig, 1, &here.end[1]);
	EXPECT_EQUAL(rigRun(&q, ginMlx5Read(rigSlot(&q), target, ofSide(&here, 0), 8)),
		     ginMlx5CqeRequestError);
	EXPECT_EQUAL(rigSyndrome(&q), ginMlx5RemoteAccess);
	nic->regionClose(region);
	sidesClose();
}

/* ibv_get_async_event(3) requires that each event is acknowledged. */
static void acknowledged(void)
{
	char text[RDMA_WHY];
	int lost = 0;

	sidesOpen();
	nicFault("portdown");
	EXPECT_EQUAL(nic->portEvent(here.rig.port, text, &lost), 1);
	EXPECT_EQUAL(unacknowledged, 0);
	sidesClose();
}

/* GIN_NIC_SL, _TC, _TIMEOUT and _RETRIES reach every queue pair of a device communicator. */
/* The traffic class of a device communicator overrides the process's. */
static void ownTrafficClass(const struct part *p)
{
	ginDevCommRequirements_t want = GIN_DEV_COMM_REQUIREMENTS_INIT;
	uint32_t before = nQps;
	ginDevComm dc;

	want.trafficClass = 0x2c + p->me;
	EXPECT_SUCCESS(ginDevCommCreate(p->comm, &want, &dc));
	barrier(p->comm);
	if (p->me == 0) {
		int own = 0, other = 0;
		for (uint32_t i = before; i < nQps; i++) {
			struct attributes a = ask(&qps[i], COMMAND_QUERY_QP);
			own += ads(&a, ADS_TCLASS) == 0x2c;
			other += ads(&a, ADS_TCLASS) == 0x2d;
		}
		printf("queue pairs with a traffic class of their own: %d and %d\n", own, other);
		EXPECT(own == 2 && own + other == (int)(nQps - before));
	}
	barrier(p->comm);
	EXPECT_SUCCESS(ginDevCommDestroy(p->comm, &dc));
}

static int settings(const ginConfig_t *config)
{
	struct part p;

	openPart(&p, config);
	EXPECT_EQUAL(p.dc.sendQueues[0].fixed.masked, hasMasked());
	barrier(p.comm);
	if (p.me == 0)
		for (uint32_t i = nQps - CONTEXTS; i < nQps; i++) {
			struct attributes a = ask(&qps[i], COMMAND_QUERY_QP);
			EXPECT_EQUAL(ads(&a, nicProfile("roce") ? ADS_ETH_PRIO : ADS_SL), 5);
			EXPECT_EQUAL(ads(&a, ADS_TCLASS), 0x6a);
			EXPECT_EQUAL(ads(&a, ADS_ACK_TIMEOUT), 17);
			EXPECT_EQUAL(qpc(&a, QPC_RETRY_COUNT), 3);
			if (nicProfile("roce"))
				EXPECT_EQUAL(ads(&a, ADS_HOP_LIMIT), HOPS);
		}
	barrier(p.comm);
	ownTrafficClass(&p);
	return closePart(&p);
}

/* A peer gets an error if it uses the key of a window that is local only. */
static int localWindow(const ginConfig_t *config)
{
	struct ginMlx5Memory all[2];
	struct part p;

	openPart(&p, config);
	struct ginMlx5Memory mine = ownAt(p.out, 0);
	EXPECT_SUCCESS(ginCommAllgather(p.comm, &mine, all, sizeof(mine)));
	if (p.me == 0) {
		struct ginSendQueue *q = queueOf(&p.dc, 0, 1);
		store(q, ginMlx5Write(slotOf(q), all[1], ownAt(p.out, 0), 8));
		ring(q);
		EXPECT_EQUAL(await(q), ginMlx5CqeRequestError);
		EXPECT_EQUAL(ginMlx5CqeSyndrome(q->fixed.cqe->timestampLow), ginMlx5RemoteAccess);
	}
	barrier(p.comm);
	return closePart(&p);
}

static int countOf(int fd, const char *words)
{
	static char text[1 << 16];
	ssize_t length = pread(fd, text, sizeof(text) - 1, 0);
	int count = 0;

	text[length > 0 ? length : 0] = 0;
	for (const char *at = text; (at = strstr(at, words)); at++)
		count++;
	return count;
}

/* The monitor checks all queues each second, and reports a failure once. */
static int reportedOnce(const ginConfig_t *config)
{
	enum { LOOK_US = 1200000 };
	time_t end = time(NULL) + PATIENCE_S;
	int fd = memfd_create("log", MFD_CLOEXEC);
	struct part p;

	EXPECT(fd >= 0 && dup2(fd, STDERR_FILENO) == STDERR_FILENO);
	openPart(&p, config);
	struct ginSendQueue *q = queueOf(&p.dc, 0, 0);
	store(q, ginMlx5Write(slotOf(q), dataAt(p.in, 0, p.inBytes), ownAt(p.out, 0), 8));
	ring(q);
	EXPECT_EQUAL(await(q), ginMlx5CqeRequestError);
	while (!countOf(fd, "has failed") && time(NULL) < end)
		usleep(10000);
	usleep(LOOK_US);
	int count = countOf(fd, "has failed");
	if (count != 1) {
		printf("the failure is reported %d times\n", count);
		_exit(1);
	}
	return closePart(&p);
}

static void testReports(void)
{
	setenv("GIN_LOG", "warn", 1);
	runForks("a failure is reported once", 1, reportedOnce);
	setenv("GIN_LOG", "none", 1);
}

static void testSettings(void)
{
	setenv("GIN_NIC_SL", "5", 1);
	setenv("GIN_NIC_TC", "106", 1);
	setenv("GIN_NIC_TIMEOUT", "17", 1);
	setenv("GIN_NIC_RETRIES", "3", 1);
	runThreads("settings", 2, settings);
}

int main(void)
{
	const char *devices = getenv("MLX5DEV_DEVICES");

	setvbuf(stdout, NULL, _IOLBF, 0);
	prepareTests();
	nicLoad();
	if (!nicIsSoftware() || !devices || atoi(devices) < 2) {
		printf("there are no two software mlx5 devices: mlx5/dev/with-device\n");
		return 77;
	}
	expectChild("limits of two unequal ports", limits);
	expectChild("completion queues", completions);
	if (nicProfile("roce"))
		expectChild("RoCE v2", roce);
	else
		expectChild("InfiniBand, with and without a router", infiniBand);
	expectChild("transfers between unequal ports", transfers);
	expectChild("registers", registers);
	expectChild("rights", rights);
	expectChild("memory that is local only", localOnly);
	expectChild("events", acknowledged);
	setenv("GIN_BACKEND", "gdaki", 1);
	setenv("GIN_ROUTE", "network", 1);
	testSettings();
	runForks("a window that is local only", 2, localWindow);
	testReports();
	return expectFailures != 0;
}
