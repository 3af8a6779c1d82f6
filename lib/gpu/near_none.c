/* SPDX-License-Identifier: BSD-3-Clause */
/* near_none.c - without hwloc nothing is known of what is near */
#include "place.h"

int nearCpus(const char *busId, int numaNode, cpu_set_t *cpus, const char **why)
{
	(void)busId;
	(void)numaNode;
	(void)cpus;
	*why = "libgin was built without hwloc";
	return 0;
}
