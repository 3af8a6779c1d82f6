/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mlx5_nic_queues.c - queues of libgin-rdma.so: connected within a process and between two, they do
 * what gin/core/mlx5.h describes
 */
/* PACKAGES: libmlx5 libibverbs */
/* NEEDS: libgin-rdma.so */
#include "nic_rig.h"

#include <fcntl.h>
#include <sys/mman.h>

enum { COUNT = 6, DEPTH = 64, AT = 4096, LAPS = 5 };

/* What one side sends to the other. */
struct facts {
	struct rdmaAddress address;
	struct rdmaEnd end;
	uint32_t key;
	uint64_t window;
};

static struct facts make(struct rig *r, uint32_t i)
{
	struct facts facts = {
		.address = r->address, .key = r->keys.remote, .window = r->keys.first};

	EXPECT_NIC(nic->queueMake(r->queues, i, 0x1000 + i, &facts.end, nicWhy));
	return facts;
}

static void connectTo(struct rig *r, uint32_t i, const struct facts *peer)
{
	EXPECT_NIC(nic->queueConnect(r->queues, i, &peer->address, &peer->end, &rigPath, nicWhy));
}

static void expectState(struct rig *r, uint32_t i, int expected)
{
	int state = -1;

	EXPECT_NIC(nic->queueState(r->queues, i, &state, nicWhy));
	EXPECT_EQUAL(state, expected);
}

static struct ginMlx5Memory here(const struct rig *r, uint64_t offset)
{
	return (struct ginMlx5Memory){r->keys.first + offset, ginMlx5Key(r->keys.local)};
}

static struct ginMlx5Memory there(const struct facts *peer, uint64_t offset)
{
	return (struct ginMlx5Memory){peer->window + offset, ginMlx5Key(peer->key)};
}

/*
 * A write, an add that brings back the old value, a read of both, and the operation that makes its
 * data visible; many times around the queue.
 */
static void drive(struct rig *r, struct rigQueue *q, const struct facts *peer, uint64_t to)
{
	uint64_t seen[2];

	for (uint64_t n = 0; n < LAPS * DEPTH; n++) {
		memcpy(r->window, &n, 8);
		EXPECT_EQUAL(rigRun(q, ginMlx5Write(rigSlot(q), there(peer, to), here(r, 0), 8)),
			     ginMlx5CqeRequest);
		EXPECT_EQUAL(
			rigRun(q, ginMlx5FetchAdd(rigSlot(q), there(peer, to + 8), here(r, 8), 3)),
			ginMlx5CqeRequest);
		EXPECT_EQUAL(rigRun(q, ginMlx5Read(rigSlot(q), there(peer, to), here(r, 16), 16)),
			     ginMlx5CqeRequest);
		EXPECT_EQUAL(rigRun(q, ginMlx5Dump(rigSlot(q), here(r, 16), 16)),
			     ginMlx5CqeRequest);
		EXPECT(!memcmp(r->window + 8, &(uint64_t){3 * n}, 8));
		memcpy(seen, r->window + 16, sizeof(seen));
		EXPECT_EQUAL(seen[0], n);
		EXPECT_EQUAL(seen[1], 3 * (n + 1));
	}
}

/* Queues 0 and 1, connected to each other */
static void makePair(struct rig *r, struct facts *facts)
{
	facts[0] = make(r, 0);
	facts[1] = make(r, 1);
	connectTo(r, 0, &facts[1]);
	connectTo(r, 1, &facts[0]);
}

/* Pairs of queues of one slab, connected to each other. */
static void loop(void)
{
	struct facts facts[COUNT];
	struct rig r;

	rigMemory(&r, COUNT, DEPTH);
	EXPECT_NIC(rigOpen(&r));
	for (uint32_t i = 0; i < COUNT; i++) {
		facts[i] = make(&r, i);
		expectState(&r, i, rdmaReset);
	}
	for (uint32_t i = 0; i < COUNT; i++) {
		connectTo(&r, i, &facts[i ^ 1]);
		expectState(&r, i, rdmaReadyToSend);
	}
	for (uint32_t i = 0; i < COUNT; i++) {
		struct rigQueue q = rigQueue(&r, i, &facts[i].end);
		drive(&r, &q, &facts[i ^ 1], AT + 64 * i);
		EXPECT_EQUAL(ginMlx5Swap(rigCqe(&q)->userIndex), 0x1000 + i);
	}
	rigClose(&r);
}

