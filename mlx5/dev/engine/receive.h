/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.h - receives, of a queue pair's own queue or of a queue that several queue pairs share
 *
 * A message takes a receive, whose completion ends it. Of a shared queue, messages of several queue
 * pairs take entries in turn, and complete them in any order.
 */
#ifndef MLX5DEV_RECEIVE_H
#define MLX5DEV_RECEIVE_H

#include "mlx5/dev/device/device.h"

/* Whether the next message has a receive: one is taken, or posted. */
bool receiveIsPosted(const struct qp *qp);

/* Takes a receive, unless qp has taken one. False: none is posted. */
bool receiveTake(struct qp *qp);

/* Completes the receive that qp has taken; fills in queue pair and index. */
void receiveComplete(struct qp *qp, struct completion *completion);

/*
 * The queue pair is in error: its receives end as flushed. Of a shared queue only the entry that qp
 * has taken ends; an event says that qp takes no more.
 */
void receivesFlush(struct qp *qp);

/* The program asks for an event when fewer than `limit` entries are left. */
void receiveLimit(struct srq *srq, uint32_t limit);

#endif
