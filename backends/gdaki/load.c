/* SPDX-License-Identifier: BSD-3-Clause */
#include "load.h"

#include <stdio.h>

#include "lib/base/plugin.h"

#define PLUGIN "libgin-rdma.so"

const struct rdma *rdmaLoad(char *why, size_t room)
{
	static const struct plugin plugin = {PLUGIN, RDMA_SYMBOL, sizeof(struct rdma)};
	const void *calls = NULL;
	char reason[160];

	switch (pluginOpen(&plugin, &calls, reason, sizeof(reason))) {
	case pluginFound:
		return calls;
	case pluginMissing:
		snprintf(why, room, "%.80s has no " PLUGIN ": build libgin with libibverbs-dev",
			 reason);
		return NULL;
	case pluginBroken:
		snprintf(why, room, "%.90s; install libibverbs1, ibverbs-providers", reason);
		return NULL;
	default:
		snprintf(why, room, "%s", reason);
		return NULL;
	}
}
