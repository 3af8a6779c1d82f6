/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * late.h - how data gets to memory: at once and in order, or, with an adversary, in pieces, in any
 * order, and late where an ordering point has not come yet
 *
 * Ordering points of a device: data or an atomic for a region without relaxed ordering, a READ, a
 * DUMP. They are PCIe's, which knows no queue pairs: neither a read nor a write that is not relaxed
 * passes writes that were sent before. Of a queue pair: a completion, but with `weakcqe` not for
 * the data of a READ.
 *
 * With `weakcqe`, data for a GPU's memory is late, too: PCIe orders writes to one destination only.
 * Its ordering points are accesses without relaxed ordering, READs and DUMPs of a GPU's memory
 * alone; completions say nothing about it. A region by dma-buf counts as a GPU's.
 */
#ifndef MLX5DEV_LATE_H
#define MLX5DEV_LATE_H

#include "device.h"

/* `late`: data for `mr` may stay away until lateFlush(). */
void latePlace(struct qp *qp, const struct mr *mr, uint64_t to, const void *data, uint32_t bytes,
	       bool late);

/* All of it, now. */
void lateFlush(struct qp *qp);
void lateFlushAll(struct device *device);

/* What is ordered before a write to the host's memory. */
void lateFlushHost(struct qp *qp);
void lateFlushHostAll(struct device *device);

/* What is ordered before a read of `mr`. */
void lateFlushBeforeRead(const struct mr *mr);

/* Some of it comes by itself. Whether there is more. */
bool lateTrickle(struct qp *qp);

#endif
