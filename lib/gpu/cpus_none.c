/* SPDX-License-Identifier: BSD-3-Clause */
/* cpus_none.c - without hwloc, no CPU is known to be close to a device */
#include "cpus.h"

int cpusNear(const char *busId, int numaNode, cpu_set_t *cpus, const char **why)
{
	(void)busId;
	(void)numaNode;
	(void)cpus;
	*why = "libgin was built without hwloc";
	return 0;
}
