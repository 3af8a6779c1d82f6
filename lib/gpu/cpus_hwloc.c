/* SPDX-License-Identifier: BSD-3-Clause */
/* cpus_hwloc.c - the CPUs closest to a device, by hwloc */
#include <hwloc/glibc-sched.h>

#include "cpus.h"
#include "hwloc_load.h"

/* The piece of the machine to which the device is connected, or its NUMA node; NULL: not known. */
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
	hwloc_topology_t topology = hwlocLoad(0);

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
