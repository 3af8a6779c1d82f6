/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ofi.c - libgin-ofi.so: the proxy's fabric by libfabric, GIN_TRANSPORT=ofi
 *
 * All endpoints share one domain; each has an RDM endpoint of libfabric, a completion queue and an
 * address vector. Writes ask for delivery-complete, except a write that a message covers: the
 * receiver acknowledges the message, so an acknowledgement by the provider would be one too many.
 * Plain writes over TCP share acknowledgements: writes.c.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ofi.h"

int ofiFail(char *why, const char *call, int error)
{
	snprintf(why, FABRIC_WHY, "%s: %s", call, fi_strerror(-error));
	return fabricFailed;
}

static void ofiClose(struct fabric *f)
{
	if (f->domain)
		fi_close(&f->domain->fid);
	if (f->fabric)
		fi_close(&f->fabric->fid);
	if (f->info)
		fi_freeinfo(f->info);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

/* How many writes the provider takes as one. */
static size_t groupOf(const struct fi_info *info)
{
	size_t most = info->tx_attr->iov_limit;

	if (most > info->tx_attr->rma_iov_limit)
		most = info->tx_attr->rma_iov_limit;
	if (most > OFI_GROUP)
		most = OFI_GROUP;
	return most ? most : 1;
}

static int openAll(struct fabric *f, const struct fabricWanted *want, char *why)
{
	f->info = ofiInfo(want, why);
	if (!f->info)
		return fabricFailed;
	int error = fi_fabric(f->info->fabric_attr, &f->fabric, NULL);
	if (error)
		return ofiFail(why, "fi_fabric", error);
	f->sharesAcks = ofiMayShareAcks(f->info);
	f->group = groupOf(f->info);
	error = fi_domain(f->fabric, f->info, &f->domain, NULL);
	return error ? ofiFail(why, "fi_domain", error) : fabricOk;
}

static int ofiOpen(const struct fabricWanted *want, struct fabric **out, char *why)
{
	struct fabric *f = calloc(1, sizeof(*f));

	if (!f)
		return ofiFail(why, "calloc", -FI_ENOMEM);
	pthread_mutex_init(&f->lock, NULL);
	if (openAll(f, want, why)) {
		ofiClose(f);
		return fabricFailed;
	}
	*out = f;
	return fabricOk;
}

static void ofiEndClose(struct fabricEnd *end)
{
	if (ofiIsAlone(end)) /* workers of other endpoints do not look at it */
		end->fabric->end = NULL;
	if (end->mr)
		fi_close(&end->mr->fid);
	if (end->ep)
		fi_close(&end->ep->fid);
	if (end->socketCq)
		fi_close(&end->socketCq->fid);
	if (end->cq)
		fi_close(&end->cq->fid);
	if (end->av)
		fi_close(&end->av->fid);
	free(end);
}

/*
 * The native providers over TCP leave the descriptor of a completion queue readable after a
 * completion. A queue without an endpoint has no completions: its descriptor is readable as long as
 * the sockets of the domain have something, writes of peers too. Without it, the thread sleeps on
 * `wait`.
 */
static void openSocketCq(struct fabricEnd *end)
{
	const char *provider = end->fabric->info->fabric_attr->prov_name;
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_DATA, .size = 1, .wait_obj = FI_WAIT_FD};

	if (strcmp(provider, "net") && strcmp(provider, "tcp"))
		return;
	if (fi_cq_open(end->fabric->domain, &attr, &end->socketCq, NULL))
		end->socketCq = NULL;
	else if (fi_control(&end->socketCq->fid, FI_GETWAIT, &end->socketWait))
		end->socketWait = -1;
}

static int bindAll(struct fabricEnd *end, char *why)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_DATA,
				.size = 2 * (OFI_OPS + OFI_RECEIVES),
				.wait_obj = FI_WAIT_FD};
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
	if (!error)
		openSocketCq(end);
	return error ? ofiFail(why, "an endpoint", error) : fabricOk;
}

/* A receive that finds no room is posted by a later poll. */
static void postReceive(struct fabricEnd *end, struct ofiOp *op)
{
	if (!fi_recv(end->ep, op->message, sizeof(op->message), ofiMessageDescriptor(end),
		     FI_ADDR_UNSPEC, &op->context))
		return;
	op->next = end->unposted;
	end->unposted = op;
}

static void fillPools(struct fabricEnd *end)
{
	for (int i = 0; i < OFI_OPS; i++) {
		end->op[i].next = end->freeOps;
		end->freeOps = &end->op[i];
	}
	for (int i = 0; i < OFI_RECEIVES; i++) {
		end->receive[i].kind = ofiReceive;
		postReceive(end, &end->receive[i]);
	}
}

