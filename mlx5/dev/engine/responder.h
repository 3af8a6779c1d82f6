/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * responder.h - requests of peers: placed in this process's memory, and answered
 */
#ifndef MLX5DEV_RESPONDER_H
#define MLX5DEV_RESPONDER_H

#include "mlx5/dev/device/device.h"

/* Queues a request at the queue pair it is for; a request for an unknown queue pair is answered. */
void responderTake(const struct packet *packet);

/* Executes requests in order. Returns whether more can be done now. */
bool responderStep(struct qp *qp);

#endif
