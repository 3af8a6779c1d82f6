/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c - registers memory, by dma-buf or by address */
#include "memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "explain.h"

struct rdmaRegion {
	struct ibv_mr *mr;
	enum rdmaVia via;
};

static int flagsOf(const struct rdmaPort *port, unsigned access)
{
	int flags = IBV_ACCESS_LOCAL_WRITE;

	if (access & rdmaRemote)
		flags |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	if (access & rdmaRemote && !port->isPlain) /* verbs leaves atomics to the proxies */
		flags |= IBV_ACCESS_REMOTE_ATOMIC;
	if (access & rdmaRelaxed)
		flags |= IBV_ACCESS_RELAXED_ORDERING;
	return flags;
}

/* The NIC's address of the first byte. The kernel requires the memory's offset in its page. */
static uint64_t nicAddressOf(const struct rdmaMemory *memory)
{
	return (uintptr_t)memory->address % RDMA_PAGE;
}

/* `byDmabuf`, `byAddress`: the error numbers of both attempts. */
static int explainFailure(char *why, const struct rdmaMemory *memory, int byDmabuf, int byAddress,
			  const char *use)
{
	const char *limit =
		byAddress == ENOMEM
			? " (is the limit on locked memory too low? ulimit -l unlimited)"
			: "";
	char first[64] = "", *words = "";

	if (memory->dmabuf >= 0)
		words = strerror_r(byDmabuf, first, sizeof(first));
	return explainErrno(why, byAddress, "%zu bytes at %p %s%s%s%s%s", memory->bytes,
			    memory->address, use, limit, *words ? ": by dma-buf: " : "", words,
			    *words ? "; by address, which for GPU memory takes nvidia-peermem"
				   : "");
}

static struct ibv_mr *registerMemory(struct rdmaRegion *region, struct rdmaPort *port,
				     const struct rdmaMemory *memory, int flags, char *why)
{
	struct ibv_mr *mr = NULL;
	int byDmabuf = 0;

	if (memory->dmabuf >= 0) {
		region->via = rdmaViaDmabuf;
		mr = ibv_reg_dmabuf_mr(port->pd, memory->dmabufOffset, memory->bytes,
				       nicAddressOf(memory), memory->dmabuf, flags);
		byDmabuf = errno;
	}
	if (mr)
		return mr;
	region->via = rdmaViaAddress;
	mr = ibv_reg_mr_iova2(port->pd, memory->address, memory->bytes, nicAddressOf(memory),
			      (unsigned)flags);
	if (!mr)
		explainFailure(why, memory, byDmabuf, errno, "cannot be registered");
	return mr;
}

int regionOpen(struct rdmaPort *port, const struct rdmaMemory *memory, unsigned access,
	       struct rdmaRegion **region, struct rdmaKeys *keys, char *why)
{
	struct rdmaRegion *r = calloc(1, sizeof(*r));

	if (!r)
		return explain(why, "no memory");
	r->mr = registerMemory(r, port, memory, flagsOf(port, access), why);
	if (!r->mr) {
		free(r);
		return -1;
	}
	*keys = (struct rdmaKeys){r->mr->lkey, r->mr->rkey, nicAddressOf(memory), r->via};
	*region = r;
	return 0;
}

void regionClose(struct rdmaRegion *region)
{
	ibv_dereg_mr(region->mr);
	free(region);
}

static struct mlx5dv_devx_umem *byDmabuf(struct rdmaPort *port, const struct rdmaMemory *memory)
{
	struct mlx5dv_devx_umem_in in = {
		.addr = (void *)(uintptr_t)memory->dmabufOffset,
		.size = memory->bytes,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.pgsz_bitmap = RDMA_PAGE,
		.comp_mask = MLX5DV_UMEM_MASK_DMABUF,
		.dmabuf_fd = memory->dmabuf,
	};

	return mlx5dv_devx_umem_reg_ex(port->context, &in);
}

int umemOpen(struct rdmaPort *port, const struct rdmaMemory *memory, struct mlx5dv_devx_umem **umem,
	     char *why)
{
	struct mlx5dv_devx_umem *made = NULL;
	int error = 0;

	if (memory->dmabuf >= 0) {
		made = byDmabuf(port, memory);
		error = errno;
	}
	if (!made)
		made = mlx5dv_devx_umem_reg(port->context, memory->address, memory->bytes,
					    IBV_ACCESS_LOCAL_WRITE);
	if (!made)
		return explainFailure(why, memory, error, errno, "cannot hold queues");
	*umem = made;
	return 0;
}
