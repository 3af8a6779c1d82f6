/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * end.c - an endpoint: a completion queue for all queue pairs of a lane, and buffers for messages
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "verbs.h"

static int chooseDepth(struct fabricEnd *end, char *why)
{
	const struct fabric *f = end->fabric;
	struct ibv_device_attr attr;
	int error = ibv_query_device(f->port->context, &attr);

	if (error)
		return verbsFailErrno(why, "the device's attributes", error);
	end->shape =
		verbsShapeOf(f->peers, f->hasGpu, (uint32_t)attr.max_qp_wr, (uint32_t)attr.max_cqe);
	end->room = end->shape.room;
	end->depth = end->shape.depth;
	if (end->depth < 2)
		return verbsFail(why, "its completion queues are too short for so many peers");
	end->receives = end->depth;
	return fabricOk;
}

/* ibv_get_cq_event() of an empty channel must not block. */
static int openChannel(struct fabricEnd *end, char *why)
{
	struct ibv_context *context = end->fabric->port->context;
	uint32_t entries = end->room * (end->depth + end->receives);

	end->channel = ibv_create_comp_channel(context);
	if (!end->channel)
		return verbsFailErrno(why, "a completion channel", errno);
	int flags = fcntl(end->channel->fd, F_GETFL);
	if (flags < 0 || fcntl(end->channel->fd, F_SETFL, flags | O_NONBLOCK))
		return verbsFailErrno(why, "a completion channel", errno);
	end->cq = ibv_create_cq(context, (int)entries, end, end->channel, 0);
	return end->cq ? fabricOk : verbsFailErrno(why, "a completion queue", errno);
}

static int addWait(const struct fabricEnd *end, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(end->wait, EPOLL_CTL_ADD, fd, &event);
}

/* Without it the proxy's thread naps. */
static void openWait(struct fabricEnd *end)
{
	end->wait = epoll_create1(EPOLL_CLOEXEC);
	if (end->wait < 0)
		return;
	if (!addWait(end, end->channel->fd) && !addWait(end, end->fabric->port->context->async_fd))
		return;
	close(end->wait);
	end->wait = -1;
}

static int openBuffers(struct fabricEnd *end, char *why)
{
	size_t bytes = verbsBuffersBytes(&end->shape);

	end->peer = calloc(1, verbsTableBytes(&end->shape));
	end->buffers = aligned_alloc(RDMA_PAGE, bytes);
	if (!end->peer || !end->buffers)
		return verbsFail(why, "no memory");
	memset(end->buffers, 0, bytes);
	const struct rdmaMemory memory = {.address = end->buffers, .bytes = bytes, .dmabuf = -1};
	return verbsMemoryOpen(end->fabric, &memory, rdmaLocal, 0, &end->region, why);
}

int verbsEndOpen(struct fabric *f, struct fabricEnd **out, void *address, char *why)
{
	struct fabricEnd *end = calloc(1, sizeof(*end));

	if (!end)
		return verbsFail(why, "no memory");
	end->fabric = f;
	end->wait = -1;
	if (chooseDepth(end, why) || openChannel(end, why) || openBuffers(end, why) ||
	    verbsFlushOpen(end, why)) {
		verbsEndClose(end);
		return fabricFailed;
	}
	openWait(end);
	memcpy(address, &f->address, sizeof(f->address));
	*out = end;
	return fabricOk;
}

void verbsEndClose(struct fabricEnd *end)
{
	for (uint32_t i = 0; i < end->peers; i++)
		verbsPairClose(end->peer[i]);
	if (end->cq && end->unacknowledged)
		ibv_ack_cq_events(end->cq, end->unacknowledged);
	if (end->cq)
		ibv_destroy_cq(end->cq);
	if (end->wait >= 0)
		close(end->wait);
	if (end->channel)
		ibv_destroy_comp_channel(end->channel);
	if (end->region)
		verbsMemoryRemove(end->region);
	free(end->buffers);
	free(end->held);
	free(end->peer);
	free(end);
}