static int ofiEndOpen(struct fabric *f, struct fabricEnd **out, void *address, char *why)
{
	struct fabricEnd *end = calloc(1, sizeof(*end));
	size_t bytes = FABRIC_ADDRESS;

	if (!end)
		return ofiFail(why, "calloc", -FI_ENOMEM);
	end->fabric = f;
	int result = bindAll(end, why);
	f->opened++;
	f->end = end;
	if (!result)
		result = ofiMemoryOfEnd(end, why);
	int error = result ? 0 : fi_getname(&end->ep->fid, address, &bytes);
	if (error)
		result = ofiFail(why, "fi_getname", error);
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
		return ofiFail(why, "fi_av_insert", count < 0 ? count : -FI_EINVAL);
	*peer = to;
	return fabricOk;
}

static int ofiSendMessage(struct fabricEnd *end, uint64_t peer, const void *message, size_t bytes)
{
	if (ofiGiveBatch(end) != fabricOk)
		return fabricBusy;
	struct ofiOp *op = ofiTakeOp(end, ofiSend, peer, NULL);
	if (!op)
		return fabricBusy;
	memcpy(op->message, message, bytes);
	return ofiBegun(end, op,
			fi_send(end->ep, op->message, bytes, ofiMessageDescriptor(end), peer,
				&op->context));
}

/* Makes events of the completion, and returns how many. Transfers land by ofiTakeLanded(). */
static int completed(struct fabricEnd *end, struct ofiOp *op, size_t bytes, int error,
		     struct fabricEvent *event)
{
	if (op->kind == ofiTransfer) {
		ofiTransferred(end, op, error);
		return 0;
	}
	*event = (struct fabricEvent){.kind = fabricLost, .error = error, .peer = op->peer};
	if (op->kind == ofiReceive) {
		event->kind = fabricMessage;
		event->bytes = (uint32_t)bytes;
		memcpy(event->message, op->message, sizeof(event->message));
		postReceive(end, op);
		return !error;
	}
	ofiGiveOp(end, op);
	return error != 0;
}

static int pollError(struct fabricEnd *end, struct fabricEvent *event)
{
	struct fi_cq_err_entry entry = {.op_context = NULL};

	if (fi_cq_readerr(end->cq, &entry, 0) != 1 || !entry.op_context)
		return 0;
	return completed(end, entry.op_context, 0, entry.err ? entry.err : FI_EIO, event);
}

/*
 * Makes events of a completion without error, and returns how many. Data of a write, which ends no
 * operation of this endpoint, is of a stranger: ofiWrite() sends none.
 */
static int completedWell(struct fabricEnd *end, const struct fi_cq_data_entry *entry,
			 struct fabricEvent *event)
{
	if (!(entry->flags & FI_REMOTE_CQ_DATA) || (entry->flags & FI_RECV))
		return completed(end, entry->op_context, entry->len, 0, event);
	*event = (struct fabricEvent){.kind = fabricImmediate, .immediate = (uint32_t)entry->data};
	return 1;
}

static void postAgain(struct fabricEnd *end)
{
	struct ofiOp *unposted = end->unposted;

	end->unposted = NULL;
	while (unposted) {
		struct ofiOp *next = unposted->next;
		postReceive(end, unposted);
		unposted = next;
	}
}

static int pollQueue(struct fabricEnd *end, struct fabricEvent *events, int most)
{
	struct fi_cq_data_entry entry[64];
	int count = 0;

	if (end->hasEarly) {
		end->hasEarly = 0;
		return completedWell(end, &end->early, events);
	}
	ssize_t got = fi_cq_read(end->cq, entry, (size_t)(most < 64 ? most : 64));
	if (got == -FI_EAVAIL)
		return pollError(end, events);
	for (ssize_t i = 0; i < got; i++)
		count += completedWell(end, &entry[i], &events[count]);
	return count;
}

static int ofiPoll(struct fabricEnd *end, struct fabricEvent *events, int most)
{
	postAgain(end);
	int count = ofiTakeLanded(end, events, most);
	if (count < most)
		count += pollQueue(end, events + count, most - count);
	return count + ofiTakeLanded(end, events + count, most - count);
}

/*
 * fi_trywait() of the native providers over TCP does not reset the descriptor. fi_cq_sread() does,
 * but may wait for a millisecond.
 */
static int resetWait(struct fabricEnd *end)
{
	struct pollfd wait = {.fd = end->wait, .events = POLLIN};

	if (poll(&wait, 1, 0) <= 0)
		return end->wait;
	ssize_t got = fi_cq_sread(end->cq, &end->early, 1, NULL, 1);
	end->hasEarly = got == 1;
	return -1;
}

static int ofiArm(struct fabricEnd *end, int isBrief)
{
	struct fid *fids[] = {&end->cq->fid};

	if (end->wait < 0 || end->unposted || end->hasEarly || end->batch.first || end->landed ||
	    fi_trywait(end->fabric->fabric, fids, 1))
		return -1;
	if (!end->socketCq)
		return end->wait;
	if (ofiIsAlone(end) || isBrief)
		return end->socketWait;
	return resetWait(end);
}

__attribute__((visibility("default"))) const struct fabricCalls ginFabric = {
	.size = sizeof(ginFabric),
	.pollsSlowly = 1,
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
	.submit = ofiSubmit,
	.poll = ofiPoll,
	.arm = ofiArm,
};
