/* SPDX-License-Identifier: BSD-3-Clause */
/* port.c - lists and opens ports; their capabilities, GIDs and events */
#include "port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mlx5/command.h"
#include "mlx5/prm.h"
#include "mlx5/words.h"
#include "explain.h"

enum { CURRENT = 1, SIZES_4_AND_8 = 4 | 8 };

struct capabilityAnswer {
	uint8_t bytes[QUERY_CAP_OUT_BYTES];
};

static int ask(struct ibv_context *context, enum capabilityGroup group,
	       struct capabilityAnswer *answer, char *why)
{
	uint8_t in[COMMAND_BYTES] = {0};

	*answer = (struct capabilityAnswer){{0}};
	fieldSet(in, IN_OPCODE, COMMAND_QUERY_HCA_CAP);
	fieldSet(in, IN_OP_MOD, group << 1 | CURRENT);
	int error =
		mlx5dv_devx_general_cmd(context, in, sizeof(in), answer->bytes, sizeof(*answer));
	return error ? explainCommand(why, error, in, answer->bytes) : 0;
}

static uint32_t get(const struct capabilityAnswer *answer, uint32_t field)
{
	return (uint32_t)fieldGet(answer->bytes, fieldAt(QUERY_CAP_OUT, field));
}

static void general(const struct capabilityAnswer *a, struct nicCapability *out)
{
	out->rc = get(a, CAP_RC);
	out->cqeVersion1 = get(a, CAP_CQE_VERSION) == 1;
	out->ignoreOverrun = get(a, CAP_CQ_OI);
	out->ethernet = get(a, CAP_PORT_TYPE);
	out->relaxedOrdering = get(a, CAP_RELAXED_ORDERING_WRITE);
	out->tsFormat = get(a, CAP_SQ_TS_FORMAT) ? QPC_TS_DEFAULT : QPC_TS_FREE_RUNNING;
	out->logDepth = get(a, CAP_LOG_MAX_QP_SZ);
	out->logQueues = get(a, CAP_LOG_MAX_QP);
}

static void atomic(const struct capabilityAnswer *a, struct nicCapability *out)
{
	uint32_t plain = ATOMIC_COMPARE_SWAP | ATOMIC_FETCH_ADD;
	uint32_t masks = ATOMIC_MASKED_COMPARE_SWAP | ATOMIC_MASKED_FETCH_ADD;
	uint32_t operations = get(a, ATOMIC_OPERATIONS), sizes = get(a, ATOMIC_SIZE_QP);

	out->atomics8 = (operations & plain) == plain;
	out->masked = (operations & masks) == masks && (sizes & SIZES_4_AND_8) == SIZES_4_AND_8;
}

static void roce(const struct capabilityAnswer *a, struct nicCapability *out)
{
	out->firstPort = get(a, ROCE_MIN_SRC_UDP_PORT);
	out->lastPort = get(a, ROCE_MAX_SRC_UDP_PORT);
	if (get(a, ROCE_QP_TS_FORMAT))
		out->tsFormat = QPC_TS_DEFAULT;
}

static int capabilityQuery(struct ibv_context *context, struct nicCapability *out, char *why)
{
	struct nicCapability c = {0};
	struct capabilityAnswer answer;

	if (ask(context, CAP_GENERAL, &answer, why))
		return -1;
	int hasAtomics = (int)get(&answer, CAP_ATOMIC_SUPPORTED);
	general(&answer, &c);
	if (hasAtomics) {
		if (ask(context, CAP_ATOMIC, &answer, why))
			return -1;
		atomic(&answer, &c);
	}
	if (c.ethernet) {
		if (ask(context, CAP_ROCE, &answer, why))
			return -1;
		roce(&answer, &c);
	}
	*out = c;
	return 0;
}

