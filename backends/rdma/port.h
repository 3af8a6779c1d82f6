/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port.h - which NIC port this rank uses (its rail), the user's settings of packets, and the calls
 * of libgin-rdma.so
 */
#ifndef GIN_RDMA_PORT_H
#define GIN_RDMA_PORT_H

#include "backends/backend.h"
#include "rdma.h"

/*
 * Opens libgin-rdma.so on the first call. Returns its calls, or NULL and the reason in `why`. Any
 * thread.
 */
const struct rdma *rdmaLoad(char *why, size_t room);

/*
 * The number of PCI bridges that the paths from the root to the NIC and to the GPU share. A larger
 * number means that the two are closer; 0: no shared bridge, or not known. `sysfs` is "/sys", `nic`
 * a name such as "mlx5_0", `gpu` a PCI bus id such as "0000:1B:00.0", in upper or lower case.
 */
unsigned pciSharedBridges(const char *sysfs, const char *nic, const char *gpu);

/* Of a rank; the first is 0. */
struct rdmaRail {
	unsigned index, count;
};

/*
 * Chooses among the usable ports in `found` that `names` allows ("mlx5_0,mlx5_2:1"; see
 * portAllowed()) the port closest to the GPU. If several ports are equally close, the ranks of one
 * host take them round robin. Returns the port's index in `found`; or -1, with the reason for each
 * port in `why` (RDMA_WHY bytes).
 */
int portChoose(const struct backendHost *host, const char *names, const struct rdmaFound *found,
	       int count, char *why);

/*
 * As portChoose(), for a rank with several rails: rail `rail` of `rails`. The ports of a rank
 * differ as long as there are enough.
 */
int portChooseRail(const struct backendHost *host, const char *names, const struct rdmaFound *found,
		   int count, struct rdmaRail rail, char *why);

/*
 * Does the list contain the port? A device name without a port number allows all its ports. "": as
 * NCCL_IB_HCA allows.
 */
int portAllowed(const char *names, const struct rdmaFound *found);

/*
 * As portAllowed(), of a list as of NCCL_IB_HCA: beginnings of names; "=" before the list: whole
 * names; "^" before the list: all other ports.
 */
int portAllowedByNccl(const char *list, const struct rdmaFound *found);

/*
 * backendOps.probe: 1 and the address of the rank's port, or 0 and the reason. Obeys GIN_NIC, or
 * NCCL_IB_HCA where GIN_NIC is unset, and GIN_NIC_GID.
 */
int rdmaProbe(const struct backendHost *host, struct rdmaAddress *address, char why[BACKEND_WHY]);

/*
 * Are both ports in one network: of one kind, and with addresses of one kind? 0, and why not.
 * Symmetric.
 */
int rdmaReaches(const struct rdmaAddress *a, const struct rdmaAddress *b, char why[BACKEND_WHY]);

/* Which port this rank takes. `wanted` opens it. */
struct rdmaChoice {
	struct rdmaFound found;
	struct rdmaWanted wanted;
};

/*
 * Chooses the port as rdmaProbe() does; `isPlain`: among the ports of all devices. Returns the
 * calls of libgin-rdma.so; or NULL, and why.
 */
const struct rdma *rdmaPortFind(const struct backendHost *host, int isPlain,
				struct rdmaChoice *choice, char why[RDMA_WHY]);

/* As rdmaPortFind(), for plain ports, by portChooseRail(). */
const struct rdma *rdmaRailFind(const struct backendHost *host, struct rdmaRail rail,
				struct rdmaChoice *choice, char why[RDMA_WHY]);

/*
 * backendOps.nic, for ginNicQuery(): every port of this machine. A port that GIN_NIC leaves out is
 * reported as not usable.
 */
ginResult_t rdmaNic(int index, ginNicInfo_t *info);

/*
 * Opens the port that rdmaProbe() chose, for `user`, a name for messages. The caller closes the
 * port.
 */
ginResult_t rdmaPortOpen(const struct backendHost *host, const char *user, const struct rdma **rdma,
			 struct rdmaPort **port);

/* The settings of GIN_NIC_SL, GIN_NIC_TC, GIN_NIC_TIMEOUT and GIN_NIC_RETRIES. */
ginResult_t rdmaPathOf(int isEthernet, struct rdmaPath *path);

#endif
