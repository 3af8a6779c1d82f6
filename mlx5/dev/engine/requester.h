/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * requester.h - work requests: from the doorbell to the completion
 */
#ifndef MLX5DEV_REQUESTER_H
#define MLX5DEV_REQUESTER_H

#include "mlx5/dev/device/device.h"

/* Whether a doorbell for `index` says less than the one before. A whole ring of 32768 is more. */
bool requesterIsBehind(const struct qp *qp, uint16_t index);

/* The send queue goes up to `index`, 16 bits of it. */
void requesterRing(struct qp *qp, uint16_t index);

/* Starts and completes work requests as far as possible. Returns whether more can be done now. */
bool requesterStep(struct qp *qp);

/* Takes an answer; an unexpected one is dropped. */
void requesterTake(const struct packet *packet);

/* The peer process is gone. */
void requesterPeerDied(int pid);

#endif
