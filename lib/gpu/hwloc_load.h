/* SPDX-License-Identifier: BSD-3-Clause */
/* hwloc_load.h - loads the topology of this machine by hwloc; gin_info includes it, too */
#ifndef GIN_LIB_HWLOC_LOAD_H
#define GIN_LIB_HWLOC_LOAD_H

#include <hwloc.h>

/*
 * Leaves out hwloc components that start a GPU's run-time system. Without `isWhole`, also leaves
 * out caches, devices other than PCI's, and components that run on every CPU or read the names of
 * all PCI devices: sysfs is enough to find a device. NULL when hwloc fails.
 */
static inline hwloc_topology_t hwlocLoad(int isWhole)
{
	static const char *const leftOut[] = {"cuda",	   "nvml", "opencl", "rsmi",
					      "levelzero", "gl",   "x86",    "pci"};
	hwloc_topology_t topology;

	if (hwloc_topology_init(&topology))
		return NULL;
	for (int i = 0; i < (isWhole ? 6 : 8); i++)
		hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
					      leftOut[i]);
	if (!isWhole)
		hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
	hwloc_topology_set_io_types_filter(topology, isWhole ? HWLOC_TYPE_FILTER_KEEP_IMPORTANT
							     : HWLOC_TYPE_FILTER_KEEP_NONE);
	hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PCI_DEVICE,
				       HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	if (!hwloc_topology_load(topology))
		return topology;
	hwloc_topology_destroy(topology);
	return NULL;
}

#endif