/* Checks the capabilities that libgin needs: 0, or -1 and what is missing. */
static int capabilityCheck(const struct nicCapability *c, char *why)
{
	if (!c->rc)
		return explain(why, "the device has no reliable connections");
	if (!c->cqeVersion1)
		return explain(why, "the device is too old for libgin: its completions are of "
				    "version 0");
	if (!c->ignoreOverrun)
		return explain(why, "the device has no completion queues without overrun checks");
	if (!c->atomics8)
		return explain(why, "the device or its firmware's settings have no 8-byte atomics, "
				    "which signals need");
	return 0;
}

static struct ibv_device **portDevices(char *why)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list && errno == ENOSYS)
		explain(why,
			"there are no RDMA devices: the kernel module ib_uverbs is not loaded");
	else if (!list)
		explainErrno(why, errno, "the list of RDMA devices");
	return list;
}

/* Opens an mlx5 device for DEVX. */
static struct ibv_context *openForCommands(struct ibv_device *device, char *why)
{
	struct mlx5dv_context_attr attr = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
	const char *name = ibv_get_device_name(device);

	if (!mlx5dv_is_supported(device)) {
		explain(why, "%.60s is no mlx5 device (ConnectX, BlueField)", name);
		return NULL;
	}
	struct ibv_context *context = mlx5dv_open_device(device, &attr);
	if (!context)
		explainErrno(why, errno, "%.60s cannot be opened for commands (DEVX)%s", name,
			     errno == EINVAL ? ", which takes UCTX_EN=1 in its firmware (mlxconfig)"
					     : "");
	return context;
}

static struct ibv_context *openPlain(struct ibv_device *device, char *why)
{
	struct ibv_context *context = ibv_open_device(device);

	if (!context)
		explainErrno(why, errno, "%.60s cannot be opened", ibv_get_device_name(device));
	return context;
}

static struct ibv_context *openDevice(const char *name, int isPlain, char *why)
{
	struct ibv_device **list = portDevices(why);
	struct ibv_device *found = NULL;
	struct ibv_context *context = NULL;

