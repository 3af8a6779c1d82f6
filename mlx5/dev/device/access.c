/* SPDX-License-Identifier: BSD-3-Clause */
#include "access.h"

#include "mlx5/dev/host/options.h"

static const char *whyNot(const struct mr *mr, const struct pd *pd, uint32_t key, uint64_t address,
			  uint64_t bytes, uint32_t rights)
{
	if (!mr || mr->key != key)
		return "there is no such key";
	if (mr->pd != pd)
		return "the key is of another protection domain";
	if ((mr->access & rights) != rights)
		return "the region lacks that right";
	if (address < mr->iova || bytes > mr->length || address - mr->iova > mr->length - bytes)
		return "it is outside the region";
	return NULL;
}

struct mr *accessFind(const struct pd *pd, uint32_t key, uint64_t address, uint64_t bytes,
		      uint32_t rights)
{
	struct mr *mr = objectFind(pd->object.device, KIND_MR, key >> 8);
	const char *reason = whyNot(mr, pd, key, address, bytes, rights);

	if (!reason)
		return mr;
	trace("key 0x%x, address 0x%llx, %llu bytes, rights 0x%x: %s", key,
	      (unsigned long long)address, (unsigned long long)bytes, rights, reason);
	return NULL;
}