/* Shared memory stands in for GPU memory, its descriptor for a dma-buf's. */
static void *sharedPages(size_t bytes, int *fd)
{
	*fd = memfd_create("pages", MFD_CLOEXEC);
	EXPECT(*fd >= 0 && !ftruncate(*fd, (off_t)bytes));
	void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	EXPECT(pages != MAP_FAILED);
	return pages;
}

/* Queues and a window that begin within a dma-buf; without a valid descriptor, by address. */
static void byDmabuf(int valid)
{
	enum { BEFORE = 2 * RDMA_PAGE };
	size_t bytes = BEFORE + rdmaSlabBytes(2, DEPTH) + RIG_WINDOW;
	int fd, none = open("/dev/null", O_RDWR);
	char *memory = (char *)sharedPages(bytes, &fd) + BEFORE;
	struct rdmaMemory window = {memory + rdmaSlabBytes(2, DEPTH), RIG_WINDOW, fd,
				    BEFORE + rdmaSlabBytes(2, DEPTH)};
	struct facts facts[2];
	struct rig r;

	rigMemory(&r, 2, DEPTH);
	memcpy(memory, r.slab.memory.address, r.slab.memory.bytes);
	free(r.slab.memory.address);
	r.slab.memory.address = memory;
	r.slab.memory.dmabuf = window.dmabuf = valid ? fd : none;
	r.slab.memory.dmabufOffset = BEFORE;
	EXPECT_NIC(rigOpen(&r));
	nic->regionClose(r.region);
	EXPECT_NIC(nic->regionOpen(r.port, &window, rdmaRemote, &r.region, &r.keys, nicWhy));
	EXPECT_EQUAL(r.keys.via, valid ? rdmaViaDmabuf : rdmaViaAddress);
	EXPECT_EQUAL(r.keys.first, 0);
	free(r.window);
	r.window = window.address;
	close(fd);
	makePair(&r, facts);
	struct rigQueue q = rigQueue(&r, 0, &facts[0].end);
	drive(&r, &q, &facts[1], AT);
	r.window = r.slab.memory.address = NULL;
	rigClose(&r);
}

static void dmabuf(void)
{
	byDmabuf(1);
}

static void noDmabuf(void)
{
	byDmabuf(0);
}

/* The deepest queue, all of it posted by one doorbell; and a depth that the device has not. */
static void deep(void)
{
	struct facts facts[2];
	struct rig r;

	rigMemory(&r, 2, RDMA_MAX_DEPTH);
	EXPECT_NIC(rigOpen(&r));
	makePair(&r, facts);
	struct rigQueue q = rigQueue(&r, 0, &facts[0].end);
	for (uint32_t n = 0; n < RDMA_MAX_DEPTH - 1; n++) {
		struct ginMlx5Slot slot = rigSlot(&q);
		slot.flags = n % 1024 == 1023 || n == RDMA_MAX_DEPTH - 2 ? ginMlx5Signaled : 0;
		rigStore(&q, ginMlx5FetchAdd(slot, there(&facts[1], AT), here(&r, 0), 1));
	}
	rigRing(&q);
	EXPECT_EQUAL(rigAwait(&q), ginMlx5CqeRequest);
	EXPECT(!memcmp(r.window + AT, &(uint64_t){RDMA_MAX_DEPTH - 1}, 8));
	rigClose(&r);
}

static void refusals(void)
{
	struct rdmaQueues *queues;
	struct rdmaSlab slab;
	struct rig r;

	rigMemory(&r, 2, DEPTH);
	EXPECT_NIC(rigOpen(&r));
	slab = r.slab;
	slab.depth = 2 * RDMA_MAX_DEPTH;
	EXPECT_REFUSED(nic->queuesOpen(r.port, &slab, &queues, nicWhy), "of 32768 at most");
	slab.depth = 96;
	EXPECT_REFUSED(nic->queuesOpen(r.port, &slab, &queues, nicWhy), "a power of two");
	slab.depth = 2 * DEPTH;
	EXPECT_REFUSED(nic->queuesOpen(r.port, &slab, &queues, nicWhy), "does not hold 2 queues");
	slab = r.slab;
	slab.count = 1u << 30;
	EXPECT_REFUSED(nic->queuesOpen(r.port, &slab, &queues, nicWhy), "queue pairs: the device");
	rigClose(&r);
}

