/* SPDX-License-Identifier: BSD-3-Clause */
/* uar.h - doorbell registers */
#ifndef GIN_NIC_UAR_H
#define GIN_NIC_UAR_H

#include "port.h"

struct uar {
	struct mlx5dv_devx_uar *uar;
	const char *kind;
};

/*
 * The best kind that this libmlx5, kernel and device have: a register of its own that is not cached
 * (NC_DEDICATED), one that all of the process share (NC), one with a buffer (BF).
 */
int uarOpen(struct rdmaPort *port, struct uar *out, char *why);

#endif
