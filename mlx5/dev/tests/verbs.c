/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs - requests of programs to the device by verbs: regions of all kinds, addresses, states,
 * events
 */
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "child.h"
#include "connect.h"

enum { BYTES = 1 << 14 };
static struct ibv_cq *cq;

static struct ibv_qp *newQp(void)
{
	struct ibv_qp_init_attr attributes = {
		.qp_type = IBV_QPT_RC,
		.cap = {64, 16, 1, 1, 32},
	};

	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	EXPECT(cq);
	attributes.send_cq = attributes.recv_cq = cq;
	struct ibv_qp *qp = ibv_create_qp(pd, &attributes);
	EXPECT(qp);
	return qp;
}

static struct ibv_wc post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, struct ibv_mr *local,
			  uint64_t from, struct ibv_mr *remote, uint64_t to)
{
	struct ibv_sge piece = {.addr = from, .length = 64, .lkey = local->lkey};
	struct ibv_send_wr request = {
		.opcode = opcode,
		.sg_list = &piece,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htobe32(0x11223344),
		.wr.rdma = {to, remote->rkey},
	};
	struct ibv_send_wr *bad;
	struct ibv_wc completion;
	int count;

	EXPECT(!ibv_post_send(qp, &request, &bad));
	while ((count = ibv_poll_cq(qp->send_cq, 1, &completion)) == 0)
		sched_yield();
	EXPECT_EQUAL(count, 1);
	return completion;
}

/* The kernel takes a dma-buf; the device here takes whatever can be mapped. */
static void regionOfDescriptor(void)
{
	int fd = memfd_create("window", MFD_CLOEXEC);

	begin();
	EXPECT(fd >= 0 && !ftruncate(fd, BYTES));
	uint8_t *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	EXPECT(memory != MAP_FAILED);
	struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 4096, 8192, 0, fd, ALL);
	EXPECT(mr);
	close(fd);
	struct ibv_qp *one = newQp(), *other = newQp();
	connectPair(one, other);
	memset(memory + 4096, 7, 64);
	struct ibv_wc completion = post(one, IBV_WR_RDMA_WRITE, mr, 0, mr, 4096);
	EXPECT_EQUAL(completion.status, IBV_WC_SUCCESS);
	EXPECT(!memcmp(memory + 8192, memory + 4096, 64));
	EXPECT(!ibv_dereg_mr(mr));
}

static void umemOfDescriptor(void)
{
	int fd = memfd_create("queue", MFD_CLOEXEC);
	struct mlx5dv_devx_umem_in in = {
		.addr = (void *)4096,
		.size = 4096,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.pgsz_bitmap = 4096,
		.comp_mask = MLX5DV_UMEM_MASK_DMABUF,
		.dmabuf_fd = fd,
	};

	begin();
	EXPECT(fd >= 0 && !ftruncate(fd, BYTES));
	struct mlx5dv_devx_umem *umem = mlx5dv_devx_umem_reg_ex(context, &in);
	EXPECT(umem && umem->umem_id);
	EXPECT(!mlx5dv_devx_umem_dereg(umem));
}

static void withoutDescriptors(void)
{
	int fd = memfd_create("window", MFD_CLOEXEC);

	setenv("MLX5DEV_PROFILE", "nodmabuf", 1);
	begin();
	EXPECT(fd >= 0 && !ftruncate(fd, BYTES));
	EXPECT(!ibv_reg_dmabuf_mr(pd, 4096, 8192, 0, fd, ALL));
	EXPECT_EQUAL(errno, EOPNOTSUPP);
}

static void profiles(void)
{
	struct ibv_device_attr attributes;

	setenv("MLX5DEV_PROFILE", "cx6,noatomics", 1);
	begin();
	EXPECT(!ibv_query_device(context, &attributes));
	EXPECT_EQUAL(attributes.vendor_part_id, 4123);
	EXPECT_EQUAL(attributes.atomic_cap, IBV_ATOMIC_NONE);
}

static void accessOfRegions(void)
{
	static uint8_t memory[BYTES] __attribute__((aligned(4096)));

	begin();
	EXPECT(!ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_REMOTE_WRITE));
	EXPECT_EQUAL(errno, EINVAL);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, ALL | IBV_ACCESS_RELAXED_ORDERING);
	EXPECT(mr && ibv_dealloc_pd(pd) == EBUSY);
	EXPECT(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
}

