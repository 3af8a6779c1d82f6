/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * completion.h - completion queue entries, in full and collapsed queues
 */
#ifndef MLX5DEV_COMPLETION_H
#define MLX5DEV_COMPLETION_H

#include "mlx5/dev/device/device.h"

/* Written at once; an adversary may hold it. The queue pair's stay in order. */
void completionAdd(struct cq *cq, const struct completion *completion);

/* Drops the completions of a queue pair that is reset or destroyed. */
void completionsForget(struct qp *qp);

/* Writes the completions that are due; returns the time of the next one, or 0. */
uint64_t completionsDue(uint64_t now);

/* The queue's doorbell: it asks for an event. */
void completionArm(struct cq *cq);

/* Whether its record asks for another event than it did before. */
bool completionAsks(const struct cq *cq);

#endif
