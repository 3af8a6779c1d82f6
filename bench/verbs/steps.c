/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * steps.c [REPEATS] - what a put of 8 bytes with a signal adds to ib_write_lat, one thing after the other
 *
 * Two sides in one process, with the first two NICs of this host, play ping-pong as ib_write_lat does. Prints for each
 * step the median of half a round trip, in microseconds. In the guest of test/guest/run; ports: RoCE v2, GID 1.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 64, GID = 1, SKIPPED = 50 };
enum { LANDS = 8, SLOT = 16, RECEIVES = 32 }; /* words of a side's memory */

enum {
	isInline = 1,	 /* as ib_write_lat */
	isImmediate = 2, /* the receiver waits for a completion, not for the bytes */
	yields = 4,	 /* after each look that finds nothing */
	looksAtClock = 8,
	isHandedOver = 16, /* a second thread of the side asks for the put, waits for the signal */
	isMessage = 32,	   /* 64 bytes; the receiver waits for a completion: as libgin does */
	isSlot = 64	   /* 64 bytes; the receiver polls for the last 8 of them */
};

struct side {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	union ibv_gid gid;
	volatile uint64_t *bytes; /* [0] to [7] are sent from, [LANDS] or [SLOT] is landed in */
	struct side *other;
	pthread_t asks, posts;
	uint64_t taken, signals; /* of the posting thread */
	volatile uint64_t wanted __attribute__((aligned(64)));
	volatile uint64_t signal __attribute__((aligned(64)));
};

static struct side side[2];
static int flags, repeats;
static uint64_t *took;

static void require(int is, const char *what)
{
	if (is)
		return;
	perror(what);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void open(struct side *s, struct ibv_device *device)
{
	void *page = aligned_alloc(4096, 4096);

	s->device = ibv_open_device(device);
	require(s->device && page, "ibv_open_device");
	s->bytes = memset(page, 0, 4096);
	s->pd = ibv_alloc_pd(s->device);
	s->cq = ibv_create_cq(s->device, 4 * DEPTH, NULL, NULL, 0);
	require(s->pd && s->cq, "ibv_create_cq");
	s->mr = ibv_reg_mr(s->pd, page, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	require(s->mr && !ibv_query_gid(s->device, 1, GID, &s->gid), "ibv_query_gid");
}

static void makeQp(struct side *s)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = s->cq,
		.recv_cq = s->cq,
		.cap = {DEPTH, DEPTH, 1, 1, 96},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};

	s->qp = ibv_create_qp(s->pd, &attr);
	require(s->qp != NULL, "ibv_create_qp");
	require(!ibv_modify_qp(s->qp, &init,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS),
		"to INIT");
}

static void connectQp(struct side *s)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = s->other->qp->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = s->other->gid, .sgid_index = GID, .hop_limit = 64}}};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = 14,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .max_rd_atomic = 1};

	require(!ibv_modify_qp(s->qp, &rtr,
			       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER),
		"to RTR");
	require(!ibv_modify_qp(s->qp, &rts,
			       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
		"to RTS");
}