static void states(void)
{
	struct ibv_qp_attr attributes;
	struct ibv_qp_init_attr init;

	begin();
	struct ibv_qp *qp = newQp();
	EXPECT_EQUAL(toRtr(qp, qp->qp_num), EINVAL);
	EXPECT_EQUAL(toInit(qp), 0);
	EXPECT_EQUAL(toRts(qp), EINVAL);
	EXPECT_EQUAL(toRtr(qp, qp->qp_num), 0);
	EXPECT_EQUAL(toRts(qp), 0);
	EXPECT(!ibv_query_qp(qp, &attributes, IBV_QP_STATE, &init));
	EXPECT_EQUAL(attributes.qp_state, IBV_QPS_RTS);
	EXPECT_EQUAL(attributes.dest_qp_num, qp->qp_num);
	EXPECT_EQUAL(attributes.max_rd_atomic, 16);
	EXPECT(ibv_destroy_cq(cq) == EBUSY);
	EXPECT(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
}

static void immediate(void)
{
	static uint8_t memory[BYTES] __attribute__((aligned(4096)));
	struct ibv_recv_wr receive = {.wr_id = 5}, *bad;
	struct ibv_wc completion;

	begin();
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, ALL);
	struct ibv_qp *one = newQp(), *other = newQp();
	connectPair(one, other);
	EXPECT(!ibv_post_recv(other, &receive, &bad));
	memset(memory, 9, 64);
	completion = post(one, IBV_WR_RDMA_WRITE_WITH_IMM, mr, (uintptr_t)memory, mr,
			  (uintptr_t)memory + 4096);
	EXPECT_EQUAL(completion.status, IBV_WC_SUCCESS);
	while (!ibv_poll_cq(other->recv_cq, 1, &completion))
		sched_yield();
	EXPECT_EQUAL(completion.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQUAL(be32toh(completion.imm_data), 0x11223344);
	EXPECT_EQUAL(completion.byte_len, 64);
	EXPECT(!memcmp(memory, memory + 4096, 64));
	/* Nothing is posted for a second one. */
	completion = post(one, IBV_WR_RDMA_WRITE_WITH_IMM, mr, (uintptr_t)memory, mr,
			  (uintptr_t)memory + 4096);
	EXPECT_EQUAL(completion.status, IBV_WC_RNR_RETRY_EXC_ERR);
}

static void responderEvent(void)
{
	static uint8_t memory[BYTES] __attribute__((aligned(4096)));

	begin();
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, ALL);
	struct ibv_qp *one = newQp(), *other = newQp();
	connectPair(one, other);
	struct ibv_wc completion =
		post(one, IBV_WR_RDMA_WRITE, mr, (uintptr_t)memory, mr, (uintptr_t)memory + BYTES);
	EXPECT_EQUAL(completion.status, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQUAL(completion.vendor_err, 0x88);
	expectEvent(IBV_EVENT_QP_ACCESS_ERR);
	EXPECT(!ibv_destroy_qp(one) && !ibv_destroy_qp(other));
}

static void control(const char *word)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	char answer[64];

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control.%d", getenv("MLX5DEV_DIR"),
		 (int)getpid());
	EXPECT(!connect(fd, (struct sockaddr *)&address, sizeof(address)));
	EXPECT(send(fd, word, strlen(word), 0) > 0 && recv(fd, answer, sizeof(answer), 0) == 2);
	close(fd);
}

static void portEvents(void)
{
	struct ibv_port_attr port;

	begin();
	EXPECT(!ibv_query_port(context, 1, &port) && port.state == IBV_PORT_ACTIVE);
	control("portdown");
	expectEvent(IBV_EVENT_PORT_ERR);
	EXPECT(!ibv_query_port(context, 1, &port) && port.state == IBV_PORT_DOWN);
	control("portup");
	expectEvent(IBV_EVENT_PORT_ACTIVE);
	control("remove");
	expectEvent(IBV_EVENT_DEVICE_FATAL);
	EXPECT(!ibv_alloc_pd(context));
	EXPECT_EQUAL(errno, EIO);
}

