/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * execute.h - what a work request does: local access, and packets to the peer
 */
#ifndef MLX5DEV_EXECUTE_H
#define MLX5DEV_EXECUTE_H

#include "wqe.h"

/* 0 or the syndrome of what is wrong with it. The request's sequence is set. */
uint8_t execute(struct qp *qp, struct request *request, const struct wqe *wqe);

#endif
