/* SPDX-License-Identifier: BSD-3-Clause */
/* cpus_hwloc.c - the CPUs closest to a device, by hwloc */
#include <hwloc.h>
#include <hwloc/glibc-sched.h>

#include "cpus.h"

/*
 * Leaves out hwloc components that start a GPU's run-time system, run on every CPU or read the
 * names of all PCI devices. sysfs alone says where a device is.
 */
static void leaveOut(hwloc_topology_t topology)
{
	static const char *const names[] = {"cuda",	 "nvml", "opencl", "rsmi",
					    "levelzero", "gl",	 "x86",	   "pci"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
					      names[i]);
}

/* NULL when hwloc fails. */
static hwloc_topology_t loadTopology(void)
{
	hwloc_topology_t topology;

	if (hwloc_topology_init(&topology))
		return NULL;
	leaveOut(topology);
	hwloc_topology_set_cache_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
	hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
	hwloc_topology_set_type_filter(topology, HWLOC_OBJ_PCI_DEVICE,
				       HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
	if (!hwloc_topology_load(topology))
		return topology;
	hwloc_topology_destroy(topology);
	return NULL;
}

/* The part of the machine to which the device is connected, else its NUMA node; NULL: unknown. */
static hwloc_obj_t partNear(hwloc_topology_t topology, const char *busId, int numaNode)
{
	hwloc_obj_t device = hwloc_get_pcidev_by_busidstring(topology, busId);

	if (device)
		return hwloc_get_non_io_ancestor_obj(topology, device);
	return numaNode < 0 ? NULL
			    : hwloc_get_numanode_obj_by_os_index(topology, (unsigned)numaNode);
}

int cpusNear(const char *busId, int numaNode, cpu_set_t *cpus, const char **why)
{
	hwloc_topology_t topology = loadTopology();

	if (!topology) {
		*why = "hwloc cannot read the topology of this machine";
		return 0;
	}
	hwloc_obj_t part = partNear(topology, busId, numaNode);
	int known =
		part && part->cpuset && !hwloc_bitmap_iszero(part->cpuset) &&
		!hwloc_cpuset_to_glibc_sched_affinity(topology, part->cpuset, cpus, sizeof(*cpus));
	hwloc_topology_destroy(topology);
	if (!known)
		*why = "hwloc does not know where the GPU is connected";
	return known;
}