static void addresses(void)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	struct ibv_ah_attr attributes = {.is_global = 1, .port_num = 1, .grh.sgid_index = 3};
	struct mlx5dv_ah driver;

	setenv("MLX5DEV_PROFILE", "roce", 1);
	begin();
	EXPECT(!ibv_query_port(context, 1, &port));
	EXPECT_EQUAL(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	EXPECT(!ibv_query_gid_ex(context, 1, 3, &entry, 0));
	EXPECT_EQUAL(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	EXPECT_ERRNO(ibv_query_gid_ex(context, 1, 4, &entry, 0) ? -1 : 0, ENODATA);
	attributes.grh.dgid = entry.gid;
	struct ibv_ah *ah = ibv_create_ah(pd, &attributes);
	EXPECT(ah);
	struct mlx5dv_obj object = {.ah = {ah, &driver}};
	EXPECT(!mlx5dv_init_obj(&object, MLX5DV_OBJ_AH));
	EXPECT(!memcmp(driver.av->rmac, "\x02\x15\xb3\0\0\x01", 6));
	EXPECT(!ibv_destroy_ah(ah));
	attributes.grh.dgid.raw[15] = 77;
	EXPECT(!ibv_create_ah(pd, &attributes));
}

static void channelEvents(void)
{
	static uint8_t memory[BYTES] __attribute__((aligned(4096)));
	struct ibv_cq *seen;
	void *cookie;

	begin();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, ALL);
	struct ibv_cq *own = ibv_create_cq(context, 8, NULL, channel, 0);
	struct ibv_qp_init_attr attributes = {
		.qp_type = IBV_QPT_RC, .cap = {8, 8, 1, 1, 0}, .send_cq = own, .recv_cq = own};
	struct ibv_qp *one = ibv_create_qp(pd, &attributes), *other = newQp();
	connectPair(one, other);
	EXPECT(!ibv_req_notify_cq(own, 0));
	post(one, IBV_WR_RDMA_WRITE, mr, (uintptr_t)memory, mr, (uintptr_t)memory + 4096);
	EXPECT(!ibv_get_cq_event(channel, &seen, &cookie) && seen == own);
	ibv_ack_cq_events(own, 1);
	/* An event that no thread reads does not keep the queue. */
	EXPECT(!ibv_req_notify_cq(own, 0));
	post(one, IBV_WR_RDMA_WRITE, mr, (uintptr_t)memory, mr, (uintptr_t)memory + 4096);
	EXPECT(!ibv_destroy_qp(one) && !ibv_destroy_cq(own) && !ibv_destroy_comp_channel(channel));
}

static sigjmp_buf back;

static void onFault(int number)
{
	siglongjmp(back, number);
}

/* A program's handler is for its own faults, and no mask keeps doorbells away. */
static void signalsOfPrograms(void)
{
	static uint8_t memory[BYTES] __attribute__((aligned(4096)));
	volatile int *closed = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sigaction action = {.sa_handler = onFault};
	sigset_t all;

	begin();
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, ALL);
	struct ibv_qp *one = newQp(), *other = newQp();
	connectPair(one, other);
	EXPECT(!sigaction(SIGSEGV, &action, NULL));
	sigfillset(&all);
	EXPECT(!pthread_sigmask(SIG_SETMASK, &all, NULL));
	struct ibv_wc completion =
		post(one, IBV_WR_RDMA_WRITE, mr, (uintptr_t)memory, mr, (uintptr_t)memory + 4096);
	EXPECT_EQUAL(completion.status, IBV_WC_SUCCESS);
	EXPECT(signal(SIGSEGV, onFault) == onFault);
	if (!sigsetjmp(back, 1)) {
		*closed = 1;
		EXPECT(false);
	}
}

static const struct part {
	const char *name;
	void (*body)(void);
} parts[] = {
	{"a region of a descriptor", regionOfDescriptor},
	{"a umem of a descriptor", umemOfDescriptor},
	{"a device that takes no descriptors", withoutDescriptors},
	{"another device", profiles},
	{"access of regions", accessOfRegions},
	{"states", states},
	{"immediate data", immediate},
	{"a responder's event", responderEvent},
	{"events of port and device", portEvents},
	{"RoCE addresses", addresses},
	{"events of a channel", channelEvents},
	{"a program's own signals", signalsOfPrograms},
};

int main(void)
{
	char text[8192];

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		int status = childRun(parts[i].body, text, sizeof(text));

		expectThat(status == 0, __FILE__, __LINE__, "%s: status %d; it said \"%s\"",
			   parts[i].name, status, text);
		printf("ok: %s\n", parts[i].name);
	}
	return 0;
}