	if (!list)
		return NULL;
	for (int i = 0; list[i] && !found; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			found = list[i];
	if (!found)
		explain(why, "there is no RDMA device %.60s", name);
	else
		context = isPlain ? openPlain(found, why) : openForCommands(found, why);
	ibv_free_device_list(list);
	return context;
}

static uint8_t floorLog(int number)
{
	uint8_t log = 0;

	while (log < 7 && 2 << log <= number)
		log++;
	return log;
}

/* Queries the capabilities that queues of GPUs need. */
static int queryCommands(struct rdmaPort *p, const struct ibv_device_attr *attr, char *why)
{
	if (capabilityQuery(p->context, &p->can, why) || capabilityCheck(&p->can, why))
		return -1;
	/* The kernel reports atomics only if old values arrive in this machine's byte order. */
	if (attr->atomic_cap == IBV_ATOMIC_NONE)
		return explain(why, "the kernel driver offers no atomics, which signals need");
	return 0;
}

static int queryDevice(struct rdmaPort *p, char *why)
{
	struct ibv_device_attr attr;
	int error = ibv_query_device(p->context, &attr);

	if (error)
		return explainErrno(why, error, "the device's attributes");
	if (!p->isPlain && queryCommands(p, &attr, why))
		return -1;
	if (p->isPlain && p->context->device->transport_type != IBV_TRANSPORT_IB)
		return explain(why, "it has no reliable connections of InfiniBand or RoCE");
	p->logReads = floorLog(attr.max_qp_rd_atom);
	p->logReadsOut = floorLog(attr.max_qp_init_rd_atom);
	return 0;
}

/* The largest enum ibv_mtu that is no more than `bytes`; 0: none. */
static uint8_t mtuOf(uint32_t bytes)
{
	uint8_t mtu = 0;

	while (mtu < IBV_MTU_4096 && bytes >= 256u << mtu)
		mtu++;
	return mtu;
}

static int queryPort(struct rdmaPort *p, const struct rdmaWanted *wanted, char *why)
{
	int error = ibv_query_port(p->context, p->number, &p->attr);

	if (error)
		return explainErrno(why, error, "port %d", p->number);
	if (p->attr.state != IBV_PORT_ACTIVE)
		return explain(why,
			       "port %d is %s: plug it in, set its link up, or, on InfiniBand, "
			       "start a subnet manager",
			       p->number, ibv_port_state_str(p->attr.state));
	p->mtu = (uint8_t)p->attr.active_mtu;
	p->mostMessage = p->attr.max_msg_sz;
	if (wanted->mtu && mtuOf(wanted->mtu) < p->mtu)
		p->mtu = mtuOf(wanted->mtu);
	if (!p->mtu)
		return explain(why, "an MTU of %u bytes is too small: 256 at least", wanted->mtu);
	return gidChoose(p, wanted->gid, why);
}

static int openObjects(struct rdmaPort *p, char *why)
{
	struct mlx5dv_pd numbers = {0};
	struct mlx5dv_obj object = {.pd = {.out = &numbers}};

	object.pd.in = p->pd = ibv_alloc_pd(p->context);
	if (!p->pd)
		return explainErrno(why, errno, "a protection domain");
	if (p->isPlain)
		return 0;
	if (mlx5dv_init_obj(&object, MLX5DV_OBJ_PD))
		return explainErrno(why, errno, "the protection domain's number");
	p->pdNumber = numbers.pdn;
	int error = mlx5dv_devx_query_eqn(p->context, 0, &p->eventQueue);
	return error ? explainErrno(why, error, "the event queue's number") : 0;
}

/* portEvent() polls for events: the descriptor must not block. */
static int makeNonblocking(struct rdmaPort *p, char *why)
{
	int flags = fcntl(p->context->async_fd, F_GETFL);

	if (flags < 0 || fcntl(p->context->async_fd, F_SETFL, flags | O_NONBLOCK))
		return explainErrno(why, errno, "the descriptor of the device's events");
	return 0;
}

int portOpen(const struct rdmaWanted *wanted, struct rdmaPort **port, char *why)
{
	struct rdmaPort *p = calloc(1, sizeof(*p));

	if (!p)
		return explain(why, "no memory");
	p->number = (uint8_t)(wanted->port ? wanted->port : 1);
	p->isPlain = wanted->isPlain;
	p->context = openDevice(wanted->device, wanted->isPlain, why);
	if (!p->context || queryDevice(p, why) || queryPort(p, wanted, why) ||
	    openObjects(p, why) || makeNonblocking(p, why)) {
		portClose(p);
		return -1;
	}
	*port = p;
	return 0;
}

void portClose(struct rdmaPort *p)
{
	if (p->pd)
		ibv_dealloc_pd(p->pd);
	if (p->context)
		ibv_close_device(p->context);
	free(p);
}

void portDescribe(const struct rdmaPort *p, struct rdmaAddress *address,
		  struct rdmaFeatures *features)
{
	uint32_t depth = p->can.logDepth < 15 ? 1u << p->can.logDepth : RDMA_MAX_DEPTH;

