/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.c - libgin-ofi.so: the proxy's fabric by libfabric, GIN_TRANSPORT=ofi
 *
 * One domain for all ends, one RDM endpoint with a completion queue and an address vector for each
 * end. Writes ask for delivery-complete. Atomics are never asked for: with them, providers give up
 * their order. Providers are tried in the order of `wanted`, which has only providers that libgin
 * was run on.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/proxy/network/fabric.h"
#include "lib/base/random.h"

#define OPS 512	     /* operations of an end under way */
#define RECEIVES 256 /* messages of an end that may come between two polls */
#define ORDER (FI_ORDER_SAS | FI_ORDER_SAW | FI_ORDER_WAW)

enum ofiKind { ofiTransfer, ofiSend, ofiReceive };

/* Of a transfer, a sent message, or a buffer for a message that comes. */
struct ofiOp {
	struct fi_context2 context; /* libfabric's; first */
	enum ofiKind kind;
	uint64_t peer;
	void *of; /* ofiTransfer: the caller's context */
	struct ofiOp *next;
	unsigned char message[FABRIC_MESSAGE];
};

struct fabric {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
};

struct fabricRegion {
	struct fid_mr *mr;
};

struct fabricEnd {
	struct fabric *fabric;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	int wait; /* readable when the completion queue has something; -1: none */
	struct ofiOp *freeOps;
	struct ofiOp *unposted; /* receives that found no room */
	struct ofiOp op[OPS], receive[RECEIVES];
};

static const char *const wanted[] = {"net", "tcp"};

static struct fi_info *hintsFor(const char *provider)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		return NULL;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_SEND | FI_RECV | FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ |
		      FI_REMOTE_WRITE;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = ORDER;
	hints->fabric_attr->prov_name = strdup(provider);
	return hints;
}

/* `local`: an address, or "": any. */
static int getInfo(const char *provider, const char *local, struct fi_info **info)
{
	struct fi_info *hints = hintsFor(provider);
	int error = -FI_ENOMEM;

	if (hints)
		error = fi_getinfo(FI_VERSION(1, 15), *local ? local : NULL, *local ? "0" : NULL,
				   *local ? FI_SOURCE : 0, hints, info);
	fi_freeinfo(hints);
	return error;
}

/* The first provider of this machine. NULL, and why. */
static struct fi_info *findInfo(char *why)
{
	struct fi_info *info = NULL;
	int error = 0;

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && !info; i++)
		error = getInfo(wanted[i], "", &info);
	if (!info)
		snprintf(why, FABRIC_WHY, "libfabric has no provider net or tcp: %s",
			 fi_strerror(-error));
	return info;
}

static int failCall(char *why, const char *call, int error)
{
	snprintf(why, FABRIC_WHY, "%s: %s", call, fi_strerror(-error));
	return fabricFailed;
}

/* FNV-1a. */
static uint64_t hashOf(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
	return hash;
}

static int ofiProbe(struct fabricAbout *about, char *why)
{
	struct fi_info *info = findInfo(why);

	if (!info)
		return fabricFailed;
	snprintf(about->name, sizeof(about->name), "libfabric, %.32s",
		 info->fabric_attr->prov_name);
	about->kind = hashOf(about->name);
	about->mostBytes = info->ep_attr->max_msg_size;
	about->ordered = (info->tx_attr->msg_order & ORDER) == ORDER;
	fi_freeinfo(info);
	return fabricOk;
}

static void ofiClose(struct fabric *f)
{
	if (f->domain)
		fi_close(&f->domain->fid);
	if (f->fabric)
		fi_close(&f->fabric->fid);
	if (f->info)
		fi_freeinfo(f->info);
	free(f);
}

static int openAll(struct fabric *f, const char *local, char *why)
{
	struct fi_info *any = findInfo(why);

	if (!any)
		return fabricFailed;
	/* The provider that ofiProbe() has told the peers. */
	int error = getInfo(any->fabric_attr->prov_name, local, &f->info);
	fi_freeinfo(any);
	if (error) {
		snprintf(why, FABRIC_WHY, "libfabric cannot use %s: %s", local,
			 fi_strerror(-error));
		return fabricFailed;
	}
	error = fi_fabric(f->info->fabric_attr, &f->fabric, NULL);
	if (error)
		return failCall(why, "fi_fabric", error);
	error = fi_domain(f->fabric, f->info, &f->domain, NULL);
	return error ? failCall(why, "fi_domain", error) : fabricOk;
}

static int ofiOpen(const char *local, struct fabric **out, char *why)
{
	struct fabric *f = calloc(1, sizeof(*f));

	if (!f)
		return failCall(why, "calloc", -FI_ENOMEM);
	if (openAll(f, local, why)) {
		ofiClose(f);
		return fabricFailed;
	}
	*out = f;
	return fabricOk;
}

