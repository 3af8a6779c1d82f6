/* SPDX-License-Identifier: BSD-3-Clause */
#include "uar.h"

#include <errno.h>

#include "say.h"

/* Of libmlx5 45 and later, whatever the headers are; older ones refuse it. */
#define UAR_NC_DEDICATED (1u << 31)

int uarOpen(struct rdmaPort *port, struct uar *out, char *why)
{
	static const struct {
		uint32_t flags;
		const char *kind;
	} kinds[] = {
		{UAR_NC_DEDICATED, "NC_DEDICATED"},
		{MLX5DV_UAR_ALLOC_TYPE_NC, "NC"},
		{MLX5DV_UAR_ALLOC_TYPE_BF, "BF"},
	};
	struct mlx5dv_devx_uar *uar = NULL;
	size_t i = 0;

	while (i < sizeof(kinds) / sizeof(kinds[0]) && !uar)
		uar = mlx5dv_devx_alloc_uar(port->context, kinds[i++].flags);
	if (!uar)
		return sayErrno(why, errno, "a doorbell register of any kind");
	*out = (struct uar){uar, kinds[i - 1].kind};
	return 0;
}
