/* SPDX-License-Identifier: BSD-3-Clause */
/* attribute.h - the inputs and outputs of a uverbs ioctl */
#ifndef MLX5DEV_ATTRIBUTE_H
#define MLX5DEV_ATTRIBUTE_H

#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct call {
	struct ib_uverbs_ioctl_hdr *header;
	int context; /* the descriptor */
	struct device *device;
};

bool attributeHas(const struct call *call, uint32_t id);

/* NULL where there is none. */
const void *attributeIn(const struct call *call, uint32_t id, size_t *bytes);

/* The first `bytes` of it, or zeros. */
void attributeCopy(const struct call *call, uint32_t id, void *to, size_t bytes);

/* A number of up to 8 bytes, a handle or a descriptor; 0 where there is none. */
uint64_t attributeNumber(const struct call *call, uint32_t id);

/* As much as there is room for. */
void attributeOut(const struct call *call, uint32_t id, const void *from, size_t bytes);
void attributeOutHandle(const struct call *call, uint32_t id, uint32_t handle);

/* Room for an answer. */
void *attributeRoom(const struct call *call, uint32_t id, size_t *bytes);

#endif
