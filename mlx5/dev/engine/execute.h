/* SPDX-License-Identifier: BSD-3-Clause */
/* execute.h - executes a work request: local access, and packets to the peer */
#ifndef MLX5DEV_EXECUTE_H
#define MLX5DEV_EXECUTE_H

#include "wqe.h"

/* 0, or the syndrome of its error. The request's sequence is set. */
uint8_t execute(struct qp *qp, struct request *request, const struct wqe *wqe);

#endif