static void ofiEndClose(struct fabricEnd *end)
{
	if (end->ep)
		fi_close(&end->ep->fid);
	if (end->cq)
		fi_close(&end->cq->fid);
	if (end->av)
		fi_close(&end->av->fid);
	free(end);
}

static int bindAll(struct fabricEnd *end, char *why)
{
	struct fi_cq_attr cq = {
		.format = FI_CQ_FORMAT_MSG, .size = 2 * (OPS + RECEIVES), .wait_obj = FI_WAIT_FD};
	struct fi_av_attr av = {.type = FI_AV_UNSPEC};
	struct fid_domain *domain = end->fabric->domain;
	int error = fi_cq_open(domain, &cq, &end->cq, NULL);

	if (error || fi_control(&end->cq->fid, FI_GETWAIT, &end->wait))
		end->wait = -1;
	cq.wait_obj = FI_WAIT_NONE;
	if (error)
		error = fi_cq_open(domain, &cq, &end->cq, NULL);

	if (!error)
		error = fi_av_open(domain, &av, &end->av, NULL);
	if (!error)
		error = fi_endpoint(domain, end->fabric->info, &end->ep, NULL);
	if (!error)
		error = fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!error)
		error = fi_ep_bind(end->ep, &end->av->fid, 0);
	if (!error)
		error = fi_enable(end->ep);
	return error ? failCall(why, "an endpoint", error) : fabricOk;
}

/* Receives that find no room are posted by a later poll. */
static void postReceive(struct fabricEnd *end, struct ofiOp *op)
{
	if (!fi_recv(end->ep, op->message, sizeof(op->message), NULL, FI_ADDR_UNSPEC, &op->context))
		return;
	op->next = end->unposted;
	end->unposted = op;
}

static void fillPools(struct fabricEnd *end)
{
	for (int i = 0; i < OPS; i++) {
		end->op[i].next = end->freeOps;
		end->freeOps = &end->op[i];
	}
	for (int i = 0; i < RECEIVES; i++) {
		end->receive[i].kind = ofiReceive;
		postReceive(end, &end->receive[i]);
	}
}

static int ofiEndOpen(struct fabric *f, struct fabricEnd **out, void *address, char *why)
{
	struct fabricEnd *end = calloc(1, sizeof(*end));
	size_t bytes = FABRIC_ADDRESS;

	if (!end)
		return failCall(why, "calloc", -FI_ENOMEM);
	end->fabric = f;
	int result = bindAll(end, why);
	int error = result ? 0 : fi_getname(&end->ep->fid, address, &bytes);
	if (error)
		result = failCall(why, "fi_getname", error);
	if (result) {
		ofiEndClose(end);
		return result;
	}
	fillPools(end);
	*out = end;
	return fabricOk;
}

static int ofiConnect(struct fabricEnd *end, const void *address, uint64_t *peer, char *why)
{
	fi_addr_t to = FI_ADDR_UNSPEC;
	int count = fi_av_insert(end->av, address, 1, &to, 0, NULL);

	if (count != 1)
		return failCall(why, "fi_av_insert", count < 0 ? count : -FI_EINVAL);
	*peer = to;
	return fabricOk;
}

/* The providers take the caller's keys. A random key is no stranger's guess. */
static uint64_t newKey(const struct fabric *f)
{
	size_t bytes = f->info->domain_attr->mr_key_size;
	uint64_t key = 0;

	if (randomBytes(&key, sizeof(key)))
		key = (uintptr_t)&key ^ (uint64_t)time(NULL) << 32;
	return bytes < sizeof(key) ? key & ((1ull << 8 * bytes) - 1) : key;
}

static int ofiMemoryAdd(struct fabric *f, void *at, size_t bytes, struct fabricRegion **out,
			struct fabricKey *key, char *why)
{
	struct fabricRegion *region = calloc(1, sizeof(*region));
	int isVirtual = (f->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;

	if (!region)
		return failCall(why, "calloc", -FI_ENOMEM);
	int error = fi_mr_reg(f->domain, at, bytes,
			      FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, newKey(f),
			      0, &region->mr, NULL);
	if (error) {
		free(region);
		return failCall(why, "fi_mr_reg", error);
	}
	*key = (struct fabricKey){isVirtual ? (uintptr_t)at : 0, fi_mr_key(region->mr)};
	*out = region;
	return fabricOk;
}

static void ofiMemoryRemove(struct fabricRegion *region)
{
	fi_close(&region->mr->fid);
	free(region);
}

static struct ofiOp *takeOp(struct fabricEnd *end, enum ofiKind kind, uint64_t peer, void *of)
{
	struct ofiOp *op = end->freeOps;

