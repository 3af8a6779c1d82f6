/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - memory registered with libfabric
 *
 * FI_MR_LOCAL and FI_MR_ENDPOINT follow libfabric's documents and have never run: net and
 * tcp;ofi_rxm do not ask for them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lib/base/random.h"
#include "ofi.h"

static int needs(const struct fabric *f, int mode)
{
	return (f->info->domain_attr->mr_mode & mode) != 0;
}

/* For providers that let the caller choose keys. A stranger cannot guess a random key. */
static uint64_t newKey(const struct fabric *f)
{
	size_t bytes = f->info->domain_attr->mr_key_size;
	uint64_t key = 0;

	if (randomBytes(&key, sizeof(key)))
		key = (uintptr_t)&key ^ (uint64_t)time(NULL) << 32;
	return bytes < sizeof(key) ? key & ((1ull << 8 * bytes) - 1) : key;
}

/* Memory of one endpoint only. */
static int bindToEnd(struct fabric *f, struct fid_mr *mr)
{
	int error = f->opened == 1 && f->end ? 0 : -FI_EOPNOTSUPP;

	if (!error)
		error = fi_mr_bind(mr, &f->end->ep->fid, 0);
	return error ? error : fi_mr_enable(mr);
}

static int addMemory(struct fabric *f, void *at, size_t bytes, uint64_t access, struct fid_mr **out)
{
	struct fid_mr *mr;
	int error = fi_mr_reg(f->domain, at, bytes, access, 0, newKey(f), 0, &mr, NULL);

	if (error)
		return error;
	if (needs(f, FI_MR_ENDPOINT))
		error = bindToEnd(f, mr);
	if (error)
		fi_close(&mr->fid);
	else
		*out = mr;
	return error;
}

int ofiMemoryAdd(struct fabric *f, void *at, size_t bytes, struct fabricRegion **out,
		 struct fabricKey *key, char *why)
{
	struct fabricRegion *region = calloc(1, sizeof(*region));

	if (!region)
		return ofiFail(why, "calloc", -FI_ENOMEM);
	*region = (struct fabricRegion){.fabric = f, .at = at, .bytes = bytes};
	int error = addMemory(f, at, bytes, FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE,
			      &region->mr);
	if (error == -FI_EOPNOTSUPP && f->opened > 1)
		snprintf(why, FABRIC_WHY,
			 "this provider needs GIN_PROXY_THREADS=1: it registers memory for one "
			 "endpoint");
	else if (error)
		ofiFail(why, "fi_mr_reg", error);
	if (error) {
		free(region);
		return fabricFailed;
	}
	pthread_mutex_lock(&f->lock);
	region->next = f->regions;
	f->regions = region;
	pthread_mutex_unlock(&f->lock);
	*key = (struct fabricKey){needs(f, FI_MR_VIRT_ADDR) ? (uintptr_t)at : 0,
				  fi_mr_key(region->mr)};
	*out = region;
	return fabricOk;
}

void ofiMemoryRemove(struct fabricRegion *region)
{
	struct fabric *f = region->fabric;
	struct fabricRegion **at = &f->regions;

	pthread_mutex_lock(&f->lock);
	while (*at != region)
		at = &(*at)->next;
	*at = region->next;
	pthread_mutex_unlock(&f->lock);
	fi_close(&region->mr->fid);
	free(region);
}

int ofiMemoryOfEnd(struct fabricEnd *end, char *why)
{
	if (!needs(end->fabric, FI_MR_LOCAL))
		return fabricOk;
	int error = addMemory(end->fabric, end->op, sizeof(end->op) + sizeof(end->receive),
			      FI_SEND | FI_RECV, &end->mr);
	return error ? ofiFail(why, "fi_mr_reg", error) : fabricOk;
}

static struct fid_mr *find(struct fabric *f, const char *at, size_t bytes)
{
	struct fid_mr *found = NULL;

	pthread_mutex_lock(&f->lock);
	for (const struct fabricRegion *r = f->regions; r && !found; r = r->next)
		if (at >= r->at && bytes <= r->bytes && (size_t)(at - r->at) <= r->bytes - bytes)
			found = r->mr;
	pthread_mutex_unlock(&f->lock);
	return found;
}

/* Values and windows of GIN_WINDOW_LOCAL are registered for the transfer only. */
int ofiDescribe(struct fabricEnd *end, const struct fabricPiece *piece, struct ofiOp *op,
		void **descriptor)
{
	struct fabric *f = end->fabric;
	int error = 0;

	*descriptor = NULL;
	if (!needs(f, FI_MR_LOCAL))
		return 0;
	struct fid_mr *mr = find(f, piece->local, piece->bytes);
	if (!mr) {
		error = addMemory(f, piece->local, piece->bytes, FI_READ | FI_WRITE, &op->mr);
		mr = op->mr;
	}
	if (!error)
		*descriptor = fi_mr_desc(mr);
	return error;
}