static void receive(struct side *s)
{
	struct ibv_sge sge = {(uintptr_t)&s->bytes[RECEIVES], 96, s->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	require(!ibv_post_recv(s->qp, &wr, &bad), "ibv_post_recv");
}

static enum ibv_wr_opcode opcode(void)
{
	if (flags & isMessage)
		return IBV_WR_SEND;
	return flags & isImmediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
}

static void put(struct side *s, uint64_t value)
{
	struct ibv_sge sge = {(uintptr_t)s->bytes, flags & (isMessage | isSlot) ? 64 : 8,
			      s->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode(),
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (flags & isInline)
		wr.send_flags |= IBV_SEND_INLINE;
	wr.wr.rdma.remote_addr = (uintptr_t)&s->other->bytes[flags & isSlot ? SLOT : LANDS];
	wr.wr.rdma.rkey = s->other->mr->rkey;
	s->bytes[flags & isSlot ? 7 : 0] = value;
	require(!ibv_post_send(s->qp, &wr, &bad), "ibv_post_send");
}

static void idle(void)
{
	if (flags & looksAtClock)
		now();
	if (flags & yields)
		sched_yield();
}

/* Takes completions. Returns the number of own puts that have ended. */
static int poll(struct side *s)
{
	struct ibv_wc wc[16];
	int got = ibv_poll_cq(s->cq, 16, wc), sent = 0;

	for (int i = 0; i < got; i++) {
		require(wc[i].status == IBV_WC_SUCCESS, "a completion");
		if (!(wc[i].opcode & IBV_WC_RECV)) {
			sent++;
			continue;
		}
		receive(s);
		s->signals++;
	}
	return sent;
}

/* The word that the receiver polls. */
static volatile uint64_t *polled(const struct side *s)
{
	return &s->bytes[flags & isSlot ? SLOT + 7 : LANDS];
}

static int hasCome(struct side *s, uint64_t value, int *sent)
{
	if (!(flags & (isImmediate | isMessage)))
		return *polled(s) == value;
	*sent += poll(s);
	return s->signals == value;
}

static uint64_t last(void)
{
	return (uint64_t)repeats + SKIPPED;
}

/* Notes the time of round i on the first side. Returns the begin of the next round. */
static uint64_t roundEnded(const struct side *s, uint64_t i, uint64_t began)
{
	uint64_t ended = now();

	if (s == side && i > SKIPPED)
		took[i - SKIPPED - 1] = ended - began;
	return ended;
}

/* The side is one thread. */
static void *play(void *of)
{
	struct side *s = of;
	int first = s == side, sent = 0;
	uint64_t began = now();

	for (uint64_t i = 1; i <= last(); i++) {
		while (!first && !hasCome(s, i, &sent))
			idle();
		put(s, i);
		for (; !sent; sent += poll(s)) /* as ib_write_lat */
			;
		sent--;
		while (first && !hasCome(s, i, &sent))
			idle();
		began = roundEnded(s, i, began);
	}
	return NULL;
}

/* A host thread that stands in for a kernel. */
static void *ask(void *of)
{
	struct side *s = of;
	int first = s == side;
	uint64_t began = now();

	for (uint64_t i = 1; i <= last(); i++) {
		while (!first && s->signal != i)
			sched_yield();
		__atomic_store_n(&s->wanted, i, __ATOMIC_RELEASE);
		while (first && s->signal != i)
			sched_yield();
		began = roundEnded(s, i, began);
	}
	return NULL;
}

/* A proxy. */
static void *post(void *of)
{
	struct side *s = of;
	uint64_t sent = 0;

	while (sent < last() || s->signals < last()) {
		uint64_t before = sent + s->signals;
		sent += (uint64_t)poll(s);
		if (!(flags & (isImmediate | isMessage)))
			s->signals = *polled(s);
		__atomic_store_n(&s->signal, s->signals, __ATOMIC_RELEASE);
		uint64_t wanted = __atomic_load_n(&s->wanted, __ATOMIC_ACQUIRE);
		for (; s->taken < wanted; before--)
			put(s, ++s->taken);
		if (sent + s->signals == before)
			idle();
	}
	return NULL;
}

static void start(struct side *s)
{
	s->taken = s->signals = s->wanted = s->signal = 0;
	s->bytes[LANDS] = s->bytes[SLOT + 7] = 0;
	makeQp(s);
}

static void run(struct side *s)
{
	connectQp(s);
	for (int i = 0; i < DEPTH / 2; i++)
		receive(s);
	require(!pthread_create(&s->asks, NULL, flags & isHandedOver ? ask : play, s), "a thread");
	if (flags & isHandedOver)
		require(!pthread_create(&s->posts, NULL, post, s), "a thread");
}

static void end(struct side *s)
{
	pthread_join(s->asks, NULL);
	if (flags & isHandedOver)
		pthread_join(s->posts, NULL);
}

static void closeQp(struct side *s)
{
	struct ibv_wc wc;

	ibv_destroy_qp(s->qp);
	while (ibv_poll_cq(s->cq, 1, &wc) > 0)
		;
}

static int isLess(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void step(const char *name, int which)
{
	flags = which;
	for (int i = 0; i < 2; i++)
		start(&side[i]);
	for (int i = 1; i >= 0; i--) /* the first side begins */
		run(&side[i]);
	for (int i = 0; i < 2; i++)
		end(&side[i]);
	for (int i = 0; i < 2; i++)
		closeQp(&side[i]);
	qsort(took, (size_t)repeats, sizeof(*took), isLess);
	printf("step_%s %.1f\n", name, (double)took[repeats / 2] / 2000);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int count = 0;
	struct ibv_device **devices = ibv_get_device_list(&count);

	repeats = argc > 1 ? atoi(argv[1]) : 300;
	took = calloc((size_t)repeats, sizeof(*took));
	require(devices && count >= 2 && took, "two NICs");
	for (int i = 0; i < 2; i++) {
		open(&side[i], devices[i]);
		side[i].other = &side[!i];
	}
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		step("as_ib_write_lat", isInline);
	step("yield", isInline | yields);
	step("read_by_NIC", yields);
	step("immediate", isImmediate | yields);
	step("immediate_inline", isInline | isImmediate | yields);
	step("message", isInline | isMessage | yields);
	step("clock", isImmediate | yields | looksAtClock);
	step("handed_over", isImmediate | yields | looksAtClock | isHandedOver);
	step("message_handed_over", isInline | isMessage | yields | looksAtClock | isHandedOver);
	step("slot", isInline | isSlot | yields);
	step("slot_handed_over", isInline | isSlot | yields | looksAtClock | isHandedOver);
	return 0;
}
