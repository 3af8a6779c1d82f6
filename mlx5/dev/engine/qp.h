/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * qp.h - a queue pair's life: known to its device and to peers, reset, in error, gone
 */
#ifndef MLX5DEV_QP_H
#define MLX5DEV_QP_H

#include "mlx5/dev/device/device.h"

void qpAdd(struct qp *qp);
void qpDestroy(struct qp *qp);
void qpReset(struct qp *qp);

/* Work requests in flight, and later ones, are flushed. */
void qpError(struct qp *qp);

#endif
