/* SPDX-License-Identifier: BSD-3-Clause */
/* path.c - the path to a peer, as fields of INIT2RTR_QP */
#include "queues.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "mlx5/prm.h"
#include "explain.h"

static void set(uint8_t *in, uint32_t field, uint64_t value)
{
	fieldSet(in, fieldAt(QP_IN_QPC + QPC_PRIMARY_PATH, field), value);
}

static int isEthernet(const struct rdmaPort *port)
{
	return port->attr.link_layer == IBV_LINK_LAYER_ETHERNET;
}

/* Can the two ports communicate? 0, or -1 and why not. */
static int checkPeer(const struct rdmaPort *port, const struct rdmaAddress *peer, char *why)
{
	if (isEthernet(port) != peer->ethernet)
		return explain(why,
			       "this end is on %s and the peer on %s: choose ports of one network",
			       isEthernet(port) ? "Ethernet" : "InfiniBand",
			       peer->ethernet ? "Ethernet" : "InfiniBand");
	if (!peer->ethernet && !peer->lid && !peer->grh)
		return explain(why, "the peer's port has no LID: is there a subnet manager?");
	return 0;
}

static void setGid(const struct rdmaPort *port, const struct rdmaAddress *peer,
		   const struct rdmaPath *path, uint8_t *in)
{
	memcpy(fieldBytes(in, QP_IN_QPC + QPC_PRIMARY_PATH + ADS_RGID), peer->gid,
	       sizeof(peer->gid));
	set(in, ADS_SRC_ADDR_INDEX, port->gid.index);
	set(in, ADS_HOP_LIMIT, path->hopLimit);
}

/* Adds a global route header only if a port requires it or the subnets differ. */
static void setInfiniBand(const struct rdmaPort *port, const struct rdmaAddress *peer,
			  const struct rdmaPath *path, uint8_t *in)
{
	set(in, ADS_RLID, peer->lid);
	set(in, ADS_SL, path->serviceLevel);
	set(in, ADS_TCLASS, path->trafficClass);
	if (!peer->grh && !(port->attr.flags & IBV_QPF_GRH_REQUIRED) &&
	    gidSameSubnet(port->gid.bytes, peer->gid))
		return;
	set(in, ADS_GRH, 1);
	setGid(port, peer, path, in);
}

static void setMac(uint8_t *in, const uint8_t *mac)
{
	set(in, ADS_RMAC_47_32, (uint64_t)mac[0] << 8 | mac[1]);
	set(in, ADS_RMAC_31_0,
	    (uint64_t)mac[2] << 24 | (uint64_t)mac[3] << 16 | (uint64_t)mac[4] << 8 | mac[5]);
}

static int explainUnreachable(char *why, int error, const uint8_t *gid)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, gid, text, sizeof(text));
	return explainErrno(why, error, "no route to the peer's address %s", text);
}

/* The kernel resolves the MAC of the next hop: the peer, or a router. */
static int resolveMac(const struct rdmaPort *port, const struct rdmaAddress *peer,
		      const struct rdmaPath *path, uint8_t *in, char *why)
{
	struct mlx5dv_ah found = {0};
	struct mlx5dv_obj object = {.ah = {.out = &found}};
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = port->number,
		.sl = path->serviceLevel,
		.grh = {.sgid_index = (uint8_t)port->gid.index,
			.hop_limit = path->hopLimit,
			.traffic_class = path->trafficClass},
	};

	memcpy(attr.grh.dgid.raw, peer->gid, sizeof(peer->gid));
	object.ah.in = ibv_create_ah(port->pd, &attr);
	if (!object.ah.in)
		return explainUnreachable(why, errno, peer->gid);
	int failed = mlx5dv_init_obj(&object, MLX5DV_OBJ_AH);
	if (!failed)
		setMac(in, found.av->rmac);
	ibv_destroy_ah(object.ah.in);
	return failed ? explain(why, "libmlx5 does not report the peer's MAC") : 0;
}

/* Switches choose among equal paths by the UDP source port. */
static uint32_t sourcePort(const struct rdmaPort *port, uint32_t spread)
{
	uint32_t ports = port->can.lastPort - port->can.firstPort + 1;

	return port->can.firstPort + (spread * 2654435761u >> 8) % ports;
}

static int setRoce(const struct rdmaPort *port, const struct rdmaAddress *peer,
		   const struct rdmaPath *path, uint32_t spread, uint8_t *in, char *why)
{
	setGid(port, peer, path, in);
	set(in, ADS_ETH_PRIO, path->serviceLevel);
	set(in, ADS_TCLASS, path->trafficClass);
	if (port->gid.roceVersion == 2) {
		set(in, ADS_DSCP, path->trafficClass >> 2);
		set(in, ADS_UDP_SPORT, sourcePort(port, spread));
	}
	return resolveMac(port, peer, path, in, why);
}

int pathSet(const struct rdmaPort *port, const struct rdmaAddress *peer,
	    const struct rdmaPath *path, uint32_t spread, uint8_t *in, char *why)
{
	if (checkPeer(port, peer, why))
		return -1;
	set(in, ADS_VHCA_PORT_NUM, port->number);
	if (isEthernet(port))
		return setRoce(port, peer, path, spread, in, why);
	setInfiniBand(port, peer, path, in);
	return 0;
}
