/* SPDX-License-Identifier: BSD-3-Clause */
/* place.h - on which CPUs threads run that work for a GPU */
#ifndef GIN_LIB_PLACE_H
#define GIN_LIB_PLACE_H

#include <sched.h>

#include "device.h"

/*
 * CPUs that are near to a PCI device, or if its bus id is not known to a NUMA node, -1: none. 0 when
 * there are none, and *why says why in words that last.
 */
int nearCpus(const char *busId, int numaNode, cpu_set_t *cpus, const char **why);

/*
 * Of the CPUs `own` those where threads should run that work for the device, by GIN_PROXY_AFFINITY.
 * Never none. Says in the log what keeps them from the GPU.
 */
void placeChoose(const struct device *d, const cpu_set_t *own, cpu_set_t *cpus);

/*
 * Of these, those of one thread, and it counts as one that runs there. Its number should tell it
 * from those of other processes of this host.
 */
void placeThread(const cpu_set_t *among, unsigned number, cpu_set_t *cpus);

/* "0-3,8"; cut at the end when there is no room. */
void placeList(const cpu_set_t *cpus, char *out, size_t bytes);

#endif