	if (!op)
		return NULL;
	end->freeOps = op->next;
	op->kind = kind;
	op->peer = peer;
	op->of = of;
	return op;
}

static void giveOp(struct fabricEnd *end, struct ofiOp *op)
{
	op->next = end->freeOps;
	end->freeOps = op;
}

static int begun(struct fabricEnd *end, struct ofiOp *op, ssize_t error)
{
	if (!error)
		return fabricOk;
	giveOp(end, op);
	return error == -FI_EAGAIN ? fabricBusy : fabricFailed;
}

static int ofiWrite(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece,
		    void *context)
{
	struct ofiOp *op = takeOp(end, ofiTransfer, peer, context);
	const struct iovec local = {piece->local, piece->bytes};
	const struct fi_rma_iov remote = {piece->remote.address, piece->bytes, piece->remote.key};
	const struct fi_msg_rma message = {.msg_iov = &local,
					   .iov_count = 1,
					   .addr = peer,
					   .rma_iov = &remote,
					   .rma_iov_count = 1,
					   .context = op};

	if (!op)
		return fabricBusy;
	return begun(end, op, fi_writemsg(end->ep, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE));
}

static int ofiRead(struct fabricEnd *end, uint64_t peer, const struct fabricPiece *piece,
		   void *context)
{
	struct ofiOp *op = takeOp(end, ofiTransfer, peer, context);

	if (!op)
		return fabricBusy;
	return begun(end, op,
		     fi_read(end->ep, piece->local, piece->bytes, NULL, peer, piece->remote.address,
			     piece->remote.key, &op->context));
}

static int ofiSendMessage(struct fabricEnd *end, uint64_t peer, const void *message, size_t bytes)
{
	struct ofiOp *op = takeOp(end, ofiSend, peer, NULL);

	if (!op)
		return fabricBusy;
	memcpy(op->message, message, bytes);
	return begun(end, op, fi_send(end->ep, op->message, bytes, NULL, peer, &op->context));
}

/* Returns how many events it has made of the completion. */
static int completed(struct fabricEnd *end, struct ofiOp *op, size_t bytes, int error,
		     struct fabricEvent *event)
{
	*event = (struct fabricEvent){.kind = fabricDone, .error = error, .context = op->of};
	if (op->kind == ofiReceive) {
		event->kind = fabricMessage;
		event->bytes = (uint32_t)bytes;
		memcpy(event->message, op->message, sizeof(event->message));
		postReceive(end, op);
		return !error;
	}
	if (op->kind == ofiSend) {
		event->kind = fabricLost;
		event->peer = op->peer;
	}
	giveOp(end, op);
	return op->kind == ofiTransfer || error;
}

static int pollError(struct fabricEnd *end, struct fabricEvent *event)
{
	struct fi_cq_err_entry entry = {.op_context = NULL};

	if (fi_cq_readerr(end->cq, &entry, 0) != 1 || !entry.op_context)
		return 0;
	return completed(end, entry.op_context, 0, entry.err ? entry.err : FI_EIO, event);
}

static int ofiPoll(struct fabricEnd *end, struct fabricEvent *events, int most)
{
	struct fi_cq_msg_entry entry[64];
	struct ofiOp *unposted = end->unposted;
	int count = 0;

	end->unposted = NULL;
	while (unposted) {
		struct ofiOp *next = unposted->next;
		postReceive(end, unposted);
		unposted = next;
	}
	ssize_t got = fi_cq_read(end->cq, entry, (size_t)(most < 64 ? most : 64));
	if (got == -FI_EAVAIL)
		return pollError(end, events);
	for (ssize_t i = 0; i < got; i++)
		count += completed(end, entry[i].op_context, entry[i].len, 0, &events[count]);
	return count;
}

static int ofiArm(struct fabricEnd *end)
{
	struct fid *fids[] = {&end->cq->fid};

	if (end->wait < 0 || end->unposted || fi_trywait(end->fabric->fabric, fids, 1))
		return -1;
	return end->wait;
}

__attribute__((visibility("default"))) const struct fabricCalls ginFabric = {
	.size = sizeof(ginFabric),
	.probe = ofiProbe,
	.open = ofiOpen,
	.close = ofiClose,
	.endOpen = ofiEndOpen,
	.endClose = ofiEndClose,
	.connect = ofiConnect,
	.memoryAdd = ofiMemoryAdd,
	.memoryRemove = ofiMemoryRemove,
	.write = ofiWrite,
	.read = ofiRead,
	.send = ofiSendMessage,
	.poll = ofiPoll,
	.arm = ofiArm,
};