	*address = (struct rdmaAddress){
		.lid = p->attr.lid,
		.ethernet = p->attr.link_layer == IBV_LINK_LAYER_ETHERNET,
		.grh = (p->attr.flags & IBV_QPF_GRH_REQUIRED) != 0,
		.mtu = p->mtu,
		.logReads = p->logReads,
		.atomics = (uint8_t)((p->can.atomics8 ? rdmaAtomics8 : 0) |
				     (p->can.masked ? rdmaAtomicsMasked : 0)),
	};
	memcpy(address->gid, p->gid.bytes, sizeof(address->gid));
	address->roceVersion = (uint8_t)p->gid.roceVersion;
	address->partition = p->gid.partition;
	*features = (struct rdmaFeatures){
		.maxDepth = depth,
		.maxQueues = 1u << p->can.logQueues,
		.relaxedOrdering = p->can.relaxedOrdering,
		.gid = (int)p->gid.index,
		.roceVersion = p->gid.roceVersion,
	};
}

struct portListing {
	struct rdmaWanted wanted;
	struct rdmaFound *found;
	int room, count;
};

static void describePort(const struct rdmaPort *p, char *text)
{
	char network[PORT_NETWORK];

	portNetwork(p, network);
	explain(text, "%s, GID %u, MTU %u%s%s", network, p->gid.index, 128u << p->mtu,
		p->can.masked ? ", 4-byte atomics" : "",
		p->can.relaxedOrdering ? ", relaxed ordering" : "");
}

/* 1 and a description in `why`, or 0 and why not. */
static int tryPort(const struct rdmaWanted *wanted, char *why)
{
	struct rdmaPort *port = NULL;

	if (portOpen(wanted, &port, why))
		return 0;
	describePort(port, why);
	portClose(port);
	return 1;
}

/* Of a port that has no queues for GPUs. */
static void addPlain(const struct rdmaWanted *wanted, char *why)
{
	struct rdmaWanted plain = *wanted;
	char description[RDMA_WHY];

	plain.isPlain = 1;
	if (!wanted->isPlain && tryPort(&plain, description))
		explain(why + strlen(why), "; the proxy can use it by verbs: %.60s", description);
}

static void addPort(struct portListing *l, struct ibv_device *device, int number)
{
	struct rdmaFound found = {.port = number};
	char why[2 * RDMA_WHY];

	snprintf(found.device, sizeof(found.device), "%s", ibv_get_device_name(device));
	l->wanted.device = found.device;
	l->wanted.port = number;
	found.usable = tryPort(&l->wanted, why);
	if (!found.usable)
		addPlain(&l->wanted, why);
	snprintf(found.why, sizeof(found.why), "%.*s", RDMA_WHY - 1, why);
	if (l->count < l->room)
		l->found[l->count] = found;
	l->count++;
}

/* How many ports. 1 if the device cannot be opened: portOpen() then gives the reason. */
static int countPorts(struct ibv_device *device, int isPlain)
{
	struct ibv_context *context =
		isPlain || mlx5dv_is_supported(device) ? ibv_open_device(device) : NULL;
	struct ibv_device_attr attr = {.phys_port_cnt = 1};

	if (!context)
		return 1;
	if (ibv_query_device(context, &attr))
		attr.phys_port_cnt = 1;
	ibv_close_device(context);
	return attr.phys_port_cnt;
}

int portList(const struct rdmaWanted *wanted, struct rdmaFound *found, int room, char *why)
{
	struct portListing listing = {*wanted, found, room, 0};
	struct ibv_device **list = portDevices(why);

	if (!list)
		return -1;
	for (int i = 0; list[i]; i++)
		for (int port = 1, ports = countPorts(list[i], wanted->isPlain); port <= ports;
		     port++)
			addPort(&listing, list[i], port);
	ibv_free_device_list(list);
	return listing.count;
}

static int isOfPort(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		return 1;
	default:
		return 0;
	}
}

void errorText(unsigned syndrome, unsigned vendor, char *text)
{
	const char *words = syndromeText(syndrome);

	explain(text, "%s (syndrome 0x%02x, the vendor's 0x%02x)",
		words ? words : "an unknown error", syndrome, vendor);
}

int portEvent(struct rdmaPort *p, char *text, int *lost)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(p->context, &event)) {
		if (errno == EAGAIN || errno == EINTR)
			return 0;
		return explainErrno(text, errno, "events of %s", p->context->device->name);
	}
	const char *words = verbsEventText(event.event_type);
	*lost = event.event_type == IBV_EVENT_DEVICE_FATAL;
	if (isOfPort(event.event_type))
		explain(text, "%s, port %d: %s", p->context->device->name, event.element.port_num,
			words);
	else
		explain(text, "%s: %s", p->context->device->name, words);
	ibv_ack_async_event(&event);
	return 1;
}