/* A peer that cannot be reached. */
static void unreachable(void)
{
	struct rig r;

	rigMemory(&r, 1, DEPTH);
	EXPECT_NIC(rigOpen(&r));
	struct facts far = make(&r, 0);
	far.address.ethernet = !far.address.ethernet;
	EXPECT_REFUSED(nic->queueConnect(r.queues, 0, &far.address, &far.end, &rigPath, nicWhy),
		       "choose ports of one network");
	expectState(&r, 0, rdmaReset);
	far.address.ethernet = r.address.ethernet;
	far.address.lid = 0;
	memset(far.address.gid, 0xee, sizeof(far.address.gid));
	EXPECT_REFUSED(nic->queueConnect(r.queues, 0, &far.address, &far.end, &rigPath, nicWhy),
		       r.address.ethernet ? "no route to the peer's address eeee:" : "has no LID");
	rigClose(&r);
}

/* A failed request and the queue's state after it; and queues that the test makes fail. */
static void failures(void)
{
	struct facts facts[2];
	struct rig r;

	rigMemory(&r, 2, DEPTH);
	EXPECT_NIC(rigOpen(&r));
	makePair(&r, facts);
	struct rigQueue q = rigQueue(&r, 0, &facts[0].end);
	EXPECT_EQUAL(rigRun(&q, ginMlx5Write(rigSlot(&q), there(&facts[1], RIG_WINDOW - 4),
					     here(&r, 0), 8)),
		     ginMlx5CqeRequestError);
	EXPECT_EQUAL(rigSyndrome(&q), ginMlx5RemoteAccess);
	expectState(&r, 0, rdmaError);
	EXPECT_NIC(nic->queueFail(r.queues, 1, nicWhy));
	expectState(&r, 1, rdmaError);
	q = rigQueue(&r, 1, &facts[1].end);
	EXPECT_EQUAL(rigRun(&q, ginMlx5Nop(rigSlot(&q))), ginMlx5CqeRequestError);
	EXPECT_EQUAL(rigSyndrome(&q), ginMlx5Flushed);
	EXPECT_REFUSED(
		nic->queueConnect(r.queues, 1, &facts[0].address, &facts[0].end, &rigPath, nicWhy),
		"RST2INIT_QP: bad ");
	rigClose(&r);
}

static void exchange(int fd, struct facts *mine, struct facts *peer)
{
	EXPECT_EQUAL(write(fd, mine, sizeof(*mine)), sizeof(*mine));
	EXPECT_EQUAL(read(fd, peer, sizeof(*peer)), sizeof(*peer));
}

/* One of two processes: each drives its queue, and checks the other's writes. */
static void side(int fd, uint32_t which)
{
	struct facts mine, peer;
	struct rig r;
	uint64_t words[2];

	rigMemory(&r, which + 1, DEPTH);
	EXPECT_NIC(rigOpen(&r));
	mine = make(&r, which);
	exchange(fd, &mine, &peer);
	connectTo(&r, which, &peer);
	exchange(fd, &mine, &peer);
	struct rigQueue q = rigQueue(&r, which, &mine.end);
	drive(&r, &q, &peer, AT);
	exchange(fd, &mine, &peer);
	memcpy(words, r.window + AT, sizeof(words));
	EXPECT_EQUAL(words[0], LAPS * DEPTH - 1);
	EXPECT_EQUAL(words[1], 3 * LAPS * DEPTH);
	exchange(fd, &mine, &peer);
	rigClose(&r);
}

static void processes(void)
{
	int fds[2], status = 0;

	EXPECT(!socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds));
	pid_t child = fork();
	EXPECT(child >= 0);
	close(fds[child == 0]);
	side(fds[child != 0], child != 0);
	if (!child)
		exit(0);
	EXPECT_EQUAL(waitpid(child, &status, 0), child);
	EXPECT_EQUAL(status, 0);
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	nicLoad();
	nicNeedAtomics();
	expectChild("loop", loop);
	expectChild("by dma-buf", dmabuf);
	expectChild("by address, for there is no dma-buf", noDmabuf);
	expectChild("deep", deep);
	expectChild("refusals", refusals);
	expectChild("unreachable", unreachable);
	expectChild("failures", failures);
	expectChild("processes", processes);
	return expectFailures != 0;
}
