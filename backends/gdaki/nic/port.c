/* SPDX-License-Identifier: BSD-3-Clause */
#include "port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"

struct ibv_device **portDevices(char *why)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list && errno == ENOSYS)
		say(why, "there are no RDMA devices: the kernel module ib_uverbs is not loaded");
	else if (!list)
		sayErrno(why, errno, "the list of RDMA devices");
	return list;
}

/* Of the device of that name. */
static struct ibv_context *openDevice(const char *name, char *why)
{
	struct mlx5dv_context_attr attr = {.flags = MLX5DV_CONTEXT_FLAGS_DEVX};
	struct ibv_device **list = portDevices(why);
	struct ibv_device *found = NULL;
	struct ibv_context *context = NULL;

	if (!list)
		return NULL;
	for (int i = 0; list[i] && !found; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			found = list[i];
	if (!found) {
		say(why, "there is no RDMA device %.60s", name);
	} else if (!mlx5dv_is_supported(found)) {
		say(why, "%.60s is no mlx5 device (ConnectX, BlueField)", name);
	} else {
		context = mlx5dv_open_device(found, &attr);
		if (!context)
			sayErrno(why, errno, "%.60s cannot be opened for commands (DEVX)%s", name,
				 errno == EINVAL ? ", which takes UCTX_EN=1 in its firmware "
						   "(mlxconfig)"
						 : "");
	}
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

static int queryDevice(struct rdmaPort *p, char *why)
{
	struct ibv_device_attr attr;
	int error = ibv_query_device(p->context, &attr);

	if (error)
		return sayErrno(why, error, "the device's attributes");
	if (capabilityQuery(p->context, &p->can, why) || capabilityCheck(&p->can, why))
		return -1;
	/* The kernel's word on whether old values come back in the order of this machine. */
	if (attr.atomic_cap == IBV_ATOMIC_NONE)
		return say(why, "the kernel's driver offers no atomics, which signals need");
	p->logReads = floorLog(attr.max_qp_rd_atom);
	p->logReadsOut = floorLog(attr.max_qp_init_rd_atom);
	return 0;
}

/* The largest that is no more than `bytes`; 0: there is none. */
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
		return sayErrno(why, error, "port %d", p->number);
	if (p->attr.state != IBV_PORT_ACTIVE)
		return say(why,
			   "port %d is %s: plug it in, set its link up, or, on InfiniBand, "
			   "start a subnet manager",
			   p->number, ibv_port_state_str(p->attr.state));
	p->mtu = (uint8_t)p->attr.active_mtu;
	if (wanted->mtu && mtuOf(wanted->mtu) < p->mtu)
		p->mtu = mtuOf(wanted->mtu);
	if (!p->mtu)
		return say(why, "an MTU of %u bytes is too small: 256 at least", wanted->mtu);
	return gidChoose(p->context, p->number, wanted->gid, &p->gid, why);
}

static int openObjects(struct rdmaPort *p, char *why)
{
	struct mlx5dv_pd numbers = {0};
	struct mlx5dv_obj object = {.pd = {.out = &numbers}};

	object.pd.in = p->pd = ibv_alloc_pd(p->context);
	if (!p->pd)
		return sayErrno(why, errno, "a protection domain");
	if (mlx5dv_init_obj(&object, MLX5DV_OBJ_PD))
		return sayErrno(why, errno, "the protection domain's number");
	p->pdNumber = numbers.pdn;
	int error = mlx5dv_devx_query_eqn(p->context, 0, &p->eventQueue);
	return error ? sayErrno(why, error, "the event queue's number") : 0;
}

/* Events are asked for, never waited for. */
static int neverWait(struct rdmaPort *p, char *why)
{
	int flags = fcntl(p->context->async_fd, F_GETFL);

	if (flags < 0 || fcntl(p->context->async_fd, F_SETFL, flags | O_NONBLOCK))
		return sayErrno(why, errno, "the descriptor of the device's events");
	return 0;
}

int portOpen(const struct rdmaWanted *wanted, struct rdmaPort **port, char *why)
{
	struct rdmaPort *p = calloc(1, sizeof(*p));

	if (!p)
		return say(why, "no memory");
	p->number = (uint8_t)(wanted->port ? wanted->port : 1);
	p->context = openDevice(wanted->device, why);
	if (!p->context || queryDevice(p, why) || queryPort(p, wanted, why) ||
	    openObjects(p, why) || neverWait(p, why)) {
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

void portTell(const struct rdmaPort *p, struct rdmaAddress *address, struct rdmaFeatures *features)
{
	uint32_t depth = p->can.logDepth < 15 ? 1u << p->can.logDepth : RDMA_MAX_DEPTH;

	*address = (struct rdmaAddress){
		.lid = p->attr.lid,
		.ethernet = p->attr.link_layer == IBV_LINK_LAYER_ETHERNET,
		.grh = (p->attr.flags & IBV_QPF_GRH_REQUIRED) != 0,
		.mtu = p->mtu,
		.logReads = p->logReads,
		.atomics = (uint8_t)(rdmaAtomics8 | (p->can.masked ? rdmaAtomicsMasked : 0)),
	};
	memcpy(address->gid, p->gid.bytes, sizeof(address->gid));
	*features = (struct rdmaFeatures){
		.maxDepth = depth,
		.maxQueues = 1u << p->can.logQueues,
		.relaxedOrdering = p->can.relaxedOrdering,
		.gid = (int)p->gid.index,
		.roceVersion = p->gid.roceVersion,
	};
}
